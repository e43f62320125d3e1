//! Executor for tools that run programs in the sandbox, one after the other, within one deadline. It adds up
//! their resource usage; parsing their output is left to the tool.

use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use governance::Permit;
use registry::{Order, Preview, Running, ToolExecutor};
use sandbox::{Command, Confined, End, Grant, Report, Sandbox, Workplace, while_awaited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tool::{Failure, FailureKind, Output, Progress, ProgressNote, SandboxTier, Usage};

use crate::code::{heard_by, not_run};
use crate::tool_entry::Answer;

/// Future of a tool body that runs programs in the sandbox.
pub(crate) type Work<'a, O> = Pin<Box<dyn Future<Output = Result<Answer<O>, Failure>> + Send + 'a>>;

/// Function that does the work of a sandboxed tool, with typed arguments and a typed output.
pub(crate) type WalledBody<A, O> = for<'a> fn(&'a mut Walls, &'a A) -> Work<'a, O>;

/// Function that previews a call of a sandboxed tool.
pub(crate) type Foresee<A> = fn(&Permit, &A) -> Result<Preview, Failure>;

/// Executor that runs a `SandboxedBody`.
pub(crate) struct InWalls<A, O> {
    sandbox: Sandbox,
    body: WalledBody<A, O>,
    foresee: Foresee<A>,
}

impl<A, O> InWalls<A, O> {
    pub(crate) fn new(sandbox: &Sandbox, body: WalledBody<A, O>) -> Self {
        InWalls { sandbox: sandbox.clone(), body, foresee: |_, _| Ok(Preview::default()) }
    }

    /// Sets the function that previews a call.
    pub(crate) fn foretold(self, foresee: Foresee<A>) -> Self {
        InWalls { foresee, ..self }
    }
}

impl<A, O> ToolExecutor for InWalls<A, O>
where
    A: DeserializeOwned + Send + Sync + 'static,
    O: Serialize + Send + 'static,
{
    fn preview(&self, permit: &Permit) -> Result<Preview, Failure> {
        (self.foresee)(permit, &permit.call().typed()?)
    }

    fn run(&self, order: Arc<Order>) -> Running {
        self.run_telling(order, Progress::default())
    }

    fn run_telling(&self, order: Arc<Order>, progress: Progress) -> Running {
        let (sandbox, body) = (self.sandbox.clone(), self.body);
        let deadline = Instant::now() + order.value().timeout();
        Box::pin(async move {
            let arguments: A = order.value().call().typed()?;
            let mut session = Walls {
                sandbox,
                order,
                deadline,
                progress,
                usage: Usage::default(),
                tier: SandboxTier::None,
            };
            let answered = body(&mut session, &arguments).await;
            let (usage, sandbox) = (session.usage, session.tier);
            let answer = answered.map_err(|failure| Failure { sandbox, ..failure })?;
            let value = serde_json::to_value(answer.value).map_err(|error| {
                Failure::new(FailureKind::Crashed, format!("the tool's output is not valid JSON: {error}"))
            })?;
            Ok(Output { value, usage, sandbox, ..answer.facts })
        })
    }
}

/// Sandbox access of one call: deadline, progress reports and the resource usage so far.
pub(crate) struct Walls {
    sandbox: Sandbox,
    order: Arc<Order>,
    deadline: Instant,
    progress: Progress,
    usage: Usage,
    tier: SandboxTier,
}

/// One program to run in the sandbox.
pub(crate) struct Errand {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    /// Working directory.
    pub(crate) folder: PathBuf,
    pub(crate) grant: Grant,
    pub(crate) variables: Vec<(String, OsString)>,
    /// Number of bytes captured of each output.
    pub(crate) output_bytes: usize,
}

impl Walls {
    pub(crate) fn permit(&self) -> &Permit {
        self.order.value()
    }

    /// Reports progress to the clients that follow the call.
    pub(crate) fn tell(&self, message: String) {
        self.progress.tell(ProgressNote::saying(message));
    }

    /// Like `run`, and reports the output of the program as progress while it arrives.
    pub(crate) async fn run_aloud(&mut self, program_run: Errand) -> Result<Report, Failure> {
        let progress = self.progress.clone();
        self.run_heard(program_run, progress).await
    }

    /// Runs a program until it ends. A program that was stopped by the sandbox is a failure; the meaning of
    /// an exit code is left to the tool.
    pub(crate) async fn run(&mut self, program_run: Errand) -> Result<Report, Failure> {
        self.run_heard(program_run, Progress::default()).await
    }

    async fn run_heard(&mut self, program_run: Errand, progress: Progress) -> Result<Report, Failure> {
        let command = Command {
            program: program_run.program,
            arguments: program_run.arguments,
            input: None,
            workplace: Workplace::In(program_run.folder),
            deadline: self.deadline,
            output_bytes: program_run.output_bytes,
            grant: program_run.grant,
            variables: program_run.variables,
        };
        let order = Arc::clone(&self.order);
        let prepared = while_awaited(move |awaited| Confined::prepare(order.value(), &command, awaited));
        let confined = match prepared.await {
            Ok(confined) => confined.map_err(|error| not_run(&error))?,
            Err(_) => return Err(Failure::new(FailureKind::Crashed, "preparing the sandbox failed")),
        };
        let report =
            self.sandbox.run_telling(confined, heard_by(progress)).await.map_err(|error| not_run(&error))?;
        self.tier = report.tier;
        self.usage.cpu_ms += report.spent.cpu.as_secs_f64() * 1000.0;
        self.usage.confine_ms += report.confining.as_secs_f64() * 1000.0;
        self.usage.max_rss_bytes = self.usage.max_rss_bytes.max(report.spent.max_rss_bytes);
        self.usage.read_bytes += report.spent.read_bytes;
        self.usage.written_bytes += report.spent.written_bytes;
        self.ended(&report)?;
        Ok(report)
    }

    /// Parses program output on the blocking pool, within the deadline: the program controls how much there
    /// is to parse.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        reading: impl FnOnce(&Permit) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let order = Arc::clone(&self.order);
        let reading = tokio::task::spawn_blocking(move || reading(order.value()));
        match tokio::time::timeout_at(self.deadline.into(), reading).await {
            Ok(Ok(read)) => Ok(read),
            Ok(Err(_)) => Err(Failure::new(FailureKind::Crashed, "parsing the program's output failed")),
            Err(_) => {
                let message = "parsing the program's output took too long";
                Err(Failure::new(FailureKind::TimedOut, message).hint("narrow the request"))
            }
        }
    }

    fn ended(&self, report: &Report) -> Result<(), Failure> {
        let name = report.executable.path.display();
        let failed = match report.end {
            End::Exited(_) | End::Signalled(_) => return Ok(()),
            End::Denied => {
                Failure::new(FailureKind::Unreadable, format!("`{name}` made a forbidden system call"))
            }
            End::TimedOut => Failure::new(FailureKind::TimedOut, format!("`{name}` took too long")).hint(
                "all its processes were killed; narrow the request, or raise timeout_seconds in tools.yaml",
            ),
            End::OutOfMemory => Failure::new(FailureKind::TooLarge, format!("`{name}` used too much memory"))
                .hint("memory_mb in tools.yaml sets the limit"),
            End::TooManyProcesses => {
                Failure::new(FailureKind::TooLarge, format!("`{name}` started too many processes"))
                    .hint("max_processes in tools.yaml sets the limit")
            }
            End::Cancelled => Failure::new(FailureKind::Cancelled, format!("`{name}` was cancelled")),
            End::Killed => {
                Failure::new(FailureKind::Crashed, format!("`{name}` was killed by another process"))
            }
        };
        Err(failed)
    }
}
