//! `cargo xtask ci`: everything that must hold before a change is merged. The first step that fails ends the run and
//! says how to repeat it alone.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::test::{self, Counts};
use crate::tree::Root;
use crate::{macos, process, tidy};

/// One thing to check, under the name that `--only` takes.
struct Step {
    name: &'static str,
    run: fn(&Root) -> Result<Passed>,
}

/// What a step that passed has to tell.
enum Passed {
    Quietly,
    Skipped(&'static str),
    Tests(Counts),
}

const STEPS: &[Step] = &[
    Step { name: "fmt", run: fmt },
    Step { name: "clippy", run: clippy },
    Step { name: "tidy", run: |root| tidy::command(root).map(|()| Passed::Quietly) },
    Step { name: "test", run: tests },
    Step { name: "doc", run: doc },
    Step { name: "deny", run: deny },
    Step { name: "macos", run: |root| macos::check(root).map(|()| Passed::Quietly) },
];

/// Which steps to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    All,
    Only(&'static str),
}

impl Selection {
    /// Reads `--only STEP`.
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            [] => Ok(Selection::All),
            ["--only", name] => match STEPS.iter().find(|step| step.name == *name) {
                Some(step) => Ok(Selection::Only(step.name)),
                None => Err(format!("there is no step `{name}`; the steps are {}", names())),
            },
            _ => Err(format!("`ci` takes `--only STEP` or nothing; the steps are {}", names())),
        }
    }

    fn takes(&self, step: &Step) -> bool {
        match self {
            Selection::All => true,
            Selection::Only(name) => step.name == *name,
        }
    }
}

fn names() -> String {
    STEPS.iter().map(|step| step.name).collect::<Vec<_>>().join(", ")
}

/// The task.
pub(crate) fn command(root: &Root, selection: &Selection) -> Result<()> {
    let mut rows = Vec::new();
    let mut counts = None;
    let mut failure = None;
    for step in STEPS.iter().filter(|step| selection.takes(step)) {
        println!("\n== {}", step.name);
        let started = Instant::now();
        let outcome = (step.run)(root);
        let took = started.elapsed();
        println!("== {}: {} in {}", step.name, if outcome.is_ok() { "ok" } else { "failed" }, seconds(took));
        match outcome {
            Ok(Passed::Quietly) => rows.push(row(step.name, "ok", took)),
            Ok(Passed::Skipped(why)) => rows.push(row(step.name, &format!("skipped: {why}"), took)),
            Ok(Passed::Tests(ran)) => {
                counts = Some(ran);
                rows.push(row(step.name, &format!("ok: {ran}"), took));
            }
            Err(error) => {
                rows.push(row(step.name, "failed", took));
                failure = Some((step.name, error));
                break;
            }
        }
    }
    println!("\n{}", rows.join("\n"));
    if let Some((name, error)) = failure {
        bail!("{error:#}\nstep `{name}` failed; repeat it alone with: cargo xtask ci --only {name}");
    }
    if let Some(counts) = counts {
        println!("\n{counts}");
    }
    Ok(())
}

fn row(name: &str, result: &str, took: Duration) -> String {
    format!("{name:<8}{:>9}  {result}", seconds(took))
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

fn fmt(root: &Root) -> Result<Passed> {
    process::run(&mut root.cargo(&["fmt", "--all", "--check"]))?;
    Ok(Passed::Quietly)
}

fn clippy(root: &Root) -> Result<Passed> {
    process::run(&mut root.cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    Ok(Passed::Quietly)
}

fn tests(root: &Root) -> Result<Passed> {
    let (counts, ended) = test::run(root, &[])?;
    if let Err(error) = test::verdict(counts, ended) {
        bail!("{error}: {counts}");
    }
    Ok(Passed::Tests(counts))
}

fn doc(root: &Root) -> Result<Passed> {
    process::run(root.cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Passed::Quietly)
}

/// Licences, sources and doubled versions of what we depend on. Advisories need a fetched database: not here.
fn deny(root: &Root) -> Result<Passed> {
    if !process::works(&mut root.cargo(&["deny", "--version"])) {
        return Ok(Passed::Skipped("cargo-deny is not installed"));
    }
    process::run(&mut root.cargo(&["deny", "check", "bans", "licenses", "sources"]))?;
    Ok(Passed::Quietly)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str], expect: Result<Selection, &str>) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match (Selection::parse(&words), expect) {
            (Err(said), Err(part)) => assert!(said.contains(part), "{said}"),
            (got, expect) => assert_eq!(got, expect.map_err(str::to_owned), "{words:?}"),
        }
    }

    #[test]
    fn one_step_can_be_chosen_by_name() {
        check(&[], Ok(Selection::All));
        check(&["--only", "clippy"], Ok(Selection::Only("clippy")));
        check(&["--only", "clipy"], Err("the steps are fmt, clippy, tidy, test"));
        check(&["--only"], Err("`--only STEP`"));
        check(&["fast"], Err("`--only STEP`"));
    }

    #[test]
    fn a_selection_takes_its_step_and_no_other() {
        let chosen: Vec<&str> =
            STEPS.iter().filter(|step| Selection::Only("doc").takes(step)).map(|step| step.name).collect();
        assert_eq!(chosen, ["doc"]);
        assert!(STEPS.iter().all(|step| Selection::All.takes(step)));
    }
}
