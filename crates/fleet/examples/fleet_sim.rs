//! Runs simulations of a fleet: `cargo xtask fleet-sim`.

#![allow(clippy::print_stdout)] // a program for the terminal

use std::process::ExitCode;
use std::time::Instant;

use fleet::simulation::{BrokenRule, SimulationOptions, simulate};

/// Reads the arguments `HOSTS EVENTS SEED RUNS BROKEN`, which `cargo xtask fleet-sim` checks.
fn options() -> Option<(SimulationOptions, u64)> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [hosts, events, seed, runs, broken] = arguments.as_slice() else { return None };
    let broken = match broken.as_str() {
        "none" => BrokenRule::None,
        "repeat-after-window" => BrokenRule::RepeatAfterWindow,
        "placed-again" => BrokenRule::PlacedAgain,
        "unsynced-records" => BrokenRule::UnsyncedRecords,
        _ => return None,
    };
    let (hosts, events, seed) = (hosts.parse().ok()?, events.parse().ok()?, seed.parse().ok()?);
    Some((SimulationOptions { hosts, events, seed, broken }, runs.parse().ok()?))
}

fn main() -> ExitCode {
    let Some((options, runs)) = options() else {
        eprintln!("usage: fleet_sim HOSTS EVENTS SEED RUNS BROKEN; run it with `cargo xtask fleet-sim`");
        return ExitCode::from(2);
    };
    let mut failed = 0;
    for run in 0..runs {
        let seed = options.seed + run;
        let begun = Instant::now();
        let report = simulate(SimulationOptions { seed, ..options });
        println!("seed {seed}: {report} ({:.1} s)", begun.elapsed().as_secs_f64());
        failed += u64::from(!report.violations.is_empty());
    }
    println!("{runs} runs with {} hosts, {failed} with a violated invariant", options.hosts);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
