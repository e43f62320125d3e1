//! Executor for `mcp` tools: a sandboxed server process, or a server on the network behind the outbound
//! gateway.
//!
//! The manifest, not the server, defines name, parameters, category and risk of a tool, and every call runs
//! through the whole pipeline before it is sent. The tool definitions of the server are pinned.

mod answer;
mod backoff;
mod client;
mod definitions;
mod events;
mod health;
mod hearing;
mod http;
mod key;
mod message;
mod pins;
mod socket;
mod sse;
mod stdio;
mod upstream;
mod upstreams;
mod waiting;
mod words;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use governance::{Permit, WorkspaceAccess};
use manifest::{Command as ToolCommand, OutputForm};
use registry::{AtWork, Order, Preview, Running, ToolExecutor, Whose};
use sandbox::{Command, Grant};
use serde_json::Value;
use tool::{Failure, FailureKind, Output};

pub(crate) use health::HealthCall;
pub use key::{HostKey, HostKeys};
pub(crate) use key::{ServerKey, sendable};
pub(crate) use pins::Pins;
pub(crate) use upstream::Upstream;
pub use upstreams::{Seal, Taking, Upstreams};
pub(crate) use words::ServerCommand;

use crate::before::{Before, as_opened};
use crate::behind_walls::Program;
use crate::cli::grant_of;
use crate::payload::After;
use answer::Answer;
use upstream::Place;
use waiting::Owner;

/// Maximum lifetime of a reusable read-only server process. A server needed for longer is restarted.
const LIFETIME: Duration = Duration::from_secs(60 * 60);

/// Way to reach the server of a manifest.
#[derive(Clone)]
pub(crate) enum Reach {
    /// Process started from a command.
    Started(Arc<ServerCommand>, Program),
    /// Streamable HTTP endpoint.
    Address(String),
    /// HTTP endpoint with server-sent events (2024-11-05 transport).
    Stream(String),
    /// WebSocket endpoint.
    Socket(String),
}

/// Executor of an `mcp` tool.
#[derive(Clone)]
pub(crate) struct Mcp {
    upstream: Arc<Upstream>,
    reach: Reach,
    /// Tool name on the server.
    tool: String,
    form: OutputForm,
    grant: Grant,
    before: Before,
    after: After,
}

impl Mcp {
    pub(crate) fn new(
        upstream: &Arc<Upstream>,
        reach: &Reach,
        command: &ToolCommand,
        (before, after): (Before, After),
    ) -> Self {
        Mcp {
            upstream: Arc::clone(upstream),
            reach: reach.clone(),
            tool: command.name.clone(),
            form: command.output,
            grant: grant_of(command.category.as_ref()),
            before,
            after,
        }
    }

    async fn converse(self, order: Arc<Order>) -> Result<Output, Failure> {
        let deadline = Instant::now() + order.value().timeout();
        let arguments = self.before.process(as_opened(order.value()), order.value()).await?;
        let owner = Owner {
            party: order.value().call().party(),
            session: order.call().caller.session.clone(),
            enclosure: None,
        };
        let place = match &self.reach {
            Reach::Address(url) => Place::Address(url.clone(), owner),
            Reach::Stream(url) => Place::Stream(url.clone()),
            Reach::Socket(url) => Place::Socket(url.clone()),
            Reach::Started(server, program) => {
                let (server, grant) = (Arc::clone(server), self.grant);
                let start = move |permit: &Permit| server.command(permit, grant, deadline);
                let (confined, enclosure) = program.prepare_to_keep(&order, start).await?;
                let owner = enclosure.map(|enclosure| Owner { enclosure: Some(enclosure), ..owner });
                Place::Walls(Box::new(confined), owner)
            }
        };
        let call = (self.tool.as_str(), arguments, self.form);
        let (answer, tier) = tokio::select! {
            answered = self.upstream.call(&order, place, call, deadline) => answered?,
            () = self.upstream.sandbox.closing() => {
                return Err(Failure::new(FailureKind::Cancelled, "Sinew is shutting down"));
            }
        };
        match answer {
            Answer::Gave(value) => {
                self.after.process(Output { value, sandbox: tier, ..Output::default() }).await
            }
            // A tool error is a result, like the exit code of a program.
            Answer::Complained(value) => Ok(Output { value, sandbox: tier, ..Output::default() }),
        }
    }
}

impl ServerCommand {
    /// Builds the command of the server process. A process that can write lives for one call; others are
    /// reused.
    fn command(&self, permit: &Permit, grant: Grant, deadline: Instant) -> Result<Command, Failure> {
        self.hold()?;
        let writes = permit.folders().iter().any(|folder| folder.access() == WorkspaceAccess::ReadWrite);
        let is_kept = grant == Grant::ReadOnly || !writes;
        let deadline = if is_kept { Instant::now() + LIFETIME } else { deadline };
        let words = self.arguments().iter().map(Into::into).collect();
        Ok(Command { grant, ..Command::read_only(self.program(), words, deadline) })
    }
}

impl ToolExecutor for Mcp {
    fn preview(&self, permit: &Permit) -> Result<Preview, Failure> {
        // A call without a configured key would fail, so no approval is requested. The key itself is read by
        // the call.
        self.upstream.key.as_ref().map_or(Ok(()), |key| key.check())?;
        let foreseen = self.before.foresee(as_opened(permit), permit)?;
        let (mut facts, at_work) = match &self.reach {
            Reach::Started(server, program) => {
                let command = server.command(permit, self.grant, Instant::now())?;
                let words: Vec<OsString> = command.arguments.clone();
                (program.foresee(permit, &command, &words)?, AtWork::AsDefined)
            }
            Reach::Address(url) => (vec![("server".to_owned(), format!("POST {url}"))], AtWork::Far),
            Reach::Stream(url) => {
                let told = format!("GET {url}, then POST to the endpoint that it names");
                (vec![("server".to_owned(), told)], AtWork::Far)
            }
            Reach::Socket(url) => {
                (vec![("server".to_owned(), format!("GET {url}, upgraded to a WebSocket"))], AtWork::Far)
            }
        };
        facts.extend(self.upstream.key.as_ref().map(|key| ("key".to_owned(), key.told())));
        facts.extend(self.upstream.health.as_ref().map(HealthCall::fact));
        facts.push(("asks".to_owned(), format!("the tool `{}` of the server", self.tool)));
        Ok(foreseen.preview(facts, at_work))
    }

    fn stands_for(&self) -> Vec<(&'static str, String)> {
        match &self.reach {
            Reach::Started(server, _) => {
                vec![("program", server.program().to_owned()), ("argv", server.arguments().join(" "))]
            }
            Reach::Address(url) | Reach::Stream(url) | Reach::Socket(url) => {
                let key = self.upstream.key.as_ref().map(|key| ("key", key.told()));
                [("url", url.clone())].into_iter().chain(key).collect()
            }
        }
    }

    fn let_go(&self, whose: Whose<'_>) {
        self.upstream.let_go(whose);
    }

    fn run(&self, order: Arc<Order>) -> Running {
        Box::pin(self.clone().converse(order))
    }

    fn pinned(&self) -> Option<Value> {
        self.upstream.pins.of_tool(&self.tool)
    }
}
