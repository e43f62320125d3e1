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
use crate::function::{Function, Kind, Validation};
use crate::wire::{self, Reply, Request, Task};

/// Maximum number of concurrent validators, and of all other functions. They are separate, so that calls
/// under validation do not wait for running ones. A function takes half a millisecond or, rarely, its whole
/// time limit.
const MOST: usize = 4;
/// Messages of the engine for a call of a missing helper: one among others, and one if there are no helpers
/// at all.
const NO_HELPER: [&str; 2] = ["not a function", "helpers is not defined"];
/// Time beyond the limit before a worker is killed, so that a busy machine is not mistaken for a hung engine.
const GRACE: Duration = Duration::from_millis(25);
/// Maximum time for a new worker to become ready on a busy machine.
const READY: Duration = Duration::from_secs(10);

/// Maximum age of a worker before it is replaced. The process that starts workers limits their lifetime.
const OLDEST: Duration = Duration::from_secs(15 * 60);

/// Worker process that was started and sandboxed by the caller.
pub struct Started {
    /// Stream from which its replies are read.
    pub from: Box<dyn AsyncRead + Send + Unpin>,
    /// Stream to which requests are written.
    pub to: Box<dyn AsyncWrite + Send + Unpin>,
    /// Guard whose drop kills the process with all its children.
    pub life: Box<dyn Send>,
}

/// Future of a worker that is being started.
pub type Starting = Pin<Box<dyn Future<Output = io::Result<Started>> + Send>>;

/// Starts a worker: a sandboxed process of this program that calls `serve`.
pub type Start = dyn Fn() -> Starting + Send + Sync;

/// Runs functions in worker processes. Clones are cheap and share the workers.
#[derive(Clone)]
pub struct Workers {
    shared: Arc<Shared>,
}

struct Shared {
    start: Box<Start>,
    /// Idle workers, longest idle first: its memory is most likely to be restored already.
    idle: Mutex<VecDeque<Worker>>,
    validating: Semaphore,
    computing: Semaphore,
}

struct Worker {
    /// Buffered, so that one read fetches as much as is available.
    from: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    to: Box<dyn AsyncWrite + Send + Unpin>,
    /// Kills the process when dropped.
    _life: Box<dyn Send>,
    born: Instant,
    /// True if it has been idle since its last reply, so that it may have died unnoticed.
    waited: bool,
}

impl Shared {
    /// Starts a worker and waits until it is ready.
    async fn start(&self) -> io::Result<Worker> {
        let Started { from, to, life } = (self.start)().await?;
        let (from, born) = (BufReader::new(from), Instant::now());
        let mut worker = Worker { from, to, _life: life, born, waited: false };
        match tokio::time::timeout(READY, receive(&mut worker.from)).await {
            Ok(Ok(Reply::Ready)) => Ok(worker),
            Ok(Ok(_)) => Err(io::ErrorKind::InvalidData.into()),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<Worker>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").finish_non_exhaustive()
    }
}

impl Workers {
    /// Creates a pool that starts workers with `start` when they are first needed.
    pub fn new(start: impl Fn() -> Starting + Send + Sync + 'static) -> Self {
        let shared = Shared {
            start: Box::new(start),
            idle: Mutex::default(),
            validating: Semaphore::new(MOST),
            computing: Semaphore::new(MOST),
        };
        Workers { shared: Arc::new(shared) }
    }

    /// Checks that a text can be parsed as a function.
    pub async fn parse(&self, source: &str) -> Result<(), KnowledgeError> {
        let function = Function {
            kind: Kind::Helper,
            id: "function".into(),
            source: source.into(),
            helpers: Arc::from([]),
        };
        match self.ask(&function, Task::Parse, "null").await? {
            (Reply::Parsed, _) => Ok(()),
            (other, _) => Err(refused(&function, other)),
        }
    }

    /// Runs a helper or processor and returns its result as JSON text. The text is not parsed here, because a
    /// small text may need much memory; the caller decides the limit.
    pub async fn compute(&self, function: &Function, input: &Value) -> Result<String, KnowledgeError> {
        match self.ask(function, Task::Compute, &input.to_string()).await? {
            (Reply::Value(text), _) => Ok(text),
            (other, _) => Err(refused(function, other)),
        }
    }

    /// Runs a validator on a call. The caller must treat every error as a refusal.
    pub async fn validate(&self, function: &Function, arguments: &str) -> Result<Validation, KnowledgeError> {
        match self.ask(function, Task::Validate, arguments).await? {
            (Reply::Verdict { valid, errors }, took) => {
                let errors = match (valid, errors.is_empty()) {
                    (true, true) => Vec::new(),
                    (false, true) => {
                        vec![format!("{} refused the call without giving a reason", function.id)]
                    }
                    (_, false) => errors,
                };
                Ok(Validation { errors, took })
            }
            (other, _) => Err(refused(function, other)),
        }
    }

    async fn ask(
        &self,
        function: &Function,
        task: Task,
        argument: &str,
    ) -> Result<(Reply, Duration), KnowledgeError> {
        let time = function.kind.time();
        let helpers = if function.source.contains("helpers") { &*function.helpers } else { &[] };
        let request = Request {
            task,
            time_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            source: Cow::Borrowed(&function.source),
            argument: Cow::Borrowed(argument),
            helpers: helpers.iter().map(|(id, source)| ((&**id).into(), (&**source).into())).collect(),
        };
        let unavailable = |error: io::Error| KnowledgeError::Unavailable(error.to_string());
        let request = wire::framed(&request).map_err(unavailable)?;
        // The semaphore is never closed; if it were, nothing would run.
        let places = match function.kind {
            Kind::Validator => &self.shared.validating,
            Kind::Helper | Kind::Processor => &self.shared.computing,
        };
        let place = places.acquire().await;
        let _place = place.map_err(|_| KnowledgeError::Unavailable("closed".to_owned()))?;
        self.ask_workers(function, &request).await
    }

    async fn ask_workers(
        &self,
        function: &Function,
        request: &[u8],
    ) -> Result<(Reply, Duration), KnowledgeError> {
        let time = function.kind.time();
        let unavailable = |error: io::Error| KnowledgeError::Unavailable(error.to_string());
        let mut left = time + GRACE;
        let mut spent = Duration::ZERO;
        loop {
            let worker = self.worker().await.map_err(unavailable)?;
            let (waited, started) = (worker.waited, Instant::now());
            let answer = tokio::time::timeout(left, self.hand(worker, request)).await;
            spent += started.elapsed();
            match answer {
                Ok(Some(reply)) => return Ok((reply, spent)),
                // The worker may have died while idle, before it read the request. A function has no side
                // effects, so another worker can run it in the remaining time.
                Ok(None) if waited => left = (time + GRACE).saturating_sub(spent),
                Ok(None) => return Err(crashed(function)),
                Err(_) => {
                    self.replace();
                    return Ok((Reply::TimedOut, spent));
                }
            }
        }
    }

    /// Sends a request to a worker and returns the reply, or none if the worker ended. Dropping this future
    /// kills the worker.
    async fn hand(&self, mut worker: Worker, request: &[u8]) -> Option<Reply> {
        worker.to.write_all(request).await.ok()?;
        let reply = receive(&mut worker.from).await.ok()?;
        if keeps(&reply) {
            self.shared.idle().push_back(Worker { waited: true, ..worker });
        } else {
            drop(worker);
            self.replace();
        }
        Some(reply)
    }

    /// Returns an idle worker that is not too old, else a new one.
    async fn worker(&self) -> io::Result<Worker> {
        loop {
            let idle = self.shared.idle().pop_front();
            match idle {
                Some(idle) if idle.born.elapsed() > OLDEST => {}
                Some(idle) => return Ok(idle),
                None => return self.shared.start().await,
            }
        }
    }

    /// Starts a replacement for a killed worker in the background, so that the next call does not wait.
    fn replace(&self) {
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            if let Ok(worker) = shared.start().await {
                shared.idle().push_back(Worker { waited: true, ..worker });
            }
        });
    }
}

/// Returns true if a worker can be reused after this reply. After it reached a limit, its state is unknown.
fn keeps(reply: &Reply) -> bool {
    match reply {
        Reply::Parsed | Reply::Value(_) | Reply::Verdict { .. } | Reply::Shape(_) => true,
        Reply::Threw(_) | Reply::Syntax { .. } => true,
        Reply::Ready | Reply::OutOfMemory | Reply::TimedOut | Reply::Broken(_) => false,
    }
}

async fn receive(from: &mut (dyn AsyncRead + Send + Unpin)) -> io::Result<Reply> {
    let mut head = [0; wire::HEAD];
    from.read_exact(&mut head).await?;
    let mut body = vec![0; wire::length(head)?];
    from.read_exact(&mut body).await?;
    wire::parse(&body)
}

fn crashed(function: &Function) -> KnowledgeError {
    KnowledgeError::Crashed { kind: function.kind, id: function.id.to_string() }
}

/// Returns the missing helper that a function called, if that is why it failed.
fn missing_helper(function: &Function, message: &str) -> Option<String> {
    NO_HELPER.iter().any(|words| message.contains(words)).then(|| function.missing_helper())?
}

fn refused(function: &Function, reply: Reply) -> KnowledgeError {
    let (kind, id) = (function.kind, function.id.to_string());
    match reply {
        Reply::TimedOut => KnowledgeError::TimedOut { kind, id },
        Reply::OutOfMemory => KnowledgeError::OutOfMemory { kind, id },
        Reply::Threw(message) => match missing_helper(function, &message) {
            Some(id) => KnowledgeError::NoHelper { id, known: function.helper_ids() },
            None => KnowledgeError::Failed { kind, id, message },
        },
        Reply::Shape(message) => KnowledgeError::Shape { kind, id, message },
        Reply::Syntax { line, column, message } => KnowledgeError::Syntax { line, column, message },
        Reply::Broken(message) => KnowledgeError::Unavailable(message),
        // A reply to another request: the worker cannot be trusted.
        Reply::Ready | Reply::Parsed | Reply::Value(_) | Reply::Verdict { .. } => crashed(function),
    }
}

#[cfg(test)]
mod tests;
