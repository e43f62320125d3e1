//! Runs a tool's program in the sandbox and converts the run report into an output.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Instant;

use governance::Permit;
use manifest::OutputForm;
use registry::Order;
use sandbox::{
    Captured, Command, Confined, Enclosure, End, Executable, Foresight, Report, Sandbox, SandboxError,
    while_awaited,
};
use serde_json::{Value, json};
use tool::{Failure, FailureKind, Output, Usage};

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
        let confined = self.prepare(&order, move |permit| command(permit, deadline)).await?;
        let report = self.sandbox.run(confined).await.map_err(|error| self.not_run(&error))?;
        self.answer(&report)
    }

    /// Prepares the command. Fails if the program is not the accepted one.
    pub(crate) async fn prepare(
        &self,
        order: &Arc<Order>,
        command: impl FnOnce(&Permit) -> Result<Command, Failure> + Send + 'static,
    ) -> Result<Confined, Failure> {
        self.prepare_and(order, command, |confined| confined).await
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
        self.prepare_and(order, command, look).await
    }

    /// Prepares the command on the blocking pool and applies `look` there.
    async fn prepare_and<T: Send + 'static>(
        &self,
        order: &Arc<Order>,
        command: impl FnOnce(&Permit) -> Result<Command, Failure> + Send + 'static,
        look: impl FnOnce(Confined) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (program, order) = (self.clone(), Arc::clone(order));
        let prepared = while_awaited(move |awaited| {
            let permit = order.value();
            let mut command = command(permit)?;
            command.output_bytes = usize::try_from(permit.max_output_bytes().min(MOST_OUTPUT)).unwrap_or(0);
            let confined =
                Confined::prepare(permit, &command, awaited).map_err(|error| program.not_run(&error))?;
            program.pin.holds(confined.executable())?;
            Ok::<T, Failure>(look(confined))
        });
        match prepared.await {
            Ok(prepared) => prepared,
            Err(_) => Err(Failure::new(FailureKind::Crashed, "preparing the program failed")),
        }
    }

    /// Describes what a command would run, for an approval request: program file, arguments, folder,
    /// variables and standard input. `words` replaces the arguments in the display.
    pub(crate) fn foresee(
        &self,
        permit: &Permit,
        command: &Command,
        words: &[OsString],
    ) -> Result<Vec<(String, String)>, Failure> {
        let foresight = Foresight::of(permit, command).map_err(|error| self.not_run(&error))?;
        self.pin.holds(&foresight.program)?;
        let file = |file: &Executable| format!("{} (sha256 {})", file.path.display(), file.sha256);
        let line = [command.program.as_os_str()].into_iter().chain(words.iter().map(OsString::as_os_str));
        let line: Vec<String> = line.map(|word| word.to_string_lossy().into_owned()).collect();
        let input = command.input.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let mut facts = vec![
            ("program".to_owned(), file(&foresight.program)),
            ("argv".to_owned(), json!(line).to_string()),
            ("runs in".to_owned(), foresight.folder.display().to_string()),
            ("sees".to_owned(), format!("the variables {}", foresight.variables.join(", "))),
            ("stdin".to_owned(), input.unwrap_or_else(|| "nothing".to_owned())),
        ];
        facts.extend(foresight.files.iter().map(|named| ("reads".to_owned(), file(named))));
        Ok(facts)
    }

    fn not_run(&self, error: &SandboxError) -> Failure {
        match error {
            SandboxError::NoProgram { .. } => {
                let guide = self.guide.as_deref().unwrap_or("install it on the program search path").trim();
                Failure::new(FailureKind::NotFound, error.to_string()).hint(guide)
            }
            SandboxError::NotBuilt { .. } | SandboxError::NeedsFull(_) | SandboxError::Launcher(_) => {
                Failure::new(FailureKind::Io, error.to_string())
                    .hint("nothing was run; `sinew doctor` shows what is missing on this machine")
            }
            SandboxError::Lost => Failure::new(FailureKind::Crashed, error.to_string())
                .hint("the program may already have had an effect"),
            _ => Failure::new(FailureKind::Unreadable, error.to_string()),
        }
    }

    fn answer(&self, report: &Report) -> Result<Output, Failure> {
        let usage = Usage {
            cpu_ms: report.spent.cpu.as_secs_f64() * 1000.0,
            max_rss_bytes: report.spent.max_rss_bytes,
            confine_ms: report.confining.as_secs_f64() * 1000.0,
            read_bytes: report.spent.read_bytes,
            written_bytes: report.spent.written_bytes,
        };
        let failed = |kind, message: &str| {
            let output = Some(raw(report));
            Err(Failure { output, sandbox: report.tier, ..Failure::new(kind, message) })
        };
        let code = match report.end {
            End::Exited(code) => code,
            End::Signalled(signal) => 128 + signal,
            End::TimedOut => return failed(FailureKind::TimedOut, "Command timed out"),
            End::OutOfMemory => return failed(FailureKind::TooLarge, "the program used too much memory"),
            End::TooManyProcesses => {
                return failed(FailureKind::TooLarge, "the program started too many processes");
            }
            End::Cancelled => return failed(FailureKind::Cancelled, "the program was cancelled"),
            End::Denied => return failed(FailureKind::Unreadable, "the sandbox stopped the program"),
            End::Killed => return failed(FailureKind::Crashed, "the program was killed"),
        };
        let value = match (self.output, code) {
            (OutputForm::Text, _) => raw(report),
            (OutputForm::Json, 0) => match parsed::value(&report.stdout.head) {
                Ok(value) if report.stdout.omitted == 0 => value,
                Err(Unfit::TooMany) => {
                    let most = parsed::MOST_VALUES;
                    return failed(
                        FailureKind::TooLarge,
                        &format!("the tool's output has more than {most} values"),
                    );
                }
                _ => {
                    return failed(
                        FailureKind::Crashed,
                        "the tool's output is not JSON (tool_protocol_error)",
                    );
                }
            },
            (OutputForm::Json, code) => {
                return failed(FailureKind::Crashed, &format!("the tool exited with code {code}"));
            }
        };
        Ok(Output { value, usage, sandbox: report.tier, ..Output::default() })
    }
}

/// Returns the captured output and exit status as JSON.
fn raw(report: &Report) -> Value {
    let (exit_code, timed_out) = match report.end {
        End::Exited(code) => (code, false),
        End::Signalled(signal) => (128 + signal, false),
        other => (-1, other == End::TimedOut),
    };
    json!({"exit_code": exit_code, "timed_out": timed_out, "stdout": text(&report.stdout), "stderr": text(&report.stderr)})
}

/// Converts captured output to text, with a marker for omitted bytes.
fn text(captured: &Captured) -> String {
    let head = String::from_utf8_lossy(&captured.head);
    match captured.omitted {
        0 => head.into_owned(),
        omitted => format!("{head}\n[{omitted} bytes left out]\n{}", String::from_utf8_lossy(&captured.tail)),
    }
}
