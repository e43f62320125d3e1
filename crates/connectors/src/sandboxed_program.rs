//! Runs a tool's program in the sandbox and converts the run report into an output.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Instant;

use governance::Permit;
use manifest::OutputForm;
use registry::RecordedPermit;
use sandbox::{
    Captured, CommandPreview, ConfinedCommand, RunEnd, RunReport, Sandbox, SandboxCommand, SandboxError,
    SandboxFingerprint,
};
use serde_json::{Value, json};
use tool::text::{escape_invisible_line, shorten};
use tool::{Failure, FailureKind, Progress, ToolOutput};

use crate::bounded_json::{self, JsonRejection};
use crate::file_pin::FilePin;
use crate::output_progress::line_listener;

/// Upper bound of the captured output, regardless of policy. The middle of a longer output is omitted.
const MAX_OUTPUT_BYTES: u64 = 8 << 20;
/// Maximum length of the line of standard error that is quoted in a failure.
const MAX_ERROR_CHARS: usize = 400;

/// Program of a tool.
#[derive(Clone, Debug)]
pub(crate) struct ToolProgram {
    pub(crate) sandbox: Sandbox,
    pub(crate) pin: FilePin,
    pub(crate) output: OutputForm,
    /// Installation instructions, shown if the program is missing.
    pub(crate) install_guide: Option<String>,
}

impl ToolProgram {
    /// Runs the command to completion, and reports its output as progress.
    pub(crate) async fn run(
        &self,
        recorded_permit: Arc<RecordedPermit>,
        progress: &Progress,
        command: impl FnOnce(&Permit, Instant) -> Result<SandboxCommand, Failure> + Send + 'static,
    ) -> Result<ToolOutput, Failure> {
        let deadline = Instant::now() + recorded_permit.value().timeout();
        let confined = self
            .prepare(&recorded_permit, move |permit| command(permit, deadline), |confined| confined)
            .await?;
        let listener = line_listener(progress, self.output);
        let ran = self.sandbox.run_with_progress(confined, listener).await;
        let report = ran.map_err(|error| self.sandbox_failure(error))?;
        self.to_output(&report)
    }

    /// Like `prepare`, and returns the sandbox fingerprint if the process can be reused. A process that can
    /// write is not reused.
    pub(crate) async fn prepare_reusable(
        &self,
        recorded_permit: &Arc<RecordedPermit>,
        command: impl FnOnce(&Permit) -> Result<SandboxCommand, Failure> + Send + 'static,
    ) -> Result<(ConfinedCommand, Option<SandboxFingerprint>), Failure> {
        let inspect = |confined: ConfinedCommand| {
            let enclosure = (!confined.can_write()).then(|| confined.fingerprint());
            (confined, enclosure)
        };
        self.prepare(recorded_permit, command, inspect).await
    }

    /// Prepares the command on the blocking pool and applies `look` there. Fails if the program is not the
    /// accepted one.
    async fn prepare<T: Send + 'static>(
        &self,
        recorded_permit: &Arc<RecordedPermit>,
        command: impl FnOnce(&Permit) -> Result<SandboxCommand, Failure> + Send + 'static,
        inspect: impl FnOnce(ConfinedCommand) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (program, recorded_permit) = (self.clone(), Arc::clone(recorded_permit));
        sandbox::prepare(move |awaited| {
            let permit = recorded_permit.value();
            let mut command = command(permit)?;
            command.output_bytes =
                usize::try_from(permit.max_output_bytes().min(MAX_OUTPUT_BYTES)).unwrap_or(0);
            let confined = ConfinedCommand::prepare(permit, &command, awaited)
                .map_err(|error| program.sandbox_failure(error))?;
            program.pin.check_program(confined.executable())?;
            Ok(inspect(confined))
        })
        .await
    }

    /// Describes what a command would run, for an approval request: program file, arguments, folder,
    /// variables and standard input. `words` replaces the arguments in the display.
    pub(crate) fn preview_facts(
        &self,
        permit: &Permit,
        command: &SandboxCommand,
        arguments: &[OsString],
    ) -> Result<Vec<(String, String)>, Failure> {
        let preview = CommandPreview::of(permit, command).map_err(|error| self.sandbox_failure(error))?;
        self.pin.check_program(&preview.program)?;
        let line: Vec<_> =
            [&command.program].into_iter().chain(arguments).map(|word| word.to_string_lossy()).collect();
        let input = command.input.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let own = [
            ("argv".to_owned(), json!(line).to_string()),
            ("stdin".to_owned(), input.unwrap_or_else(|| "nothing".to_owned())),
        ];
        Ok(own.into_iter().chain(preview.facts()).collect())
    }

    /// Converts a sandbox error. The manifest may say how to install a missing program.
    fn sandbox_failure(&self, error: SandboxError) -> Failure {
        let guide = match error {
            SandboxError::ProgramNotFound { .. } => self.install_guide.as_deref(),
            _ => None,
        };
        let failure = Failure::from(error);
        match guide {
            Some(guide) => failure.with_hint(guide.trim()),
            None => failure,
        }
    }

    fn to_output(&self, report: &RunReport) -> Result<ToolOutput, Failure> {
        let failed = |failure: Failure| {
            Err(Failure { output: Some(raw_output(report)), sandbox: report.tier, ..failure })
        };
        if let Some(failure) = report.end.failure("Command") {
            return failed(failure);
        }
        let value = match (self.output, report.end.exit_code()) {
            (OutputForm::Text, _) => raw_output(report),
            (OutputForm::Json, 0) => match bounded_json::parse_bounded(&report.stdout.head) {
                Ok(value) if report.stdout.omitted == 0 => value,
                Err(JsonRejection::TooManyValues) => {
                    let message =
                        format!("the tool's output has more than {} values", bounded_json::MAX_JSON_VALUES);
                    return failed(Failure::new(FailureKind::TooLarge, message));
                }
                _ => {
                    let message = "the tool's output is not JSON (tool_protocol_error)";
                    return failed(Failure::new(FailureKind::Crashed, message));
                }
            },
            (OutputForm::Json, code) => {
                let message = match last_line(&report.stderr) {
                    Some(line) => format!("the tool exited with code {code}: {line}"),
                    None => format!("the tool exited with code {code}"),
                };
                return failed(Failure::new(FailureKind::Crashed, message));
            }
        };
        Ok(ToolOutput { value, usage: report.usage(), sandbox: report.tier, ..ToolOutput::default() })
    }
}

/// Returns the last line of captured text, where a program names the cause of its end.
fn last_line(captured: &Captured) -> Option<String> {
    let text = captured_text(captured);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(escape_invisible_line(&shorten(line, MAX_ERROR_CHARS)))
}

/// Returns the captured output and exit status as JSON.
fn raw_output(report: &RunReport) -> Value {
    json!({
        "exit_code": report.end.exit_code(),
        "timed_out": report.end == RunEnd::TimedOut,
        "stdout": captured_text(&report.stdout),
        "stderr": captured_text(&report.stderr),
    })
}

/// Converts captured output to text, with a marker for omitted bytes.
fn captured_text(captured: &Captured) -> String {
    let head = String::from_utf8_lossy(&captured.head);
    match captured.omitted {
        0 => head.into_owned(),
        omitted => format!("{head}\n[{omitted} bytes left out]\n{}", String::from_utf8_lossy(&captured.tail)),
    }
}
