//! Executor for tools that run programs in the sandbox, one after the other, within one deadline. It adds up
//! their resource usage; parsing their output is left to the tool.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use governance::Permit;
use registry::{CallPreview, ExecutorFuture, RecordedPermit, ToolExecutor};
use sandbox::{ConfinedCommand, OutputChunk, OutputListener, RunReport, Sandbox, SandboxCommand};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tool::result::{SandboxTier, Usage};
use tool::{Failure, FailureKind, Progress, ProgressNote, ToolOutput};

use crate::code::output_encoding;
use crate::tool_registration::TypedOutput;

/// Bytes of output reported as progress while a program runs. The result contains the rest.
const MAX_PROGRESS_BYTES: usize = 1024 * 1024;

/// Future of a tool body that runs programs in the sandbox.
pub(crate) type ToolFuture<'a, O> =
    Pin<Box<dyn Future<Output = Result<TypedOutput<O>, Failure>> + Send + 'a>>;

/// Function that does the work of a sandboxed tool, with typed arguments and a typed output.
pub(crate) type SandboxedBody<A, O> = for<'a> fn(&'a mut SandboxSession, &'a A) -> ToolFuture<'a, O>;

/// Function that previews a call of a sandboxed tool.
pub(crate) type SandboxedPreviewFn<A> = fn(&Permit, &A) -> Result<CallPreview, Failure>;

/// Executor that runs a `SandboxedBody`.
pub(crate) struct SandboxedTool<A, O> {
    sandbox: Sandbox,
    body: SandboxedBody<A, O>,
    preview: SandboxedPreviewFn<A>,
}

impl<A, O> SandboxedTool<A, O> {
    pub(crate) fn new(sandbox: &Sandbox, body: SandboxedBody<A, O>) -> Self {
        SandboxedTool { sandbox: sandbox.clone(), body, preview: |_, _| Ok(CallPreview::default()) }
    }

    /// Sets the function that previews a call.
    pub(crate) fn with_preview(self, preview: SandboxedPreviewFn<A>) -> Self {
        SandboxedTool { preview, ..self }
    }
}

impl<A, O> ToolExecutor for SandboxedTool<A, O>
where
    A: DeserializeOwned + Send + Sync + 'static,
    O: Serialize + Send + 'static,
{
    fn preview(&self, permit: &Permit) -> Result<CallPreview, Failure> {
        (self.preview)(permit, &permit.call().typed()?)
    }

    fn run(&self, recorded_permit: Arc<RecordedPermit>) -> ExecutorFuture {
        self.run_with_progress(recorded_permit, Progress::default())
    }

    fn run_with_progress(&self, recorded_permit: Arc<RecordedPermit>, progress: Progress) -> ExecutorFuture {
        let (sandbox, body) = (self.sandbox.clone(), self.body);
        let deadline = Instant::now() + recorded_permit.value().timeout();
        Box::pin(async move {
            let arguments: A = recorded_permit.value().call().typed()?;
            let mut session = SandboxSession {
                sandbox,
                recorded_permit,
                deadline,
                progress,
                usage: Usage::default(),
                tier: SandboxTier::None,
            };
            let result = body(&mut session, &arguments).await;
            let (usage, sandbox) = (session.usage, session.tier);
            let output = result.map_err(|failure| Failure { sandbox, ..failure })?;
            Ok(ToolOutput { usage, sandbox, ..output.into_output()? })
        })
    }
}

/// Sandbox access of one call: deadline, progress reports and the resource usage so far.
pub(crate) struct SandboxSession {
    sandbox: Sandbox,
    recorded_permit: Arc<RecordedPermit>,
    pub(crate) deadline: Instant,
    progress: Progress,
    usage: Usage,
    tier: SandboxTier,
}

impl SandboxSession {
    pub(crate) fn permit(&self) -> &Permit {
        self.recorded_permit.value()
    }

    /// Reports progress to the clients that follow the call.
    pub(crate) fn report_progress(&self, message: String) {
        self.progress.report(ProgressNote::with_message(message));
    }

    /// Runs a program until it ends. A program that was stopped by the sandbox is a failure; the meaning of
    /// an exit code is left to the tool.
    pub(crate) async fn run(&mut self, command: SandboxCommand) -> Result<RunReport, Failure> {
        let report = self.execute(command, None).await?;
        ended_by_itself(report)
    }

    /// Like `run`, and reports the output of the program as progress while it arrives.
    pub(crate) async fn run_with_progress(&mut self, command: SandboxCommand) -> Result<RunReport, Failure> {
        let report = self.execute(command, output_listener(&self.progress)).await?;
        ended_by_itself(report)
    }

    /// Like `run_with_progress`, and leaves the meaning of every ending to the tool.
    pub(crate) async fn run_to_any_end(&mut self, command: SandboxCommand) -> Result<RunReport, Failure> {
        self.execute(command, output_listener(&self.progress)).await
    }

    async fn execute(
        &mut self,
        command: SandboxCommand,
        on_output: Option<OutputListener>,
    ) -> Result<RunReport, Failure> {
        let recorded_permit = Arc::clone(&self.recorded_permit);
        let confined = sandbox::prepare(move |awaited| {
            Ok(ConfinedCommand::prepare(recorded_permit.value(), &command, awaited)?)
        })
        .await?;
        let report = self.sandbox.run_with_progress(confined, on_output).await?;
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
    pub(crate) async fn offload<T: Send + 'static>(
        &self,
        reading: impl FnOnce(&Permit) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let recorded_permit = Arc::clone(&self.recorded_permit);
        let reading = tokio::task::spawn_blocking(move || reading(recorded_permit.value()));
        match tokio::time::timeout_at(self.deadline.into(), reading).await {
            Ok(Ok(read)) => Ok(read),
            Ok(Err(_)) => Err(Failure::new(FailureKind::Crashed, "parsing the program's output failed")),
            Err(_) => {
                let message = "parsing the program's output took too long";
                Err(Failure::new(FailureKind::TimedOut, message).with_hint("narrow the request"))
            }
        }
    }
}

fn ended_by_itself(report: RunReport) -> Result<RunReport, Failure> {
    match report.end.failure(&format!("`{}`", report.executable.path.display())) {
        Some(failure) => Err(failure),
        None => Ok(report),
    }
}

/// Returns a callback that reports output as progress, if a client follows the call.
fn output_listener(progress: &Progress) -> Option<OutputListener> {
    let (progress, mut remaining) = (progress.clone(), MAX_PROGRESS_BYTES);
    progress.has_listener().then(|| -> OutputListener {
        Box::new(move |piece: OutputChunk<'_>| {
            remaining = remaining.saturating_sub(piece.bytes.len());
            if remaining > 0 {
                progress.report(progress_note(piece));
            }
        })
    })
}

fn progress_note(piece: OutputChunk<'_>) -> ProgressNote {
    let (text, encoding) = output_encoding::encode(piece.bytes);
    let source = piece.stream.as_str();
    ProgressNote {
        message: format!("{} bytes of {source}", piece.bytes.len()),
        done_of_total: None,
        data: Some(json!({
            "sequence": piece.sequence,
            "source": source,
            "encoding": encoding,
            "content": text,
        })),
    }
}
