//! Result of a command for its caller: its end, its outputs, and a receipt of its sandbox and resource usage.

use governance::Permit;
use sandbox::{Captured, RunEnd, RunReport};
use schemars::JsonSchema;
use serde::Serialize;
use tool::result::{Truncation, TruncationUnit};
use tool::{Failure, ToolOutput};

use super::sandbox_denials::{self, SandboxDenial, denial_note};
use crate::code::output_encoding;
use crate::code::quarantine::{self, QuarantinedFile};
use crate::tool_registration::TypedOutput;

#[derive(Serialize, JsonSchema)]
pub(super) struct CommandOutput {
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
    stdout_spill: Option<SpillReference>,
    /// Reference to the rest of `stderr` for `read_output`; absent if nothing was omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_spill: Option<SpillReference>,
    /// Sandbox that it ran in.
    sandbox: SandboxReceipt,
    /// Operations that the sandbox probably denied, and how to grant them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    denied: Vec<SandboxDenial>,
    /// Remark if the sandbox may have caused the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct SandboxReceipt {
    /// Sandbox tier: full or reduced.
    tier: &'static str,
    /// Executable file.
    program: String,
    /// SHA-256 of the executable.
    program_sha256: String,
    /// SHA-256 of the sandbox configuration; the same grants and limits have the same value.
    sandbox_sha256: String,
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
    quarantined: Vec<QuarantinedFile>,
}

/// Reference to an output that is stored for a day.
#[derive(Serialize, JsonSchema)]
struct SpillReference {
    /// Id for `read_output`.
    id: String,
    /// Number of bytes stored, from the start of the output.
    bytes: u64,
}

/// Builds the result. A program that the sandbox stopped for exceeding a limit is a failure that carries the
/// output so far; every other ending is a result.
pub(super) fn to_output(permit: &Permit, report: &RunReport) -> Result<TypedOutput<CommandOutput>, Failure> {
    let value = command_output(permit, report);
    let stopped = match report.end {
        RunEnd::Denied | RunEnd::Killed => None,
        end => end.failure("Command"),
    };
    let Some(failure) = stopped else {
        let (truncated, files_touched) = (truncation(report), quarantine::touched_paths(&report.quarantined));
        return Ok(TypedOutput {
            value,
            metadata: ToolOutput { truncated, files_touched, ..ToolOutput::default() },
        });
    };
    let output = TypedOutput { value, metadata: ToolOutput::default() }.into_output()?;
    Err(Failure { output: Some(output.value), ..failure })
}

fn command_output(permit: &Permit, report: &RunReport) -> CommandOutput {
    let (denied, note) = (sandbox_denials::find_denials(permit, report), denial_note(permit, report));
    let end = match report.end {
        RunEnd::Exited(_) => "exited",
        RunEnd::Signalled(_) => "signalled",
        RunEnd::Denied => "denied",
        RunEnd::TimedOut => "timed_out",
        RunEnd::OutOfMemory => "out_of_memory",
        RunEnd::TooManyProcesses => "too_many_processes",
        RunEnd::Cancelled | RunEnd::Killed => "killed",
    };
    let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let (stdout_omitted_bytes, stderr_omitted_bytes) = (report.stdout.omitted, report.stderr.omitted);
    let (stdout, stdout_encoding) = encode_captured(&report.stdout);
    let (stderr, stderr_encoding) = encode_captured(&report.stderr);
    CommandOutput {
        exit_code: report.end.exit_code(),
        end,
        timed_out: report.end == RunEnd::TimedOut,
        stdout,
        stderr,
        stdout_encoding,
        stderr_encoding,
        stdout_omitted_bytes,
        stderr_omitted_bytes,
        stdout_spill: spill_reference(&report.stdout),
        stderr_spill: spill_reference(&report.stderr),
        sandbox: SandboxReceipt {
            tier: report.tier.as_str(),
            program: path(&report.executable.path),
            program_sha256: report.executable.sha256.clone(),
            sandbox_sha256: report.sandbox_sha256.clone(),
            cpu_ms: report.usage.cpu.as_secs_f64() * 1000.0,
            max_memory_bytes: report.usage.max_rss_bytes,
            read_bytes: report.usage.read_bytes,
            written_bytes: report.usage.written_bytes,
            processes: report.usage.processes,
            quarantined: quarantine::quarantined_files(&report.quarantined),
        },
        denied,
        note,
    }
}

fn spill_reference(captured: &Captured) -> Option<SpillReference> {
    captured.spilled.as_ref().map(|spilled| SpillReference { id: spilled.id.clone(), bytes: spilled.bytes })
}

/// Returns the output as text, with a line in place of omitted bytes, or head and tail as base64 if it is not
/// text.
fn encode_captured(captured: &Captured) -> (String, &'static str) {
    match captured.omitted {
        0 => output_encoding::encode(&captured.head),
        omitted => {
            let (head, tail) = (
                output_encoding::trim_partial_char_at_end(&captured.head),
                output_encoding::trim_partial_char_at_start(&captured.tail),
            );
            match (std::str::from_utf8(head), std::str::from_utf8(tail)) {
                (Ok(head), Ok(tail)) if ![head, tail].iter().any(|text| text.contains('\0')) => {
                    (format!("{head}\n[{omitted} bytes left out]\n{tail}"), "utf-8")
                }
                _ => output_encoding::encode_base64(&[captured.head.as_slice(), &captured.tail].concat()),
            }
        }
    }
}

fn truncation(report: &RunReport) -> Option<Truncation> {
    let omitted = report.stdout.omitted + report.stderr.omitted;
    let total = report.stdout.total() + report.stderr.total();
    (omitted > 0).then(|| Truncation {
        unit: TruncationUnit::Bytes,
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
            encode_captured(&captured),
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
