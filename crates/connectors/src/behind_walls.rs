//! Runs a tool's program in the sandbox and converts the run report into an output.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Instant;

use governance::Permit;
use manifest::OutputForm;
use registry::Order;
use sandbox::{Captured, Command, Confined, Enclosure, End, Foresight, Report, Sandbox, SandboxError};
use serde_json::{Value, json};
use tool::{Failure, FailureKind, Output};

use crate::parsed::{self, Unfit};
use crate::pinned::Pin;

/// Upper bound of the captured output, regardless of policy. The middle of a longer output is omitted.
const MOST_OUTPUT: u64 = 8 << 20;

/// Program of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) sandbox: Sandbox,
    pub(crate) pin: Pin,
    pub(crate) output: OutputForm,
    /// Installation instructions, shown if the program is missing.
    pub(crate) guide: Option<String>,
}

impl Program {
    /// Runs the command to completion.
    pub(crate) async fn run(
        &self,
        order: Arc<Order>,
        command: impl FnOnce(&Permit, Instant) -> Result<Command, Failure> + Send + 'static,
    ) -> Result<Output, Failure> {
        let deadline = Instant::now() + order.value().timeout();
        let confined =
            self.prepare(&order, move |permit| command(permit, deadline), |confined| confined).await?;
        let report = self.sandbox.run(confined).await.map_err(|error| self.not_run(error))?;
        self.answer(&report)
    }

    /// Like `prepare`, and returns the sandbox fingerprint if the process can be reused. A process that can
    /// write is not reused.
    pub(crate) async fn prepare_to_keep(
        &self,
        order: &Arc<Order>,
        command: impl FnOnce(&Permit) -> Result<Command, Failure> + Send + 'static,
    ) -> Result<(Confined, Option<Enclosure>), Failure> {
        let look = |confined: Confined| {
            let enclosure = (!confined.can_change()).then(|| confined.enclosure());
            (confined, enclosure)
        };
        self.prepare(order, command, look).await
    }

    /// Prepares the command on the blocking pool and applies `look` there. Fails if the program is not the
    /// accepted one.
    async fn prepare<T: Send + 'static>(
        &self,
        order: &Arc<Order>,
        command: impl FnOnce(&Permit) -> Result<Command, Failure> + Send + 'static,
        look: impl FnOnce(Confined) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (program, order) = (self.clone(), Arc::clone(order));
        sandbox::prepare(move |awaited| {
            let permit = order.value();
            let mut command = command(permit)?;
            command.output_bytes = usize::try_from(permit.max_output_bytes().min(MOST_OUTPUT)).unwrap_or(0);
            let confined =
                Confined::prepare(permit, &command, awaited).map_err(|error| program.not_run(error))?;
            program.pin.holds(confined.executable())?;
            Ok(look(confined))
        })
        .await
    }

    /// Describes what a command would run, for an approval request: program file, arguments, folder,
    /// variables and standard input. `words` replaces the arguments in the display.
    pub(crate) fn foresee(
        &self,
        permit: &Permit,
        command: &Command,
        words: &[OsString],
    ) -> Result<Vec<(String, String)>, Failure> {
        let foresight = Foresight::of(permit, command).map_err(|error| self.not_run(error))?;
        self.pin.holds(&foresight.program)?;
        let line: Vec<_> =
            [&command.program].into_iter().chain(words).map(|word| word.to_string_lossy()).collect();
        let input = command.input.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let own = [
            ("argv".to_owned(), json!(line).to_string()),
            ("stdin".to_owned(), input.unwrap_or_else(|| "nothing".to_owned())),
        ];
        Ok(own.into_iter().chain(foresight.facts()).collect())
    }

    /// Converts a sandbox error. The manifest may say how to install a missing program.
    fn not_run(&self, error: SandboxError) -> Failure {
        let guide = match error {
            SandboxError::NoProgram { .. } => self.guide.as_deref(),
            _ => None,
        };
        let failure = Failure::from(error);
        match guide {
            Some(guide) => failure.hint(guide.trim()),
            None => failure,
        }
    }

    fn answer(&self, report: &Report) -> Result<Output, Failure> {
        let failed =
            |failure: Failure| Err(Failure { output: Some(raw(report)), sandbox: report.tier, ..failure });
        if let Some(failure) = report.end.failure("Command") {
            return failed(failure);
        }
        let value = match (self.output, report.end.exit_code()) {
            (OutputForm::Text, _) => raw(report),
            (OutputForm::Json, 0) => match parsed::value(&report.stdout.head) {
                Ok(value) if report.stdout.omitted == 0 => value,
                Err(Unfit::TooMany) => {
                    let message = format!("the tool's output has more than {} values", parsed::MOST_VALUES);
                    return failed(Failure::new(FailureKind::TooLarge, message));
                }
                _ => {
                    let message = "the tool's output is not JSON (tool_protocol_error)";
                    return failed(Failure::new(FailureKind::Crashed, message));
                }
            },
            (OutputForm::Json, code) => {
                let message = format!("the tool exited with code {code}");
                return failed(Failure::new(FailureKind::Crashed, message));
            }
        };
        Ok(Output { value, usage: report.usage(), sandbox: report.tier, ..Output::default() })
    }
}

/// Returns the captured output and exit status as JSON.
fn raw(report: &Report) -> Value {
    json!({
        "exit_code": report.end.exit_code(),
        "timed_out": report.end == End::TimedOut,
        "stdout": text(&report.stdout),
        "stderr": text(&report.stderr),
    })
}

/// Converts captured output to text, with a marker for omitted bytes.
fn text(captured: &Captured) -> String {
    let head = String::from_utf8_lossy(&captured.head);
    match captured.omitted {
        0 => head.into_owned(),
        omitted => format!("{head}\n[{omitted} bytes left out]\n{}", String::from_utf8_lossy(&captured.tail)),
    }
}
