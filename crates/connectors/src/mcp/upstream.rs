//! Server of a manifest: started or connected on demand, reused for a while, with a backoff if it keeps
//! failing.
//!
//! A connection belongs to one caller and one sandbox fingerprint and serves one call at a time. A call that
//! ends early ends its connection too. A server process that can write lives for one call, so that the
//! post-run cleanup finishes before the response, as after any run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use manifest::OutputForm;
use outbound::{Credential, Gatekeeper};
use registry::{Order, Whose};
use sandbox::{Confined, Sandbox};
use serde_json::Value;
use tool::{Arguments, Failure, FailureKind, SandboxTier};

use super::answer::{self, Answer};
use super::backoff::Backoff;
use super::client::{Client, Line};
use super::health::HealthCall;
use super::http::{Http, Leave};
use super::key::ServerKey;
use super::pins::Pins;
use super::socket::WebSocket;
use super::sse::Sse;
use super::stdio::Stdio;
use super::waiting::{Owner, Waiting};
use crate::error::{McpError, Stopped};

/// Idle time after which a connection needs a health check before reuse.
const FRESH: Duration = Duration::from_secs(10);

/// Server with its idle connections.
pub(crate) struct Upstream {
    pub(crate) sandbox: Sandbox,
    pub(crate) pins: Pins,
    pub(crate) health: Option<HealthCall>,
    pub(crate) key: Option<Arc<ServerKey>>,
    gatekeeper: Gatekeeper,
    waiting: Arc<Waiting>,
    backoff: Mutex<Backoff>,
}

/// Target of a connection.
pub(crate) enum Place {
    /// Sandboxed process, with the owner that may reuse it, if any.
    Walls(Box<Confined>, Option<Owner>),
    /// Streamable HTTP endpoint.
    Address(String, Owner),
    /// SSE endpoint; its stream is open for one call.
    Stream(String),
    /// WebSocket endpoint; its socket is open for one call.
    Socket(String),
}

impl Place {
    fn owner(&self) -> Option<&Owner> {
        match self {
            Place::Walls(_, owner) => owner.as_ref(),
            Place::Address(_, owner) => Some(owner),
            Place::Stream(_) | Place::Socket(_) => None,
        }
    }
}

impl Upstream {
    pub(crate) fn new(
        sandbox: &Sandbox,
        gatekeeper: &Gatekeeper,
        (health, key): (Option<HealthCall>, Option<ServerKey>),
        pins: Pins,
    ) -> Self {
        let (sandbox, gatekeeper) = (sandbox.clone(), gatekeeper.clone());
        let (key, waiting, backoff) = (key.map(Arc::new), Arc::default(), Mutex::default());
        Upstream { sandbox, pins, health, key, gatekeeper, waiting, backoff }
    }

    /// Calls a tool on an idle connection or a new one.
    pub(crate) async fn call(
        self: &Arc<Self>,
        order: &Order,
        place: Place,
        (tool, arguments, form): (&str, Arguments, OutputForm),
        deadline: Instant,
    ) -> Result<(Answer, SandboxTier), Failure> {
        let credential = self.credential(deadline).await?;
        let leave = Leave { permit: order.value(), deadline, credential: credential.as_ref() };
        let (owner, turn) = (place.owner().cloned(), self.waiting.turn());
        let mut client = match self.waiting(owner.as_ref(), leave).await {
            Some(client) => client,
            None => self.begin(place, leave).await?,
        };
        let tier = client.tier();
        let asked = self.ask(&mut client, order, (tool, arguments), leave);
        let asked = tokio::time::timeout_at(deadline.into(), asked).await;
        let answered = match asked {
            Ok(Ok(result)) => answer::read(result, form).map_err(Stopped::Cut),
            Ok(Err(stopped)) => Err(stopped),
            Err(_) => Err(Stopped::Late),
        };
        let is_over = answered.as_ref().is_err_and(Stopped::is_final);
        let said = match owner {
            Some(owner) if !is_over => {
                self.waiting.put(owner, client, turn);
                String::new()
            }
            // Before the response, so that the post-run cleanup has checked the files it created.
            _ => {
                let (ended, said) = client.end().await;
                ended.map_err(|error| error.into_failure(&said))?;
                said
            }
        };
        if answered.as_ref().is_err_and(Stopped::is_loss) {
            self.backoff().failed(Instant::now(), &said);
        }
        let failed = |stopped: Stopped| stopped.into_failure(&said, order);
        answered.map(|answer| (answer, tier)).map_err(|stopped| Failure { sandbox: tier, ..failed(stopped) })
    }

    /// Reads the key for outgoing messages, if the server needs one.
    async fn credential(&self, deadline: Instant) -> Result<Option<Credential>, Failure> {
        match &self.key {
            Some(key) => Arc::clone(key).credential(deadline).await.map(Some),
            None => Ok(None),
        }
    }

    /// Ends idle connections.
    pub(crate) fn let_go(&self, whose: Whose<'_>) {
        self.waiting.let_go(whose);
    }

    async fn ask(
        self: &Arc<Self>,
        client: &mut Client,
        order: &Order,
        (tool, arguments): (&str, Arguments),
        leave: Leave<'_>,
    ) -> Result<Value, Stopped> {
        self.look(client, tool, leave).await?;
        client.call(tool, arguments, Some(&order.call().trace), leave).await.map_err(Stopped::Cut)
    }

    /// Checks that the current definition of a tool is the accepted one. New definitions are stored for the
    /// operator's review, whatever the outcome of this call.
    async fn look(
        self: &Arc<Self>,
        client: &mut Client,
        tool: &str,
        leave: Leave<'_>,
    ) -> Result<(), Stopped> {
        let said = client.definitions(leave).await.map_err(Stopped::Mcp)?;
        if !self.pins.has_noted(&said) {
            let (upstream, said) = (Arc::clone(self), Arc::clone(&said));
            let noted = tokio::task::spawn_blocking(move || upstream.pins.note(&said)).await;
            let crashed = |_| Failure::new(FailureKind::Crashed, "pinning the server's tools failed");
            noted.map_err(crashed).flatten().map_err(Stopped::Failure)?;
        }
        self.pins.holds(tool, &said).map_err(Stopped::Failure)
    }

    /// Takes an idle connection of this owner that still works. Its tool definitions are requested again,
    /// because they may have changed since the last call.
    async fn waiting(self: &Arc<Self>, owner: Option<&Owner>, leave: Leave<'_>) -> Option<Client> {
        while let Some((mut client, waited)) = self.waiting.take(owner?) {
            if !client.is_alive() {
                continue;
            }
            let looked = async {
                client.definitions(leave).await.map_err(Stopped::Mcp)?;
                if waited >= FRESH { self.check(&mut client, leave).await } else { Ok(()) }
            };
            if matches!(tokio::time::timeout_at(leave.deadline.into(), looked).await, Ok(Ok(()))) {
                return Some(client);
            }
        }
        None
    }

    async fn begin(self: &Arc<Self>, place: Place, leave: Leave<'_>) -> Result<Client, Failure> {
        self.backoff().may_try(Instant::now())?;
        let begun = tokio::time::timeout_at(leave.deadline.into(), self.begin_in_time(place, leave));
        let late =
            |_| Err((Stopped::Mcp(McpError::Lost("it did not start in time".to_owned())), String::new()));
        match begun.await.unwrap_or_else(late) {
            Ok(client) => {
                self.backoff().worked();
                Ok(client)
            }
            Err((Stopped::Failure(failure), _)) => Err(failure),
            Err((Stopped::Mcp(error) | Stopped::Cut(error), said)) => {
                self.backoff().failed(Instant::now(), &format!("{error} {said}"));
                Err(error.into_failure(&said))
            }
            Err((Stopped::Late, _)) => Err(Stopped::late()),
        }
    }

    async fn begin_in_time(
        self: &Arc<Self>,
        place: Place,
        leave: Leave<'_>,
    ) -> Result<Client, (Stopped, String)> {
        // A process that can write runs only the requested call, no health check.
        let is_checked = !matches!(place, Place::Walls(_, None));
        let line = match place {
            Place::Walls(confined, _) => {
                let started = self.sandbox.serve(*confined).await;
                let (served, pipes) = started.map_err(|error| (Stopped::Mcp(error.into()), String::new()))?;
                Line::Stdio(Box::new(Stdio::new(served, pipes)))
            }
            Place::Address(url, _) => Line::Http(Http::new(&self.gatekeeper, &url)),
            Place::Stream(url) => Line::Sse(Box::new(Sse::new(&self.gatekeeper, &url))),
            Place::Socket(url) => Line::Socket(Box::new(WebSocket::new(&self.gatekeeper, &url))),
        };
        let begun = Client::begin(line, leave).await;
        let mut client = begun.map_err(|(error, said)| (Stopped::Mcp(error), said))?;
        let checked = if is_checked { self.check(&mut client, leave).await } else { Ok(()) };
        match checked {
            Ok(()) => Ok(client),
            Err(stopped) => Err((stopped, client.end().await.1)),
        }
    }

    /// Runs the health check of the manifest, a read-only command whose definition must be the accepted one.
    async fn check(self: &Arc<Self>, client: &mut Client, leave: Leave<'_>) -> Result<(), Stopped> {
        let Some(health) = &self.health else { return Ok(()) };
        self.look(client, &health.command, leave).await?;
        let result = client.call(&health.command, Arguments::new(), None, leave).await;
        health.judge(result.map_err(Stopped::Mcp)?).map_err(Stopped::Mcp)
    }

    fn backoff(&self) -> MutexGuard<'_, Backoff> {
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
