//! The server that a manifest names: started or reached when it is needed, kept for a while, and left alone for a while
//! where it keeps failing.
//!
//! A conversation belongs to one caller and one set of walls, and serves one call at a time: what ends a call early ends
//! it too. A server that could change files lives for one call, so that what it leaves behind is seen to before the
//! answer, as after any run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use manifest::{Health, HealthMethod, OutputForm};
use outbound::Gatekeeper;
use registry::Order;
use sandbox::{Confined, Sandbox};
use serde_json::Value;
use tool::{Arguments, Failure, FailureKind};

use super::answer::{self, Answer};
use super::backoff::Backoff;
use super::client::{Client, Line};
use super::http::{Http, Leave};
use super::pins::Pins;
use super::stdio::Stdio;
use crate::error::McpError;

/// Conversations that wait for the next call, at most.
const MOST_IDLE: usize = 4;
/// How long one waits before it is ended.
const PATIENCE: Duration = Duration::from_secs(120);
/// One that waited for longer is asked whether it still works before it is used.
const FRESH: Duration = Duration::from_secs(10);

/// A server and its conversations.
pub(crate) struct Upstream {
    pub(crate) sandbox: Sandbox,
    pub(crate) gatekeeper: Gatekeeper,
    pub(crate) health: Option<Health>,
    pub(crate) pins: Pins,
    idle: Mutex<Vec<Idle>>,
    backoff: Mutex<Backoff>,
}

struct Idle {
    /// For whom, and behind which walls.
    key: String,
    since: Instant,
    client: Client,
}

/// Where a conversation is to be had.
pub(crate) enum Place {
    /// In a process behind these walls.
    Walls(Box<Confined>),
    /// At this address.
    Address(String),
}

impl Place {
    /// Whose conversation it is, where it may be kept for another call.
    fn key(&self, order: &Order) -> Option<String> {
        let party = order.value().call().party();
        match self {
            Place::Walls(confined) if confined.can_change() => None,
            Place::Walls(confined) => Some(format!("{party} {}", confined.walls())),
            Place::Address(_) => Some(party.to_owned()),
        }
    }
}

impl Upstream {
    pub(crate) fn new(
        sandbox: &Sandbox,
        gatekeeper: &Gatekeeper,
        health: Option<Health>,
        pins: Pins,
    ) -> Self {
        let (sandbox, gatekeeper) = (sandbox.clone(), gatekeeper.clone());
        Upstream { sandbox, gatekeeper, health, pins, idle: Mutex::default(), backoff: Mutex::default() }
    }

    /// Calls one of its tools, by a conversation that waits or by a new one.
    pub(crate) async fn call(
        self: &Arc<Self>,
        order: &Order,
        place: Place,
        (tool, arguments, form): (&str, Arguments, OutputForm),
        deadline: Instant,
    ) -> Result<(Answer, tool::SandboxTier), Failure> {
        let leave = Leave { permit: order.value(), deadline };
        let key = place.key(order);
        let mut client = match self.waiting(key.as_deref(), leave).await {
            Some(client) => client,
            None => self.begin(place, leave).await?,
        };
        let tier = client.tier();
        let asked = self.ask(&mut client, order, (tool, arguments), leave);
        let asked = tokio::time::timeout_at(deadline.into(), asked).await;
        let answered = match asked {
            Ok(Ok(result)) => answer::read(result, form).map_err(Stopped::Mcp),
            Ok(Err(stopped)) => Err(stopped),
            Err(_) => Err(Stopped::Late),
        };
        let is_over = match &answered {
            Err(Stopped::Mcp(error)) => error.is_final(),
            Err(Stopped::Late) => true,
            Ok(_) | Err(Stopped::Failure(_)) => false,
        };
        let said = match key {
            Some(key) if !is_over => {
                self.keep(key, client);
                String::new()
            }
            // Before the answer, so that what it made has been looked at by then.
            _ => {
                let (ended, said) = client.end().await;
                ended.map_err(|error| error.into_failure(&said))?;
                said
            }
        };
        if matches!(&answered, Err(Stopped::Mcp(McpError::Lost(_)))) {
            self.backoff().failed(Instant::now(), &said);
        }
        let failed = |failure| Failure { sandbox: tier, ..failure };
        match answered {
            Ok(answer) => Ok((answer, tier)),
            Err(Stopped::Failure(failure)) => Err(failed(failure)),
            Err(Stopped::Mcp(error)) => Err(failed(error.into_failure(&said))),
            Err(Stopped::Late) => {
                let message = "the server has not answered in time, and was ended";
                Err(failed(
                    Failure::new(FailureKind::TimedOut, message)
                        .hint("its effect may have happened: look first"),
                ))
            }
        }
    }

    async fn ask(
        &self,
        client: &mut Client,
        order: &Order,
        (tool, arguments): (&str, Arguments),
        leave: Leave<'_>,
    ) -> Result<Value, Stopped> {
        let said = client.definitions(leave).await.map_err(Stopped::Mcp)?;
        // What is new is there for a human to look at, whatever becomes of this call.
        if let Err(error) = self.pins.note(said) {
            tracing::warn!(%error, "what a server says of its tools cannot be kept");
        }
        self.pins.holds(tool, said).map_err(Stopped::Failure)?;
        client.call(tool, arguments, Some(&order.call().trace), leave).await.map_err(Stopped::Mcp)
    }

    /// A conversation that waits for this caller and still works.
    async fn waiting(&self, key: Option<&str>, leave: Leave<'_>) -> Option<Client> {
        let key = key?;
        loop {
            let mut found = {
                let mut idle = self.idle();
                let at = idle.iter().position(|one| one.key == key)?;
                idle.swap_remove(at)
            };
            if !found.client.is_alive() {
                continue;
            }
            if found.since.elapsed() < FRESH {
                return Some(found.client);
            }
            let looked = tokio::time::timeout_at(leave.deadline.into(), self.check(&mut found.client, leave));
            if matches!(looked.await, Ok(Ok(()))) {
                return Some(found.client);
            }
        }
    }

    async fn begin(&self, place: Place, leave: Leave<'_>) -> Result<Client, Failure> {
        self.backoff().may_try(Instant::now())?;
        let begun = tokio::time::timeout_at(leave.deadline.into(), self.begin_in_time(place, leave));
        let begun = begun
            .await
            .unwrap_or_else(|_| Err((McpError::Lost("it was not ready in time".to_owned()), String::new())));
        match begun {
            Ok(client) => {
                self.backoff().worked();
                Ok(client)
            }
            Err((error, said)) => {
                self.backoff().failed(Instant::now(), &format!("{error} {said}"));
                Err(error.into_failure(&said))
            }
        }
    }

    async fn begin_in_time(&self, place: Place, leave: Leave<'_>) -> Result<Client, (McpError, String)> {
        let line = match place {
            Place::Walls(confined) => {
                let started = self.sandbox.serve(*confined).await;
                let (served, pipes) = started.map_err(|error| (error.into(), String::new()))?;
                Line::Stdio(Box::new(Stdio::new(served, pipes)))
            }
            Place::Address(url) => Line::Http(Http::new(&self.gatekeeper, &url)),
        };
        let mut client = Client::begin(line, leave).await?;
        match self.health.is_some() {
            true => match self.check(&mut client, leave).await {
                Ok(()) => Ok(client),
                Err(error) => Err((error, client.end().await.1)),
            },
            false => Ok(client),
        }
    }

    /// Whether a server works: by the call its manifest names, or by any answer at all.
    async fn check(&self, client: &mut Client, leave: Leave<'_>) -> Result<(), McpError> {
        let command = match &self.health {
            Some(Health { method: HealthMethod::ToolCall, command: Some(command), .. }) => command,
            _ => return client.ping(leave).await,
        };
        let result = client.call(command, Arguments::new(), None, leave).await?;
        let found = match answer::read(result.clone(), OutputForm::Json)
            .or_else(|_| answer::read(result, OutputForm::Text))?
        {
            Answer::Gave(found) => found,
            Answer::Complained(_) => return Err(McpError::Unwell(format!("`{command}` did not work"))),
        };
        let expected = self.health.as_ref().and_then(|health| health.expected_response.clone());
        match expected.is_none_or(|expected| answer::has(&found, &Value::Object(expected))) {
            true => Ok(()),
            false => Err(McpError::Unwell(format!("`{command}` did not answer as expected"))),
        }
    }

    /// Keeps a conversation for the next call, for a while.
    fn keep(self: &Arc<Self>, key: String, client: Client) {
        let mut idle = self.idle();
        idle.push(Idle { key, since: Instant::now(), client });
        if idle.len() > MOST_IDLE {
            idle.remove(0);
        }
        drop(idle);
        let weak: Weak<Self> = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(PATIENCE).await;
            if let Some(upstream) = weak.upgrade() {
                upstream.idle().retain(|one| one.since.elapsed() < PATIENCE);
            }
        });
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn backoff(&self) -> MutexGuard<'_, Backoff> {
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a call gave no result.
enum Stopped {
    /// The server is not what was accepted.
    Failure(Failure),
    /// It did not answer as it should.
    Mcp(McpError),
    /// It did not answer.
    Late,
}
