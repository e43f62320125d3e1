//! Runs a tool whose work is done by programs in walls, one after the other, within one deadline. What they used is
//! added up; what they wrote is for the tool to read.

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

/// A tool at work in walls.
pub(crate) type Work<'a, O> = Pin<Box<dyn Future<Output = Result<Answer<O>, Failure>> + Send + 'a>>;

/// What such a tool does, with typed arguments and a typed output.
pub(crate) type WalledBody<A, O> = for<'a> fn(&'a mut Walls, &'a A) -> Work<'a, O>;

/// What such a tool foretells.
pub(crate) type Foresee<A> = fn(&Permit, &A) -> Result<Preview, Failure>;

/// Runs a body.
pub(crate) struct InWalls<A, O> {
    sandbox: Sandbox,
    body: WalledBody<A, O>,
    foresee: Foresee<A>,
}

impl<A, O> InWalls<A, O> {
    pub(crate) fn new(sandbox: &Sandbox, body: WalledBody<A, O>) -> Self {
        InWalls { sandbox: sandbox.clone(), body, foresee: |_, _| Ok(Preview::default()) }
    }

    /// The same, and what a call would run is foretold so.
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
            let mut walls = Walls {
                sandbox,
                order,
                deadline,
                progress,
                usage: Usage::default(),
                tier: SandboxTier::None,
            };
            let answered = body(&mut walls, &arguments).await;
            let (usage, sandbox) = (walls.usage, walls.tier);
            let answer = answered.map_err(|failure| Failure { sandbox, ..failure })?;
            let value = serde_json::to_value(answer.value).map_err(|error| {
                Failure::new(FailureKind::Crashed, format!("the tool's answer is not JSON: {error}"))
            })?;
            Ok(Output { value, usage, sandbox, ..answer.facts })
        })
    }
}

/// What a tool has its programs run in.
pub(crate) struct Walls {
    sandbox: Sandbox,
    order: Arc<Order>,
    deadline: Instant,
    progress: Progress,
    usage: Usage,
    tier: SandboxTier,
}

/// One program to be run.
pub(crate) struct Errand {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    /// Where it runs.
    pub(crate) folder: PathBuf,
    pub(crate) grant: Grant,
    pub(crate) variables: Vec<(String, OsString)>,
    /// How much of each output is kept.
    pub(crate) output_bytes: usize,
}

impl Walls {
    pub(crate) fn permit(&self) -> &Permit {
        self.order.value()
    }

    /// Says how far it has come, to whoever listens.
    pub(crate) fn tell(&self, message: String) {
        self.progress.tell(ProgressNote::saying(message));
    }

    /// The same as [`run`](Self::run), and what the program writes is told while it comes in.
    pub(crate) async fn run_aloud(&mut self, errand: Errand) -> Result<Report, Failure> {
        let progress = self.progress.clone();
        self.run_heard(errand, progress).await
    }

    /// Runs a program to its end. One that was ended from outside is a failure; what its own code means is for the
    /// tool to say.
    pub(crate) async fn run(&mut self, errand: Errand) -> Result<Report, Failure> {
        self.run_heard(errand, Progress::default()).await
    }

    async fn run_heard(&mut self, errand: Errand, progress: Progress) -> Result<Report, Failure> {
        let command = Command {
            program: errand.program,
            arguments: errand.arguments,
            input: None,
            workplace: Workplace::In(errand.folder),
            deadline: self.deadline,
            output_bytes: errand.output_bytes,
            grant: errand.grant,
            variables: errand.variables,
        };
        let order = Arc::clone(&self.order);
        let prepared = while_awaited(move |awaited| Confined::prepare(order.value(), &command, awaited));
        let confined = match prepared.await {
            Ok(confined) => confined.map_err(|error| not_run(&error))?,
            Err(_) => return Err(Failure::new(FailureKind::Crashed, "preparing the program failed")),
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

    /// Reads what a program wrote, on a thread that may take long and within the deadline: how much there is to read was for
    /// the program to say.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        reading: impl FnOnce(&Permit) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let order = Arc::clone(&self.order);
        let reading = tokio::task::spawn_blocking(move || reading(order.value()));
        match tokio::time::timeout_at(self.deadline.into(), reading).await {
            Ok(Ok(read)) => Ok(read),
            Ok(Err(_)) => Err(Failure::new(FailureKind::Crashed, "reading what the program wrote failed")),
            Err(_) => {
                let message = "reading what the program wrote took too long";
                Err(Failure::new(FailureKind::TimedOut, message).hint("ask for less"))
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
                "everything it started was ended; ask for less, or raise timeout_seconds in tools.yaml",
            ),
            End::OutOfMemory => Failure::new(FailureKind::TooLarge, format!("`{name}` used too much memory"))
                .hint("memory_mb of tools.yaml decides"),
            End::TooManyProcesses => {
                Failure::new(FailureKind::TooLarge, format!("`{name}` started too many processes"))
                    .hint("max_processes of tools.yaml decides")
            }
            End::Cancelled => Failure::new(FailureKind::Cancelled, format!("`{name}` was cancelled")),
            End::Killed => Failure::new(FailureKind::Crashed, format!("`{name}` was ended from outside")),
        };
        Err(failed)
    }
}
