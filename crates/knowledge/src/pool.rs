//! A few workers, warm, each asked one thing at a time. One that took too long, died or ran out of memory is never
//! asked again.

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

/// Workers at once for validators, and as many for all else: those who are still being checked do not wait for what already
/// runs. A function takes half a millisecond or, once in a while, all its time.
const MOST: usize = 4;
/// What the engine says of a call of a helper that is not there: of one among others, and of one where there are none.
const NO_HELPER: [&str; 2] = ["not a function", "helpers is not defined"];
/// What the engine may take beyond its own limit before it is killed: told apart from a machine that is merely busy.
const GRACE: Duration = Duration::from_millis(25);
/// What a new worker may take to be ready, on a machine that has much to do.
const READY: Duration = Duration::from_secs(10);

/// A worker that has waited longer is replaced: somebody else decides how long it lives.
const OLDEST: Duration = Duration::from_secs(15 * 60);

/// A worker that was started and confined by somebody else.
pub struct Started {
    /// Its answers.
    pub from: Box<dyn AsyncRead + Send + Unpin>,
    /// Its questions.
    pub to: Box<dyn AsyncWrite + Send + Unpin>,
    /// Ends it at once, with all it has; dropping it does that.
    pub life: Box<dyn Send>,
}

/// A worker on its way.
pub type Starting = Pin<Box<dyn Future<Output = io::Result<Started>> + Send>>;

/// Starts a worker: a confined process of this program that runs [`serve`](crate::serve).
pub type Start = dyn Fn() -> Starting + Send + Sync;

/// Runs functions. Cheap to clone; clones share their workers.
#[derive(Clone)]
pub struct Workers {
    shared: Arc<Shared>,
}

struct Shared {
    start: Box<Start>,
    /// Whoever has waited longest comes first: it had the most time to forget.
    idle: Mutex<VecDeque<Worker>>,
    validating: Semaphore,
    computing: Semaphore,
}

struct Worker {
    /// Read as much at a time as there is.
    from: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    to: Box<dyn AsyncWrite + Send + Unpin>,
    /// Ends it.
    _life: Box<dyn Send>,
    born: Instant,
    /// It has waited since it was last heard of: it may have died unseen.
    waited: bool,
}

impl Shared {
    /// A new one, once it is ready.
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
    /// Workers that are started so, when they are first needed.
    pub fn new(start: impl Fn() -> Starting + Send + Sync + 'static) -> Self {
        let shared = Shared {
            start: Box::new(start),
            idle: Mutex::default(),
            validating: Semaphore::new(MOST),
            computing: Semaphore::new(MOST),
        };
        Workers { shared: Arc::new(shared) }
    }

    /// Whether a text can be parsed as a function.
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

    /// What a helper or processor makes of its input, as JSON text: a few bytes of it may become many of memory, so whoever
    /// reads it says how much is too much.
    pub async fn compute(&self, function: &Function, input: &Value) -> Result<String, KnowledgeError> {
        match self.ask(function, Task::Compute, &input.to_string()).await? {
            (Reply::Value(text), _) => Ok(text),
            (other, _) => Err(refused(function, other)),
        }
    }

    /// What a validator says of a call. An error of any kind is a refusal for whoever asked.
    pub async fn validate(&self, function: &Function, arguments: &str) -> Result<Validation, KnowledgeError> {
        match self.ask(function, Task::Validate, arguments).await? {
            (Reply::Verdict { valid, errors }, took) => {
                let errors = match (valid, errors.is_empty()) {
                    (true, true) => Vec::new(),
                    (false, true) => vec![format!("{} refused the call without saying why", function.id)],
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
        let borrowed = |text: &'_ Arc<str>| Cow::Owned(text.to_string());
        let request = Request {
            task,
            time_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            source: Cow::Borrowed(&function.source),
            argument: Cow::Borrowed(argument),
            helpers: helpers.iter().map(|(id, source)| (borrowed(id), borrowed(source))).collect(),
        };
        let unavailable = |error: io::Error| KnowledgeError::Unavailable(error.to_string());
        let request = wire::framed(&request).map_err(unavailable)?;
        // The semaphore is never closed; were it, nothing would run.
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
                // It may have died while it was idle, before it read a word: a function has no effect, so another is
                // asked, in what is left of the same time.
                Ok(None) if waited => left = (time + GRACE).saturating_sub(spent),
                Ok(None) => return Err(crashed(function)),
                Err(_) => {
                    self.replace();
                    return Ok((Reply::TimedOut, spent));
                }
            }
        }
    }

    /// What a worker answers, or nothing if it ended. Dropped when this is given up: the worker dies with it.
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

    /// One that has waited and is not too old, else a new one.
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

    /// Puts a new one in the place of one that was ended, off the way of the next call.
    fn replace(&self) {
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            if let Ok(worker) = shared.start().await {
                shared.idle().push_back(Worker { waited: true, ..worker });
            }
        });
    }
}

/// Whether a worker that answered so is asked again. After its limits were reached nobody knows its state.
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

/// The helper that a function called and its manifest does not have, where that is what it failed of.
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
        // An answer to another question: whoever gives it is not to be believed.
        Reply::Ready | Reply::Parsed | Reply::Value(_) | Reply::Verdict { .. } => crashed(function),
    }
}

#[cfg(test)]
mod tests;
