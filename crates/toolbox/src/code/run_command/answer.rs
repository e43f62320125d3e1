//! Result of a command for its caller: its end, its outputs, and a receipt of its sandbox and resource usage.

use governance::Permit;
use sandbox::{Captured, End, Report};
use schemars::JsonSchema;
use serde::Serialize;
use tool::{CutUnit, Failure, Output, Truncation};

use super::denied::{self, Denied, note};
use crate::code::aside::{self, Aside};
use crate::code::bytes;
use crate::tool_entry::Answer;

#[derive(Serialize, JsonSchema)]
pub(super) struct Ran {
    /// Exit code of the program; 128 plus the signal number if a signal ended it; -1 if it timed out or was
    /// stopped.
    exit_code: i32,
    /// End of the command: exited, signalled, timed_out, out_of_memory, too_many_processes, denied or killed.
    end: &'static str,
    /// True if it timed out.
    timed_out: bool,
    /// Standard output.
    stdout: String,
    /// Standard error.
    stderr: String,
    /// `utf-8`, or `base64` if stdout is not text.
    stdout_encoding: &'static str,
    /// `utf-8`, or `base64` if stderr is not text.
    stderr_encoding: &'static str,
    /// Number of bytes omitted from the middle of `stdout`.
    stdout_omitted_bytes: u64,
    /// Number of bytes omitted from the middle of `stderr`.
    stderr_omitted_bytes: u64,
    /// Reference to the rest of `stdout` for `read_output`; absent if nothing was omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_spill: Option<Spill>,
    /// Reference to the rest of `stderr` for `read_output`; absent if nothing was omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_spill: Option<Spill>,
    /// Sandbox that it ran in.
    sandbox: Receipt,
    /// Operations that the sandbox probably denied, and how to grant them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    denied: Vec<Denied>,
    /// Remark if the sandbox may have caused the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Receipt {
    /// Sandbox tier: full or reduced.
    tier: &'static str,
    /// Executable file.
    program: String,
    /// SHA-256 of the executable.
    program_sha256: String,
    /// SHA-256 of the sandbox configuration; the same grants and limits have the same value.
    walls_sha256: String,
    /// CPU time including child processes, in milliseconds.
    cpu_ms: f64,
    /// Peak memory usage, as far as measured.
    max_memory_bytes: u64,
    /// Bytes read by system calls.
    read_bytes: u64,
    /// Bytes written by system calls.
    written_bytes: u64,
    /// Number of processes and threads.
    processes: u64,
    /// Files it created that other programs would execute or load, such as git hooks, and where they were
    /// moved.
    quarantined: Vec<Aside>,
}

/// Reference to an output that is stored for a day.
#[derive(Serialize, JsonSchema)]
struct Spill {
    /// Id for `read_output`.
    id: String,
    /// Number of bytes stored, from the start of the output.
    bytes: u64,
}

/// Builds the result. A program that the sandbox stopped for exceeding a limit is a failure that carries the
/// output so far; every other ending is a result.
pub(super) fn answer(permit: &Permit, report: &Report) -> Result<Answer<Ran>, Failure> {
    let value = ran(permit, report);
    let stopped = match report.end {
        End::Denied | End::Killed => None,
        end => end.failure("Command"),
    };
    let Some(failure) = stopped else {
        let (truncated, files_touched) = (truncation(report), aside::touched(&report.quarantined));
        return Ok(Answer { value, facts: Output { truncated, files_touched, ..Output::default() } });
    };
    let output = Answer { value, facts: Output::default() }.into_output()?;
    Err(Failure { output: Some(output.value), ..failure })
}

fn ran(permit: &Permit, report: &Report) -> Ran {
    let (denied, note) = (denied::by_walls(permit, report), note(permit, report));
    let end = match report.end {
        End::Exited(_) => "exited",
        End::Signalled(_) => "signalled",
        End::Denied => "denied",
        End::TimedOut => "timed_out",
        End::OutOfMemory => "out_of_memory",
        End::TooManyProcesses => "too_many_processes",
        End::Cancelled | End::Killed => "killed",
    };
    let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let (stdout_omitted_bytes, stderr_omitted_bytes) = (report.stdout.omitted, report.stderr.omitted);
    let (stdout, stdout_encoding) = shown(&report.stdout);
    let (stderr, stderr_encoding) = shown(&report.stderr);
    Ran {
        exit_code: report.end.exit_code(),
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

/// Returns the output as text, with a line in place of omitted bytes, or head and tail as base64 if it is not
/// text.
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
            Some(_) => "call read_output with the id in `stdout_spill` or `stderr_spill`".to_owned(),
            None => "only the start and the end are kept; let the command write to a file in the workspace, and read \
                     that file in parts"
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
    fn output_is_text_or_lossless_base64() {
        check(b"abc", b"", 0, "abc", "utf-8");
        check(b"a\xff", b"", 0, "Yf8=", "base64");
        check(b"ab", b"yz", 7, "ab\n[7 bytes left out]\nyz", "utf-8");
        let euro = "€".as_bytes();
        check(&euro[..2], &euro[1..], 2, "\n[2 bytes left out]\n", "utf-8");
        check(b"ab\xff\xff\xff\xff", b"yz", 7, "YWL/////eXo=", "base64");
    }
}
