//! Runs a tool's program behind walls, and turns what became of it into an answer.

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

/// More than this of a program's output is cut in the middle, whatever policy would grant.
const MOST_OUTPUT: u64 = 8 << 20;

/// A program of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) sandbox: Sandbox,
    pub(crate) pin: Pin,
    pub(crate) output: OutputForm,
    /// How to get it, where it is not there.
    pub(crate) guide: Option<String>,
}

impl Program {
    /// Runs what `command` makes of the permit, to its end.
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

    /// What `command` makes of the permit, ready to be run. A program that is not the one that was accepted is not.
    pub(crate) async fn prepare(
        &self,
        order: &Arc<Order>,
        command: impl FnOnce(&Permit) -> Result<Command, Failure> + Send + 'static,
    ) -> Result<Confined, Failure> {
        self.prepare_and(order, command, |confined| confined).await
    }

    /// The same for one that may be kept, with what is then around it. One that could change something is not.
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

    /// Prepares on a thread that may block, and looks at it there.
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

    /// What a command would run, for the person who is asked about it: the file behind the name, each word, where, with
    /// which variables, and what it reads. `words` stand for its arguments on the screen.
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
                let guide =
                    self.guide.as_deref().unwrap_or("install it where programs are looked for").trim();
                Failure::new(FailureKind::NotFound, error.to_string()).hint(guide)
            }
            SandboxError::NotBuilt { .. } | SandboxError::NeedsFull(_) | SandboxError::Launcher(_) => {
                Failure::new(FailureKind::Io, error.to_string())
                    .hint("nothing was run; `sinew doctor` says what this machine lacks")
            }
            SandboxError::Lost => Failure::new(FailureKind::Crashed, error.to_string())
                .hint("what it did so far may have had an effect"),
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
                        &format!("the tool's answer has more than {most} values"),
                    );
                }
                _ => {
                    return failed(
                        FailureKind::Crashed,
                        "the tool's answer is not JSON (tool_protocol_error)",
                    );
                }
            },
            (OutputForm::Json, code) => {
                return failed(FailureKind::Crashed, &format!("the tool ended with code {code}"));
            }
        };
        Ok(Output { value, usage, sandbox: report.tier, ..Output::default() })
    }
}

/// What a program wrote and how it ended.
fn raw(report: &Report) -> Value {
    let (exit_code, timed_out) = match report.end {
        End::Exited(code) => (code, false),
        End::Signalled(signal) => (128 + signal, false),
        other => (-1, other == End::TimedOut),
    };
    json!({"exit_code": exit_code, "timed_out": timed_out, "stdout": text(&report.stdout), "stderr": text(&report.stderr)})
}

/// Text as far as it is text. What was left out is said so.
fn text(captured: &Captured) -> String {
    let head = String::from_utf8_lossy(&captured.head);
    match captured.omitted {
        0 => head.into_owned(),
        omitted => format!("{head}\n[{omitted} bytes left out]\n{}", String::from_utf8_lossy(&captured.tail)),
    }
}
