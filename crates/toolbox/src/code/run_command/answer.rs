//! What became of a command, as its caller sees it: its end, its outputs, and a receipt of what it ran in and used.

use governance::Permit;
use sandbox::{Captured, End, Report};
use schemars::JsonSchema;
use serde::Serialize;
use tool::{CutUnit, Failure, FailureKind, Output, Truncation, Usage};

use super::denied::{self, Denied, note};
use crate::code::aside::{self, Aside};
use crate::code::bytes;

#[derive(Serialize, JsonSchema)]
pub(super) struct Ran {
    /// The program's own code; 128 and the signal's number for one that was ended by a signal; -1 for one whose time
    /// was over.
    exit_code: i32,
    /// How it ended: exited, signalled, timed_out, out_of_memory, too_many_processes, denied or killed.
    end: &'static str,
    /// Whether its time was over.
    timed_out: bool,
    /// What it wrote to standard output.
    stdout: String,
    /// What it wrote to standard error.
    stderr: String,
    /// `utf-8`, or `base64` where it is no text.
    stdout_encoding: &'static str,
    /// `utf-8`, or `base64` where it is no text.
    stderr_encoding: &'static str,
    /// How many bytes were left out of the middle of `stdout`.
    stdout_omitted_bytes: u64,
    /// How many bytes were left out of the middle of `stderr`.
    stderr_omitted_bytes: u64,
    /// Read on in `stdout` with the tool `read_output`; absent where nothing was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_spill: Option<Spill>,
    /// Read on in `stderr` with the tool `read_output`; absent where nothing was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_spill: Option<Spill>,
    /// What it ran in.
    sandbox: Receipt,
    /// What the walls stopped, as far as it can be told, and how it would be granted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    denied: Vec<Denied>,
    /// What the walls may have had to do with its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Receipt {
    /// How far it was confined: full or reduced.
    tier: &'static str,
    /// The file that was run.
    program: String,
    /// Its digest.
    program_sha256: String,
    /// The digest of what its walls let through; the same grants and limits have the same one.
    walls_sha256: String,
    /// Time on a processor, with everything it started, in milliseconds.
    cpu_ms: f64,
    /// The most memory it had at a time, as far as it was seen.
    max_memory_bytes: u64,
    /// Read by its system calls.
    read_bytes: u64,
    /// Written by its system calls.
    written_bytes: u64,
    /// How many processes and threads it had.
    processes: u64,
    /// Names it created that others would act on, such as git hooks, and where they were put instead.
    quarantined: Vec<Aside>,
}

/// An output that is kept whole for a while.
#[derive(Serialize, JsonSchema)]
struct Spill {
    /// What `read_output` takes.
    id: String,
    /// How much of it is kept, from its beginning.
    bytes: u64,
}

pub(super) fn answer(permit: &Permit, report: &Report) -> Result<Output, Failure> {
    let usage = Usage {
        cpu_ms: report.spent.cpu.as_secs_f64() * 1000.0,
        max_rss_bytes: report.spent.max_rss_bytes,
        confine_ms: report.confining.as_secs_f64() * 1000.0,
        read_bytes: report.spent.read_bytes,
        written_bytes: report.spent.written_bytes,
    };
    let (tier, end, truncated) = (report.tier, report.end, truncation(report));
    let value = serde_json::to_value(ran(permit, report)).map_err(|error| {
        Failure::new(FailureKind::Crashed, format!("the tool's answer is not JSON: {error}"))
    })?;
    let memory = permit.confinement().memory_mb;
    let failed = match end {
        End::Exited(_) | End::Signalled(_) | End::Denied | End::Killed => {
            let files_touched = aside::touched(&report.quarantined);
            return Ok(Output { value, usage, truncated, files_touched, sandbox: tier, ..Output::default() });
        }
        End::TimedOut => Failure::new(FailureKind::TimedOut, "Command timed out")
            .hint("everything it started was ended; what it wrote until then is in the output"),
        // Not the machine's exhaustion: that would be for the mode to act on, and anybody could bring it about.
        End::OutOfMemory => {
            Failure::new(FailureKind::TooLarge, "Command used too much memory").hint(format!(
                "policy grants {} MiB (`memory_mb`)",
                memory.map_or("2048".to_owned(), |m| m.to_string())
            ))
        }
        End::TooManyProcesses => Failure::new(FailureKind::TooLarge, "Command started too many processes")
            .hint("`max_processes` of tools.yaml decides"),
        End::Cancelled => Failure::new(FailureKind::Cancelled, "Command was cancelled"),
    };
    Err(Failure { output: Some(value), sandbox: tier, ..failed })
}

fn ran(permit: &Permit, report: &Report) -> Ran {
    let (denied, note) = (denied::by_walls(permit, report), note(permit, report));
    let (exit_code, end) = match report.end {
        End::Exited(code) => (code, "exited"),
        End::Signalled(signal) => (128 + signal, "signalled"),
        End::Denied => (-1, "denied"),
        End::TimedOut => (-1, "timed_out"),
        End::OutOfMemory => (-1, "out_of_memory"),
        End::TooManyProcesses => (-1, "too_many_processes"),
        End::Cancelled | End::Killed => (-1, "killed"),
    };
    let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let (stdout_omitted_bytes, stderr_omitted_bytes) = (report.stdout.omitted, report.stderr.omitted);
    let (stdout, stdout_encoding) = shown(&report.stdout);
    let (stderr, stderr_encoding) = shown(&report.stderr);
    Ran {
        exit_code,
        end,
        timed_out: report.end == End::TimedOut,
        stdout,
        stderr,
        stdout_encoding,
        stderr_encoding,
        stdout_omitted_bytes,
        stderr_omitted_bytes,
        stdout_spill: spill(&report.stdout),
        stderr_spill: spill(&report.stderr),
        sandbox: Receipt {
            tier: report.tier.as_str(),
            program: path(&report.executable.path),
            program_sha256: report.executable.sha256.clone(),
            walls_sha256: report.walls_sha256.clone(),
            cpu_ms: report.spent.cpu.as_secs_f64() * 1000.0,
            max_memory_bytes: report.spent.max_rss_bytes,
            read_bytes: report.spent.read_bytes,
            written_bytes: report.spent.written_bytes,
            processes: report.spent.processes,
            quarantined: aside::list(&report.quarantined),
        },
        denied,
        note,
    }
}

fn spill(captured: &Captured) -> Option<Spill> {
    captured.spilled.as_ref().map(|kept| Spill { id: kept.id.clone(), bytes: kept.bytes })
}

/// Text as it is, with a line for what was left out; what is no text in base64, head and tail one after the other.
fn shown(captured: &Captured) -> (String, &'static str) {
    match captured.omitted {
        0 => bytes::shown(&captured.head),
        omitted => {
            let (head, tail) = (bytes::whole_at_end(&captured.head), bytes::whole_at_start(&captured.tail));
            match (std::str::from_utf8(head), std::str::from_utf8(tail)) {
                (Ok(head), Ok(tail)) if ![head, tail].iter().any(|text| text.contains('\0')) => {
                    (format!("{head}\n[{omitted} bytes left out]\n{tail}"), "utf-8")
                }
                _ => bytes::encoded(&[captured.head.as_slice(), &captured.tail].concat()),
            }
        }
    }
}

fn truncation(report: &Report) -> Option<Truncation> {
    let omitted = report.stdout.omitted + report.stderr.omitted;
    let total = report.stdout.total() + report.stderr.total();
    (omitted > 0).then(|| Truncation {
        unit: CutUnit::Bytes,
        total,
        returned: total - omitted,
        how_to_continue: match report.stdout.spilled.as_ref().or(report.stderr.spilled.as_ref()) {
            Some(_) => "read_output with the id in `stdout_spill` or `stderr_spill`".to_owned(),
            None => "the beginning and the end are kept; have the command write to a file of the workspace, and read \
                     that in parts"
                .to_owned(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &[u8], tail: &[u8], omitted: u64, expect: &str, encoding: &str) {
        let captured = Captured { head: head.to_vec(), tail: tail.to_vec(), omitted, spilled: None };
        assert_eq!(
            shown(&captured),
            (expect.to_owned(), if encoding == "utf-8" { "utf-8" } else { "base64" })
        );
    }

    #[test]
    fn output_is_text_where_it_is_text_and_lossless_where_not() {
        check(b"abc", b"", 0, "abc", "utf-8");
        check(b"a\xff", b"", 0, "Yf8=", "base64");
        check(b"ab", b"yz", 7, "ab\n[7 bytes left out]\nyz", "utf-8");
        let euro = "€".as_bytes();
        check(&euro[..2], &euro[1..], 2, "\n[2 bytes left out]\n", "utf-8");
        check(b"ab\xff\xff\xff\xff", b"yz", 7, "YWL/////eXo=", "base64");
    }
}
