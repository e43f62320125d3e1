//! Executor for tools that run programs in the sandbox, one after the other, within one deadline. It adds up
//! their resource usage; parsing their output is left to the tool.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use governance::Permit;
use registry::{Order, Preview, Running, ToolExecutor};
use sandbox::{Command, Confined, Hear, Piece, Report, Sandbox};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tool::{Failure, FailureKind, Output, Progress, ProgressNote, SandboxTier, Usage};

use crate::code::bytes;
use crate::tool_entry::Answer;

/// Bytes of output reported as progress while a program runs. The result contains the rest.
const MOST_TOLD: usize = 1024 * 1024;

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
            Ok(Output { usage, sandbox, ..answer.into_output()? })
        })
    }
}

/// Sandbox access of one call: deadline, progress reports and the resource usage so far.
pub(crate) struct Walls {
    sandbox: Sandbox,
    order: Arc<Order>,
    pub(crate) deadline: Instant,
    progress: Progress,
    usage: Usage,
    tier: SandboxTier,
}

impl Walls {
    pub(crate) fn permit(&self) -> &Permit {
        self.order.value()
    }

    /// Reports progress to the clients that follow the call.
    pub(crate) fn tell(&self, message: String) {
        self.progress.tell(ProgressNote::saying(message));
    }

    /// Runs a program until it ends. A program that was stopped by the sandbox is a failure; the meaning of
    /// an exit code is left to the tool.
    pub(crate) async fn run(&mut self, command: Command) -> Result<Report, Failure> {
        let report = self.execute(command, None).await?;
        ended_by_itself(report)
    }

    /// Like `run`, and reports the output of the program as progress while it arrives.
    pub(crate) async fn run_aloud(&mut self, command: Command) -> Result<Report, Failure> {
        let report = self.execute(command, heard_by(&self.progress)).await?;
        ended_by_itself(report)
    }

    /// Like `run_aloud`, and leaves the meaning of every ending to the tool.
    pub(crate) async fn run_to_any_end(&mut self, command: Command) -> Result<Report, Failure> {
        self.execute(command, heard_by(&self.progress)).await
    }

    async fn execute(&mut self, command: Command, hear: Option<Hear>) -> Result<Report, Failure> {
        let order = Arc::clone(&self.order);
        let confined =
            sandbox::prepare(move |awaited| Ok(Confined::prepare(order.value(), &command, awaited)?)).await?;
        let report = self.sandbox.run_telling(confined, hear).await?;
        let used = report.usage();
        self.tier = report.tier;
        self.usage.cpu_ms += used.cpu_ms;
        self.usage.confine_ms += used.confine_ms;
        self.usage.max_rss_bytes = self.usage.max_rss_bytes.max(used.max_rss_bytes);
        self.usage.read_bytes += used.read_bytes;
        self.usage.written_bytes += used.written_bytes;
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
}

fn ended_by_itself(report: Report) -> Result<Report, Failure> {
    match report.end.failure(&format!("`{}`", report.executable.path.display())) {
        Some(failure) => Err(failure),
        None => Ok(report),
    }
}

/// Returns a callback that reports output as progress, if a client follows the call.
fn heard_by(progress: &Progress) -> Option<Hear> {
    let (progress, mut left) = (progress.clone(), MOST_TOLD);
    progress.is_heard().then(|| -> Hear {
        Box::new(move |piece: Piece<'_>| {
            left = left.saturating_sub(piece.bytes.len());
            if left > 0 {
                progress.tell(note(piece));
            }
        })
    })
}

fn note(piece: Piece<'_>) -> ProgressNote {
    let (text, encoding) = bytes::shown(piece.bytes);
    let source = piece.source.as_str();
    ProgressNote {
        message: format!("{} bytes of {source}", piece.bytes.len()),
        share: None,
        data: Some(json!({
            "sequence": piece.sequence,
            "source": source,
            "encoding": encoding,
            "content": text,
        })),
    }
}
