//! Instructions of pipeline stages and of a whole call, counted by callgrind and so independent of the
//! machine's load.
//!
//! Each is run with a number of rounds and with twice that number; the difference is the cost of the rounds
//! without start and end.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::conversation::{Question, ask};
use super::daemon::Home;
use super::results::Results;
use crate::process;
use crate::project;
use crate::tree::Root;

/// Stages to count: the crate of the example, its argument, a description, and the number of rounds.
const STAGES: [(&str, &str, &str, usize); 7] = [
    ("guardrail", "small", "check of a small call", 2_000),
    ("guardrail", "refusal", "refusal with example and repair", 500),
    ("governance", "judge", "check, pre-check, open and judge", 1_000),
    ("ledger", "call", "both records of a call", 1_000),
    ("telemetry", "look", "secret scan of 1 KiB", 1_000),
    ("telemetry", "spans", "spans of a call", 2_000),
    ("knowledge", "validator", "validator in a fresh context", 200),
];
/// Rounds of a whole daemon, one call each.
const CALLS: usize = 2_000;
const WHOLE: &str = "sinew: a governed read_file of 1 KiB";

/// Counts all of them, if callgrind is available.
pub(crate) fn count(root: &Root, binary: &Path, folder: &Path, results: &mut Results) -> Result<()> {
    if !is_known(&process::capture(Command::new(valgrind()).arg("--version")).unwrap_or_default()) {
        results.absent.push(
            "instructions: valgrind 3.25 counts them, the first that knows every system call of ours; `VALGRIND` names one"
                .to_owned(),
        );
        return Ok(());
    }
    let folder = folder.join("callgrind");
    std::fs::create_dir_all(&folder)?;
    for (name, word, what, rounds) in STAGES {
        let example = project::build_measure(root, name)?;
        let once = |rounds: usize| {
            let mut command = callgrind(&folder);
            command.arg(&example).args(["count", word, &rounds.to_string()]);
            let child = command.spawn()?;
            let log = log_of(&folder, child.id());
            let output = child.wait_with_output()?;
            ensure!(output.status.success(), "`{name} count {word}` ended with {}", output.status);
            collected(&log)
        };
        let taken = (once(2 * rounds)? - once(rounds)?) / rounds as f64;
        results.instructions.insert(format!("{name}: {what}"), taken.round());
    }
    let taken = (whole(binary, &folder, 2 * CALLS)? - whole(binary, &folder, CALLS)?) / CALLS as f64;
    results.instructions.insert(WHOLE.to_owned(), taken.round());
    Ok(())
}

fn valgrind() -> String {
    std::env::var("VALGRIND").unwrap_or_else(|_| "valgrind".to_owned())
}

/// Returns true if this output of `valgrind --version` names a version that supports `openat2`.
fn is_known(reported_text: &str) -> bool {
    let version = reported_text.trim().strip_prefix("valgrind-").unwrap_or_default();
    let mut numbers = version.split('.').map_while(|part| part.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (3, 25)
}

fn callgrind(folder: &Path) -> Command {
    let mut command = Command::new(valgrind());
    command.arg("--tool=callgrind").arg("--callgrind-out-file=/dev/null");
    command.arg(format!("--log-file={}/%p.log", folder.display()));
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    command
}

fn log_of(folder: &Path, pid: u32) -> PathBuf {
    folder.join(format!("{pid}.log"))
}

/// Counts the instructions of a daemon that answers `calls` calls and then stops.
fn whole(binary: &Path, folder: &Path, calls: usize) -> Result<f64> {
    let home = Home::make(binary, &folder.join("daemon"))?;
    let daemon = home.start_as(callgrind(folder).arg(binary), &[])?;
    ask(&mut daemon.connect()?, &Question::read(), calls, |_, _| Ok(()))?;
    let log = log_of(folder, daemon.pid());
    daemon.end()?;
    collected(&log)
}

/// Reads the instructions of a whole process from the log that callgrind writes at its end.
fn collected(log: &Path) -> Result<f64> {
    let text = std::fs::read_to_string(log).with_context(|| format!("no `{}`", log.display()))?;
    total(&text).with_context(|| format!("`{}` has no count", log.display()))
}

fn total(text: &str) -> Option<f64> {
    let (_, after) = text.split_once("Collected :")?;
    after.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_without_our_system_calls_are_rejected() {
        for (reported_text, known) in [
            ("valgrind-3.25.1\n", true),
            ("valgrind-3.25.0.GIT", true),
            ("valgrind-4.0.0", true),
            ("valgrind-3.19.0", false),
            ("", false),
        ] {
            assert_eq!(is_known(reported_text), known, "{reported_text}");
        }
    }

    #[test]
    fn the_count_is_read_from_the_log_of_callgrind() {
        assert_eq!(total("==7== Events    : Ir\n==7== Collected : 123456\n==7==\n"), Some(123_456.0));
        assert_eq!(total("==7== Process terminating\n"), None);
    }
}
