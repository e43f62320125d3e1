//! Mutation tests with cargo-mutants: one expression of the code that decides and records is changed at a time,
//! and the unit tests of its crate must notice. Survivors are justified in `xtask/mutant-survivors.txt`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process;
use crate::tree::Root;

use super::campaign::Session;
use super::summary::Summary;

const VERSION: &str = "27.1.0";
/// Installed tool and build folder.
const TOOLS: &str = "target/tools";
const BUILD: &str = "target/mutants";
const SURVIVORS: &str = "xtask/mutant-survivors.txt";
/// Least share of mutants that the tests notice, in percent, and the number of mutants from which a share says more
/// than the single survivors do.
const LEAST_CAUGHT: u64 = 95;
const SHARE_NEEDS: u64 = 100;
/// Number of mutants in all files below.
pub(crate) const MUTANTS: u64 = 924;

/// Package, the number of its mutants, and its files whose code decides or records.
type Package = (&'static str, u64, &'static [&'static str]);

const FILES: &[Package] = &[
    (
        "governance",
        295,
        &[
            "judge.rs",
            "judge/*.rs",
            "path_rules.rs",
            "tool_rules.rs",
            "command_rules.rs",
            "host_rules.rs",
            "mode_rules.rs",
            "rates.rs",
            "safety_rules.rs",
        ],
    ),
    ("guardrail", 126, &["check.rs", "requirement.rs"]),
    ("ledger", 209, &["line.rs", "chain.rs", "chain_verifier.rs", "recover.rs", "anchor.rs"]),
    ("approvals", 193, &["queue.rs", "display_escape.rs", "rule.rs", "caller_share.rs"]),
    ("execution", 101, &["limits.rs", "limits/*.rs"]),
];

/// Results of some mutants.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    caught: u64,
    /// Mutants that do not compile, or whose tests could not be built.
    unviable: u64,
    missed: BTreeSet<String>,
}

/// Runs a share of all mutants, which the seed selects. A small share is of one package, which the seed selects too, as
/// each package is built before its first mutant.
pub(crate) fn run(session: &Session<'_>) -> Result<Summary> {
    let tool = install(session.root)?;
    let mut tally = Tally::default();
    let (packages, total, shard) = selection(session.count, session.seed);
    let shards = (total / session.count.clamp(1, total)).max(1);
    for (package, _, files) in packages {
        let output = session.root.path().join(BUILD).join(package);
        std::fs::create_dir_all(&output).with_context(|| format!("cannot create `{}`", output.display()))?;
        let mut mutants = session.root.command(&tool.display().to_string(), &["mutants", "-p", package]);
        for file in *files {
            mutants.args(["-f", &format!("crates/{package}/src/{file}")]);
        }
        mutants.args(["--shard", &format!("{}/{shards}", shard % shards), "--sharding", "round-robin"]);
        mutants.args(["--no-shuffle", "--baseline", "skip", "--timeout", "300", "--cap-lints", "true"]);
        mutants.arg("-o").arg(&output).args(["--", "--lib"]);
        mutants.env("CARGO_TARGET_DIR", session.root.path().join(BUILD).join("build"));
        // A mutant that a few cases do not reveal is not worth a million.
        mutants.envs([("SINEW_JUDGE_CASES", "20000"), ("SINEW_APPROVAL_SCHEDULES", "50")]);
        // The exit status reports survivors too, which the tally judges.
        let _ = process::watch(&mut mutants, |_| {})?;
        let outcomes = std::fs::read_to_string(output.join("mutants.out/outcomes.json"))
            .with_context(|| format!("cargo-mutants reported nothing on `{package}`"))?;
        tally.add(&serde_json::from_str(&outcomes).context("outcomes.json is not JSON")?);
    }
    let justified = std::fs::read_to_string(session.root.path().join(SURVIVORS)).unwrap_or_default();
    let mut summary = tally.judge(&justified)?;
    let names: Vec<&str> = packages.iter().map(|(package, ..)| *package).collect();
    summary.notes = format!("{}: {}", names.join(", "), summary.notes);
    Ok(summary)
}

/// Packages of a run, the number of their mutants, and the number that selects a share of each.
fn selection(count: u64, seed: u64) -> (&'static [Package], u64, u64) {
    if count >= SHARE_NEEDS {
        return (FILES, MUTANTS, seed);
    }
    let packages = FILES.len() as u64;
    let at = usize::try_from(seed % packages).unwrap_or_default();
    let one = FILES.get(at..=at).unwrap_or(FILES);
    (one, one.iter().map(|(_, mutants, _)| mutants).sum(), seed / packages)
}

/// Returns the program, installed from the registry where it is missing.
fn install(root: &Root) -> Result<PathBuf> {
    let tool = root.path().join(TOOLS).join("bin/cargo-mutants");
    if !tool.is_file() {
        let arguments = ["install", "cargo-mutants", "--locked", "--version", VERSION, "--root", TOOLS];
        process::run(&mut root.cargo(&arguments))?;
    }
    Ok(tool)
}

impl Tally {
    /// Adds the outcomes of one package.
    fn add(&mut self, outcomes: &Value) {
        let text = |outcome: &Value, path: &str| outcome.pointer(path)?.as_str().map(str::to_owned);
        for outcome in outcomes.get("outcomes").and_then(Value::as_array).into_iter().flatten() {
            let name = text(outcome, "/scenario/Mutant/name");
            match (text(outcome, "/summary").as_deref(), name.as_deref()) {
                (Some("CaughtMutant" | "Timeout"), Some(_)) => self.caught += 1,
                (Some("MissedMutant"), Some(name)) => drop(self.missed.insert(without_place(name))),
                (_, Some(_)) => self.unviable += 1,
                _ => {}
            }
        }
    }

    /// Fails if a survivor is not justified, or if too many survive.
    fn judge(&self, justified: &str) -> Result<Summary> {
        let known: BTreeSet<&str> =
            justified.lines().filter(|line| !line.starts_with(['#', ' '])).map(str::trim).collect();
        let open: Vec<&String> = self.missed.iter().filter(|name| !known.contains(name.as_str())).collect();
        if !open.is_empty() {
            bail!("no test notices these mutants, and `{SURVIVORS}` does not justify them: {open:#?}");
        }
        let (caught, missed) = (self.caught, self.missed.len() as u64);
        let is_share = caught + missed >= SHARE_NEEDS;
        if caught == 0 || is_share && caught * 100 < LEAST_CAUGHT * (caught + missed) {
            bail!("{caught} caught and {missed} missed are less than {LEAST_CAUGHT} % caught");
        }
        let notes =
            format!("{caught} caught, {missed} survivors justified, {} did not compile", self.unviable);
        Ok(Summary { figure: caught + missed, notes })
    }
}

/// Name of a mutant without line and column, which change with every edit.
fn without_place(name: &str) -> String {
    let (file, rest) = name.split_once(".rs:").unwrap_or((name, ""));
    let mutation = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':').trim();
    format!("{file}.rs: {mutation}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn outcome(summary: &str, name: &str) -> Value {
        json!({"summary": summary, "scenario": {"Mutant": {"name": name}}})
    }

    #[test]
    fn survivors_need_a_justification_and_a_small_share() {
        let missed = "crates/a/src/b.rs:7:5: replace f -> bool with true";
        let caught = (0..99).map(|n| outcome("CaughtMutant", &format!("a.rs:{n}: x")));
        let outcomes: Vec<Value> = caught.chain([outcome("MissedMutant", missed)]).collect();
        let mut tally = Tally::default();
        tally.add(&json!({"outcomes": outcomes}));
        tally.add(&json!({"outcomes": [{"summary": "Success", "scenario": "Baseline"}, outcome("Unviable", "c.rs:1: y")]}));
        assert_eq!((tally.caught, tally.unviable, tally.missed.len()), (99, 1, 1));
        let error = tally.judge("# head\n").unwrap_err().to_string();
        assert!(error.contains("crates/a/src/b.rs: replace f -> bool with true"), "{error}");
        let justified = "crates/a/src/b.rs: replace f -> bool with true\n  It is the same.\n";
        assert_eq!(tally.judge(justified).unwrap().figure, 100);
        tally.missed.extend((0..9).map(|n| format!("d{n}.rs: z")));
        let justified = format!("{justified}{}", (0..9).map(|n| format!("d{n}.rs: z\n")).collect::<String>());
        assert!(tally.judge(&justified).unwrap_err().to_string().contains("95 %"));
        tally.caught = 80;
        assert_eq!(tally.judge(&justified).unwrap().figure, 90, "too few for a share");
    }

    #[test]
    fn a_small_share_is_of_one_package() {
        let all: u64 = FILES.iter().map(|(_, mutants, _)| mutants).sum();
        assert_eq!(all, MUTANTS);
        assert_eq!(selection(MUTANTS, 7).0.len(), FILES.len());
        let (one, mutants, shard) = selection(20, 7);
        assert_eq!((one.len(), one[0].0, mutants, shard), (1, "ledger", 209, 1));
    }
}
