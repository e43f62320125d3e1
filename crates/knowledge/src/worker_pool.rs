//! Pool of warm workers, each of which runs one function at a time. A worker that timed out, died or ran out
//! of memory is not used again.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Semaphore;

use crate::error::KnowledgeError;
use crate::function::{FunctionKind, KnowledgeFunction, Validation};
use crate::worker_protocol::{self, ScriptTask, WorkerReply, WorkerRequest};

/// Maximum number of concurrent validators, and of all other functions. They are separate, so that calls
/// under validation do not wait for running ones. A function takes half a millisecond or, rarely, its whole
/// time limit.
const MAX_CONCURRENT: usize = 4;
/// Messages of the engine for a call of a missing helper: one among others, and one if there are no helpers
/// at all.
const MISSING_HELPER_MESSAGES: [&str; 4] =
    ["not a function", "helpers is not defined", "of undefined", "'helpers' is not defined"];
/// Time beyond the limit before a worker is killed, so that a busy machine is not mistaken for a hung engine.
const KILL_GRACE: Duration = Duration::from_millis(25);
/// Maximum time for a new worker to become ready on a busy machine.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum age of a worker before it is replaced. The process that starts workers limits their lifetime.
const MAX_WORKER_AGE: Duration = Duration::from_secs(15 * 60);

/// Worker process that was started and sandboxed by the caller.
pub struct StartedWorker {
    /// Stream from which its replies are read.
    pub from: Box<dyn AsyncRead + Send + Unpin>,
    /// Stream to which requests are written.
    pub to: Box<dyn AsyncWrite + Send + Unpin>,
    /// Guard whose drop kills the process with all its children.
    pub kill_guard: Box<dyn Send>,
}

/// Future of a worker that is being started.
pub type StartWorkerFuture = Pin<Box<dyn Future<Output = io::Result<StartedWorker>> + Send>>;

/// Starts a worker: a sandboxed process of this program that calls `serve`.
pub type StartWorker = dyn Fn() -> StartWorkerFuture + Send + Sync;

/// Runs functions in worker processes. Clones are cheap and share the workers.
#[derive(Clone)]
pub struct WorkerPool {
    shared: Arc<WorkerPoolShared>,
}

struct WorkerPoolShared {
    start: Box<StartWorker>,
    /// Idle workers, longest idle first: its memory is most likely to be restored already.
    idle: Mutex<VecDeque<PooledWorker>>,
    validating: Semaphore,
    computing: Semaphore,
}

struct PooledWorker {
    /// Buffered, so that one read fetches as much as is available.
    from: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    to: Box<dyn AsyncWrite + Send + Unpin>,
    /// Kills the process when dropped.
    _kill_guard: Box<dyn Send>,
    started_at: Instant,
    /// True if it has been idle since its last reply, so that it may have died unnoticed.
    was_idle: bool,
}

impl WorkerPoolShared {
    /// Starts a worker and waits until it is ready.
    async fn start(&self) -> io::Result<PooledWorker> {
        let StartedWorker { from, to, kill_guard } = (self.start)().await?;
        let (from, started_at) = (BufReader::new(from), Instant::now());
        let mut worker = PooledWorker { from, to, _kill_guard: kill_guard, started_at, was_idle: false };
        match tokio::time::timeout(READY_TIMEOUT, receive(&mut worker.from)).await {
            Ok(Ok(WorkerReply::Ready)) => Ok(worker),
            Ok(Ok(_)) => Err(io::ErrorKind::InvalidData.into()),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<PooledWorker>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").finish_non_exhaustive()
    }
}

impl WorkerPool {
    /// Creates a pool that starts workers with `start` when they are first needed.
    pub fn new(start: impl Fn() -> StartWorkerFuture + Send + Sync + 'static) -> Self {
        let shared = WorkerPoolShared {
            start: Box::new(start),
            idle: Mutex::default(),
            validating: Semaphore::new(MAX_CONCURRENT),
            computing: Semaphore::new(MAX_CONCURRENT),
        };
        WorkerPool { shared: Arc::new(shared) }
    }

    /// Checks that a text can be parsed as a function.
    pub async fn parse(&self, source: &str) -> Result<(), KnowledgeError> {
        let function = KnowledgeFunction {
            kind: FunctionKind::Helper,
            id: "function".into(),
            source: source.into(),
            helpers: Arc::from([]),
        };
        match self.submit(&function, ScriptTask::Parse, "null").await? {
            (WorkerReply::Parsed, _) => Ok(()),
            (other, _) => Err(reply_error(&function, other)),
        }
    }

    /// Runs a helper or processor and returns its result as JSON text. The text is not parsed here, because a
    /// small text may need much memory; the caller decides the limit.
    pub async fn compute(
        &self,
        function: &KnowledgeFunction,
        input: &Value,
    ) -> Result<String, KnowledgeError> {
        match self.submit(function, ScriptTask::Compute, &input.to_string()).await? {
            (WorkerReply::Value(text), _) => Ok(text),
            (other, _) => Err(reply_error(function, other)),
        }
    }

    /// Runs a validator on a call. The caller must treat every error as a refusal.
    pub async fn validate(
        &self,
        function: &KnowledgeFunction,
        arguments: &str,
    ) -> Result<Validation, KnowledgeError> {
        match self.submit(function, ScriptTask::Validate, arguments).await? {
            (WorkerReply::Verdict { valid, errors }, duration) => {
                let errors = match (valid, errors.is_empty()) {
                    (true, true) => Vec::new(),
                    (false, true) => {
                        vec![format!("{} refused the call without giving a reason", function.id)]
                    }
                    (_, false) => errors,
                };
                Ok(Validation { errors, duration })
            }
            (other, _) => Err(reply_error(function, other)),
        }
    }

    async fn submit(
        &self,
        function: &KnowledgeFunction,
        task: ScriptTask,
        argument: &str,
    ) -> Result<(WorkerReply, Duration), KnowledgeError> {
        let time = function.kind.time_limit();
        let helpers = if function.source.contains("helpers") { &*function.helpers } else { &[] };
        let request = WorkerRequest {
            task,
            time_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            source: Cow::Borrowed(&function.source),
            argument: Cow::Borrowed(argument),
            helpers: helpers.iter().map(|(id, source)| ((&**id).into(), (&**source).into())).collect(),
        };
        let unavailable = |error: io::Error| KnowledgeError::Unavailable(error.to_string());
        let request = worker_protocol::frame(&request).map_err(unavailable)?;
        // The semaphore is never closed; if it were, nothing would run.
        let semaphore = match function.kind {
            FunctionKind::Validator => &self.shared.validating,
            FunctionKind::Helper | FunctionKind::Processor => &self.shared.computing,
        };
        let permit = semaphore.acquire().await;
        let _permit = permit.map_err(|_| KnowledgeError::Unavailable("closed".to_owned()))?;
        self.submit_to_worker(function, &request).await
    }

    async fn submit_to_worker(
        &self,
        function: &KnowledgeFunction,
        request: &[u8],
    ) -> Result<(WorkerReply, Duration), KnowledgeError> {
        let time = function.kind.time_limit();
        let unavailable = |error: io::Error| KnowledgeError::Unavailable(error.to_string());
        let mut remaining = time + KILL_GRACE;
        let mut spent = Duration::ZERO;
        loop {
            let worker = self.take_worker().await.map_err(unavailable)?;
            let (waited, started) = (worker.was_idle, Instant::now());
            let worker_reply = tokio::time::timeout(remaining, self.send(worker, request)).await;
            spent += started.elapsed();
            match worker_reply {
                Ok(Some(reply)) => return Ok((reply, spent)),
                // The worker may have died while idle, before it read the request. A function has no side
                // effects, so another worker can run it in the remaining time.
                Ok(None) if waited => remaining = (time + KILL_GRACE).saturating_sub(spent),
                Ok(None) => return Err(crash_error(function)),
                Err(_) => {
                    self.start_replacement();
                    return Ok((WorkerReply::TimedOut, spent));
                }
            }
        }
    }

    /// Sends a request to a worker and returns the reply, or none if the worker ended. Dropping this future
    /// kills the worker.
    async fn send(&self, mut worker: PooledWorker, request: &[u8]) -> Option<WorkerReply> {
        worker.to.write_all(request).await.ok()?;
        let reply = receive(&mut worker.from).await.ok()?;
        if can_reuse_after(&reply) {
            self.shared.idle().push_back(PooledWorker { was_idle: true, ..worker });
        } else {
            drop(worker);
            self.start_replacement();
        }
        Some(reply)
    }

    /// Returns an idle worker that is not too old, else a new one.
    async fn take_worker(&self) -> io::Result<PooledWorker> {
        loop {
            let idle = self.shared.idle().pop_front();
            match idle {
                Some(idle) if idle.started_at.elapsed() > MAX_WORKER_AGE => {}
                Some(idle) => return Ok(idle),
                None => return self.shared.start().await,
            }
        }
    }

    /// Starts a replacement for a killed worker in the background, so that the next call does not wait.
    fn start_replacement(&self) {
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            if let Ok(worker) = shared.start().await {
                shared.idle().push_back(PooledWorker { was_idle: true, ..worker });
            }
        });
    }
}

/// Returns true if a worker can be reused after this reply. After it reached a limit, its state is unknown.
fn can_reuse_after(reply: &WorkerReply) -> bool {
    match reply {
        WorkerReply::Parsed | WorkerReply::Value(_) | WorkerReply::Verdict { .. } | WorkerReply::Shape(_) => {
            true
        }
        WorkerReply::Threw(_) | WorkerReply::Syntax { .. } => true,
        WorkerReply::Ready | WorkerReply::OutOfMemory | WorkerReply::TimedOut | WorkerReply::Broken(_) => {
            false
        }
    }
}

async fn receive(from: &mut (dyn AsyncRead + Send + Unpin)) -> io::Result<WorkerReply> {
    let mut head = [0; worker_protocol::LENGTH_PREFIX];
    from.read_exact(&mut head).await?;
    let mut body = vec![0; worker_protocol::decode_length(head)?];
    from.read_exact(&mut body).await?;
    worker_protocol::parse(&body)
}

fn crash_error(function: &KnowledgeFunction) -> KnowledgeError {
    KnowledgeError::Crashed { kind: function.kind, id: function.id.to_string() }
}

/// Returns the missing helper that a function called, if that is why it failed.
fn missing_helper(function: &KnowledgeFunction, message: &str) -> Option<String> {
    MISSING_HELPER_MESSAGES
        .iter()
        .any(|phrase| message.contains(phrase))
        .then(|| function.missing_helper())?
}

fn reply_error(function: &KnowledgeFunction, reply: WorkerReply) -> KnowledgeError {
    let (kind, id) = (function.kind, function.id.to_string());
    match reply {
        WorkerReply::TimedOut => KnowledgeError::TimedOut { kind, id },
        WorkerReply::OutOfMemory => KnowledgeError::OutOfMemory { kind, id },
        WorkerReply::Threw(message) => match missing_helper(function, &message) {
            Some(id) => KnowledgeError::NoHelper { id, known: function.helper_ids() },
            None => KnowledgeError::Failed { kind, id, message },
        },
        WorkerReply::Shape(message) => KnowledgeError::InvalidResult { kind, id, message },
        WorkerReply::Syntax { line, column, message } => KnowledgeError::Syntax { line, column, message },
        WorkerReply::Broken(message) => KnowledgeError::Unavailable(message),
        // A reply to another request: the worker cannot be trusted.
        WorkerReply::Ready | WorkerReply::Parsed | WorkerReply::Value(_) | WorkerReply::Verdict { .. } => {
            crash_error(function)
        }
    }
}

#[cfg(test)]
mod tests;
