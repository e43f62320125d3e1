//! `cargo xtask bench`: measures the cost of a governed call, on the shipped build with all checks on.
//!
//! The times belong to one run on one machine: compare them with each other, not with those of another day.
//! Programs that are compared are measured in alternating rounds, so that a noisy moment affects all of them.

mod baseline;
mod chart;
mod collector;
mod conversation;
mod daemon;
mod echo;
mod growth;
mod hook;
mod instructions;
#[cfg(target_os = "linux")]
mod kernel;
mod ledger_share;
mod life;
mod machine;
mod page;
mod peers;
mod read;
mod results;
mod spawn;
mod table;
mod times;
mod training;
mod validator;
mod wish;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::dist;
use crate::process;
use crate::tree::Root;
use baseline::Baseline;
use results::Results;
use wish::{Afterwards, Length, PARTS, Part};

pub(crate) use echo::{OtherEnd, WORD as ECHO};
pub(crate) use training::train;
pub(crate) use wish::Wish;

/// The crates whose own cost has a bound, each with an example that measures it.
const MEASURED: [&str; 5] = ["guardrail", "governance", "ledger", "telemetry", "knowledge"];
/// Committed figures that `--check` compares a run with.
const BASELINE: &str = "docs/benchmarks/baseline.json";
const PAGE: &str = "docs/benchmarks.md";
const CHART: &str = "docs/benchmarks/chart.svg";

/// Variable that names another build of the program to measure instead of this tree's.
const OTHER_BUILD: &str = "SINEW_BIN";

pub(crate) fn command(root: &Root, wish: &Wish) -> Result<()> {
    let binary = match std::env::var_os(OTHER_BUILD) {
        Some(binary) => PathBuf::from(binary),
        None => dist::program(root)?,
    };
    let folder = root.path().join("target/bench");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    let results = measure(root, &binary, &folder, wish)?;
    let machine = machine::class();
    println!("{}\n\n{machine}", table::plain(&results));
    let file = folder.join("results.json");
    std::fs::write(&file, format!("{:#}\n", results.to_json(&machine)))?;
    println!("the same as JSON: {}", file.display());
    match wish.afterwards {
        Afterwards::Shown => Ok(()),
        Afterwards::Checked => check(root, &results),
        Afterwards::Saved => save(root, &results, &machine),
    }
}

fn measure(root: &Root, binary: &Path, folder: &Path, wish: &Wish) -> Result<Results> {
    let (mut results, length) = (Results::default(), wish.length);
    let peers = peers::install(root, wish.peers, &mut results)?;
    let beside = (&peers, length);
    for (name, part) in PARTS.iter().filter(|(_, part)| wish.only.is_none_or(|only| only == *part)) {
        println!("… {name}");
        match part {
            Part::Read => read::measure(binary, folder, beside, &mut results),
            Part::Telemetry => collector::compare(binary, folder, length, &mut results),
            Part::Spawn => spawn::measure(root, folder, beside, &mut results),
            Part::Validator => validator::measure(binary, folder, beside, &mut results),
            Part::Hook => hook::measure(binary, folder, length, &mut results),
            Part::Life => life::measure(binary, folder, length, &mut results),
            Part::Growth => growth::measure(binary, folder, length, &mut results),
            Part::Instructions => instructions::count(root, binary, folder, &mut results),
            Part::Stages if length == Length::Quick => Ok(()),
            Part::Stages => MEASURED.iter().try_for_each(|name| stage(root, name)),
        }?;
    }
    Ok(results)
}

/// Runs the example that measures one stage of the pipeline by itself.
fn stage(root: &Root, name: &str) -> Result<()> {
    println!();
    process::run(&mut root.cargo(&["run", "--quiet", "--release", "-p", name, "--example", "measure"]))
}

fn check(root: &Root, results: &Results) -> Result<()> {
    let baseline = Baseline::read(&root.path().join(BASELINE))?;
    for name in baseline.unknown(results) {
        println!("not in the baseline: {name}");
    }
    let worse = baseline.regressions(results);
    if worse.is_empty() {
        println!("nothing is worse than the baseline");
        return Ok(());
    }
    bail!("worse than the baseline:\n  {}", worse.join("\n  "))
}

fn save(root: &Root, results: &Results, machine: &str) -> Result<()> {
    let at = |file: &str| root.path().join(file);
    std::fs::create_dir_all(at("docs/benchmarks"))?;
    std::fs::write(at(BASELINE), Baseline::of(results).to_text())?;
    page::write(&at(PAGE), &at(CHART), results, (machine, &[read::ALONE, spawn::GROUP]))?;
    println!("written: {BASELINE}, {PAGE}, {CHART}");
    Ok(())
}
