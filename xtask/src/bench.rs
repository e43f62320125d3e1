//! `cargo xtask bench`: measures the cost of a governed call, on the shipped build with all checks on.
//!
//! The times belong to one run on one machine: compare them with each other, not with those of another day.
//! Programs that are compared are measured in alternating rounds, so that a noisy moment affects all of them.

mod baseline;
mod chart;
mod collector;
mod conversation;
mod counts;
mod daemon;
mod echo;
mod growth;
mod hook;
#[cfg(target_os = "linux")]
mod kernel;
mod life;
mod page;
mod peers;
mod read;
mod records;
mod results;
mod spawn;
mod table;
mod tools;
mod training;
mod validator;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use crate::dist;
use crate::process;
use crate::tree::Root;
use baseline::Baseline;
use results::Results;

pub(crate) use echo::{OtherEnd, WORD as ECHO};
pub(crate) use training::train;

/// The crates whose own cost has a bound, each with an example that measures it.
const MEASURED: [&str; 5] = ["guardrail", "governance", "ledger", "telemetry", "knowledge"];
/// Committed figures that `--check` compares a run with.
const BASELINE: &str = "docs/benchmarks/baseline.json";
const PAGE: &str = "docs/benchmarks.md";
const CHART: &str = "docs/benchmarks/chart.svg";

/// Variable that names another build of the program to measure instead of this tree's.
const OTHER_BUILD: &str = "SINEW_BIN";

/// Options of a benchmark run.
#[derive(Debug, PartialEq, Eq, Args)]
pub(crate) struct BenchOptions {
    /// Run fewer rounds and smaller sizes, which takes two minutes
    #[arg(long)]
    quick: bool,
    /// Install other programs and measure them as well
    #[arg(long)]
    peers: bool,
    /// Measure only this part
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
    /// Fail if a figure is worse than the committed baseline
    #[arg(long)]
    check: bool,
    /// Save this run as the baseline and as docs/benchmarks.md
    #[arg(long, conflicts_with_all = ["check", "only"])]
    save: bool,
}

/// Part of the benchmark that `--only` can select.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Read,
    Telemetry,
    Spawn,
    Validator,
    Hook,
    Life,
    Growth,
    Tools,
    Records,
    Counts,
    Stages,
}

/// Length of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Full,
    /// Two minutes: fewer rounds, and shorter axes.
    Quick,
}

impl Length {
    /// Number of rounds for this length: `full`, or a fifth of it.
    fn of(self, full: usize) -> usize {
        match self {
            Length::Full => full,
            Length::Quick => full.div_ceil(5),
        }
    }
}

pub(crate) fn command(root: &Root, options: &BenchOptions) -> Result<()> {
    let binary = match std::env::var_os(OTHER_BUILD) {
        Some(binary) => PathBuf::from(binary),
        None => dist::program(root)?,
    };
    let folder = root.path().join("target/bench");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    let results = measure(root, &binary, &folder, options)?;
    let machine = page::machine_class();
    println!("{}\n\n{machine}", table::plain(&results));
    let file = folder.join("results.json");
    std::fs::write(&file, format!("{:#}\n", results.to_json(&machine)))?;
    println!("the same as JSON: {}", file.display());
    if options.check {
        check(root, &results)?;
    }
    if options.save {
        save(root, &results, &machine)?;
    }
    Ok(())
}

fn measure(root: &Root, binary: &Path, folder: &Path, options: &BenchOptions) -> Result<Results> {
    let mut results = Results::default();
    let length = if options.quick { Length::Quick } else { Length::Full };
    let peers = if options.peers { peers::install(root, &mut results)? } else { peers::none(&mut results) };
    let beside = (&peers, length);
    for part in Part::value_variants().iter().filter(|part| options.only.is_none_or(|only| only == **part)) {
        println!("… {part:?}");
        match part {
            Part::Read => read::measure(binary, folder, beside, &mut results),
            Part::Telemetry => collector::compare(binary, folder, length, &mut results),
            Part::Spawn => spawn::measure(root, folder, beside, &mut results),
            Part::Validator => validator::measure(binary, folder, beside, &mut results),
            Part::Hook => hook::measure(binary, folder, length, &mut results),
            Part::Life => life::measure(binary, folder, length, &mut results),
            Part::Growth => growth::measure(binary, folder, length, &mut results),
            Part::Tools => tools::measure(binary, folder, beside, &mut results),
            Part::Records => records::measure(binary, folder, length, &mut results),
            Part::Counts => counts::count(root, binary, folder, &mut results),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_run_does_a_fifth_and_at_least_one_round() {
        assert_eq!((Length::Full.of(20), Length::Quick.of(20), Length::Quick.of(1)), (20, 4, 1));
    }
}
