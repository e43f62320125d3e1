//! Counts that do not depend on the machine's load: instructions of pipeline stages and of a whole call, by
//! callgrind; allocations of a whole call, by memcheck; its system calls, by strace.
//!
//! Each is run with a number of rounds and with twice that number; the difference is the cost of the rounds
//! without start and end.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::conversation::{BenchRequest, ask};
use super::daemon::Home;
use super::results::{Bound, Results};
use crate::process;
use crate::project;
use crate::tree::Root;

/// Stages to count: the crate of the example, its argument, a description, and the number of rounds.
const STAGES: [(&str, &str, &str, usize); 7] = [
    ("guardrail", "small", "check of a small call", 2_000),
    ("guardrail", "refusal", "refusal with example and repair", 500),
    ("governance", "judge", "check, pre-check, open and judge", 1_000),
    ("ledger", "call", "both records of a call that changes something", 1_000),
    ("telemetry", "look", "secret scan of 1 KiB", 1_000),
    ("telemetry", "spans", "spans of a call", 2_000),
    ("knowledge", "validator", "validator in a fresh context", 200),
];
/// Rounds of a whole daemon, one call each.
const CALLS: usize = 2_000;
const WHOLE: &str = "a governed read_file of 1 KiB";
/// Bounds of a governed read.
const MOST_SYSTEM_CALLS: f64 = 9.0;
const MOST_ALLOCATIONS: f64 = 120.0;

/// Takes every count for which the program is installed.
pub(crate) fn count(root: &Root, binary: &Path, folder: &Path, results: &mut Results) -> Result<()> {
    let folder = folder.join("counts");
    std::fs::create_dir_all(&folder)?;
    system_calls(binary, &folder, results)?;
    if !is_known(&process::capture(Command::new(valgrind()).arg("--version")).unwrap_or_default()) {
        results.absent.push(
            "instructions and allocations: they need valgrind 3.25 or newer, which knows every system call of the daemon; `VALGRIND` names the program"
                .to_owned(),
        );
        return Ok(());
    }
    for (name, word, what, rounds) in STAGES {
        let example = project::build_measure(root, name)?;
        let once = |rounds: usize| {
            let mut command = valgrind_tool(&folder, "callgrind");
            command.arg("--callgrind-out-file=/dev/null");
            command.arg(&example).args(["count", word, &rounds.to_string()]);
            let child = command.spawn()?;
            let log = log_of(&folder, child.id());
            let output = child.wait_with_output()?;
            ensure!(output.status.success(), "`{name} count {word}` ended with {}", output.status);
            read_log(&log, "Collected :")
        };
        let taken = (once(2 * rounds)? - once(rounds)?) / rounds as f64;
        results.counts.insert(format!("instructions, {name}: {what}"), taken.round());
    }
    let instructions = || {
        let mut command = valgrind_tool(&folder, "callgrind");
        command.arg("--callgrind-out-file=/dev/null");
        command
    };
    let taken = per_call(&Home::make(binary, &folder.join("daemon"))?, &instructions, |pid| {
        read_log(&log_of(&folder, pid), "Collected :")
    })?;
    results.counts.insert(format!("instructions, sinew: {WHOLE}"), taken.round());
    let allocations = || valgrind_tool(&folder, "memcheck");
    let taken = per_call(&Home::make(binary, &folder.join("daemon"))?, &allocations, |pid| {
        read_log(&log_of(&folder, pid), "total heap usage:")
    })?;
    results.counts.insert(format!("allocations, {WHOLE}"), taken);
    results.claim("allocations of a governed read", Some(taken), "", Bound::AtMost(MOST_ALLOCATIONS));
    Ok(())
}

/// Counts the system calls of all threads of the daemon.
fn system_calls(binary: &Path, folder: &Path, results: &mut Results) -> Result<()> {
    if !process::works(Command::new("strace").arg("-V")) {
        results.absent.push("system calls: strace is not installed".to_owned());
        return Ok(());
    }
    let summary = folder.join("strace.txt");
    let strace = || {
        let mut command = Command::new("strace");
        // `-D` makes the daemon the child of this process, which sends it the signal to end.
        command.args(["-D", "-f", "-q", "-c", "-U", "calls,name", "-o"]).arg(&summary);
        command
    };
    let home = Home::make(binary, &folder.join("daemon"))?;
    let taken = per_call(&home, &strace, |_| wait_for_total(&summary))?;
    results.counts.insert(format!("system calls, {WHOLE}"), taken);
    results.claim("system calls of a governed read", Some(taken), "", Bound::AtMost(MOST_SYSTEM_CALLS));
    Ok(())
}

/// Waits for strace, which ends after the daemon, to write its summary, and returns the number of all calls.
fn wait_for_total(summary: &Path) -> Result<f64> {
    for _ in 0..1_000 {
        let text = std::fs::read_to_string(summary).unwrap_or_default();
        if let Some(total) =
            text.lines().find_map(|line| line.trim().strip_suffix(" total")?.trim().parse().ok())
        {
            std::fs::remove_file(summary)?;
            return Ok(total);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    bail!("strace wrote no summary to `{}`", summary.display())
}

/// Counts what one call costs: the difference of daemons that answer [`CALLS`] and twice as many calls.
fn per_call(home: &Home, tool: &dyn Fn() -> Command, counted: impl Fn(u32) -> Result<f64>) -> Result<f64> {
    let whole = |calls: usize| {
        let mut command = tool();
        let daemon = home.start_as(command.stdin(Stdio::null()).arg(home.binary()), &[])?;
        ask(&mut daemon.connect()?, &BenchRequest::read(), calls, |_, _| Ok(()))?;
        let pid = daemon.pid();
        daemon.end()?;
        counted(pid)
    };
    let fewer = whole(CALLS)?;
    Ok((whole(2 * CALLS)? - fewer) / CALLS as f64)
}

fn valgrind() -> String {
    std::env::var("VALGRIND").unwrap_or_else(|_| "valgrind".to_owned())
}

/// Returns true if this output of `valgrind --version` names a version that supports `openat2`.
fn is_known(version_output: &str) -> bool {
    let version = version_output.trim().strip_prefix("valgrind-").unwrap_or_default();
    let mut numbers = version.split('.').map_while(|part| part.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (3, 25)
}

fn valgrind_tool(folder: &Path, tool: &str) -> Command {
    let mut command = Command::new(valgrind());
    command.arg(format!("--tool={tool}"));
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

/// Reads the number after `label` from the log that valgrind writes at the end of a process.
fn read_log(log: &Path, label: &str) -> Result<f64> {
    let text = std::fs::read_to_string(log).with_context(|| format!("no `{}`", log.display()))?;
    number_after(&text, label).with_context(|| format!("`{}` has no `{label}`", log.display()))
}

fn number_after(text: &str, label: &str) -> Option<f64> {
    let (_, after) = text.split_once(label)?;
    after.split_whitespace().next()?.replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_without_our_system_calls_are_rejected() {
        for (version_output, known) in [
            ("valgrind-3.25.1\n", true),
            ("valgrind-3.25.0.GIT", true),
            ("valgrind-4.0.0", true),
            ("valgrind-3.19.0", false),
            ("", false),
        ] {
            assert_eq!(is_known(version_output), known, "{version_output}");
        }
    }

    #[test]
    fn counts_are_read_from_the_log_of_valgrind() {
        let log = "==7== Events    : Ir\n==7== Collected : 123456\n==7==\n";
        assert_eq!(number_after(log, "Collected :"), Some(123_456.0));
        let log = "==7==   total heap usage: 1,234 allocs, 1,200 frees, 99 bytes allocated\n";
        assert_eq!(number_after(log, "total heap usage:"), Some(1_234.0));
        assert_eq!(number_after("==7== Process terminating\n", "Collected :"), None);
    }
}
