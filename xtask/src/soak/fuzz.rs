//! Fuzzing of every reader of untrusted text with libFuzzer. `tests/fuzz` holds the targets, one file each, and
//! their first inputs. The pinned toolchain builds them: coverage by stable compiler options, no sanitizer,
//! because the readers are safe Rust.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::process::{self, Ended};
use crate::project;

use super::campaign::Session;
use super::summary::Summary;

const MANIFEST: &str = "tests/fuzz/Cargo.toml";
const TARGETS: &str = "tests/fuzz/fuzz_targets";
/// First inputs of each target.
const CORPUS: &str = "tests/fuzz/corpus";
/// Builds, grown inputs and inputs that crashed.
const BUILD: &str = "target/fuzz";
/// Coverage that libFuzzer reads, and the condition under which crates export their private readers.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=4";
/// Start of the line in which libFuzzer reports the number of inputs.
const EXECUTED: &str = "stat::number_of_executed_units:";

/// Runs all targets, each for the same share of the time. `SINEW_FUZZ_TARGET` selects one.
pub(crate) fn run(session: &Session<'_>) -> Result<Summary> {
    let root = session.root;
    let host = project::host_target(root)?;
    let mut build = root.cargo(&["build", "--manifest-path", MANIFEST, "--release", "--target", &host]);
    process::run(build.args(["--target-dir", BUILD]).env("RUSTFLAGS", FLAGS))?;
    let only = std::env::var("SINEW_FUZZ_TARGET").ok();
    let mut targets = target_names(&root.path().join(TARGETS))?;
    targets.retain(|name| only.as_ref().is_none_or(|only| only == name));
    let Some(count) = u64::try_from(targets.len()).ok().filter(|count| *count > 0) else {
        bail!("no fuzz target is called `{}`", only.unwrap_or_default());
    };
    let programs = root.path().join(BUILD).join(host).join("release");
    let (seconds, inputs) = (u64::from(session.minutes) * 60 / count, session.count / count);
    let mut figures = Vec::new();
    for name in &targets {
        figures.push(run_target(session, &programs.join(name), name, (seconds.max(1), inputs.max(1)))?);
    }
    let fewest = figures.iter().zip(&targets).min().map(|(figure, name)| format!("{figure} of `{name}`"));
    let notes = format!("{count} targets, fewest inputs: {}", fewest.unwrap_or_default());
    Ok(Summary { figure: figures.iter().sum(), notes })
}

/// Runs one target and returns the number of inputs. A crash leaves its input in `target/fuzz/crashes`.
fn run_target(
    session: &Session<'_>,
    program: &Path,
    name: &str,
    (seconds, inputs): (u64, u64),
) -> Result<u64> {
    let grown = folder(session, &format!("{BUILD}/corpus/{name}"))?;
    let crashes = folder(session, &format!("{BUILD}/crashes"))?;
    let mut fuzzer = session.root.command(&program.display().to_string(), &[]);
    fuzzer.arg(&grown).arg(session.root.path().join(CORPUS).join(name)).args([
        // A seed of 0 would be replaced by a random one.
        format!("-seed={}", session.seed % u64::from(u32::MAX) + 1),
        format!("-max_total_time={seconds}"),
        format!("-runs={inputs}"),
        format!("-artifact_prefix={}/{name}-", crashes.display()),
        "-print_final_stats=1".to_owned(),
        "-timeout=20".to_owned(),
        "-rss_limit_mb=2048".to_owned(),
        "-verbosity=0".to_owned(),
    ]);
    let mut executed = None;
    let ended = process::watch(&mut fuzzer, |line| executed = executed_inputs(line).or(executed))?;
    if ended == Ended::Badly {
        bail!("`{name}` crashed: its input is in `{BUILD}/crashes`; turn it into a unit test of the reader");
    }
    executed.with_context(|| format!("`{name}` did not report the number of its inputs"))
}

fn folder(session: &Session<'_>, path: &str) -> Result<PathBuf> {
    let folder = session.root.path().join(path);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create `{path}`"))?;
    Ok(folder)
}

/// Names of the targets: their files without the extension, in order.
fn target_names(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("no targets in `{TARGETS}`"))?;
    let names = entries
        .flatten()
        .filter_map(|entry| entry.path().file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

fn executed_inputs(line: &str) -> Option<u64> {
    line.trim().strip_prefix(EXECUTED)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_inputs_is_read_from_the_statistics() {
        assert_eq!(executed_inputs("stat::number_of_executed_units: 12345\n"), Some(12345));
        assert_eq!(executed_inputs("stat::average_exec_per_sec: 5"), None);
    }

    #[test]
    fn every_target_has_first_inputs_and_an_entry_in_the_manifest() {
        let root = crate::tree::Root::find().unwrap();
        let names = target_names(&root.path().join(TARGETS)).unwrap();
        let manifest = std::fs::read_to_string(root.path().join(MANIFEST)).unwrap();
        assert!(names.len() >= 12, "{names:?}");
        for name in names {
            assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
            let inputs = std::fs::read_dir(root.path().join(CORPUS).join(&name));
            assert!(inputs.is_ok_and(|mut inputs| inputs.next().is_some()), "{name} has no first input");
        }
    }
}
