//! Server of a manifest: started or connected on demand, reused for a while, with a backoff if it keeps
//! failing.
//!
//! A connection belongs to one caller and one sandbox fingerprint and serves one call at a time. A call that
//! ends early ends its connection too. A server process that can write lives for one call, so that the
//! post-run cleanup finishes before the response, as after any run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use governance::files::NetworkAccess;
use manifest::OutputForm;
use outbound::{Credential, HttpGateway};
use registry::{CacheScope, RecordedPermit};
use sandbox::{ConfinedCommand, Sandbox};
use serde_json::Value;
use tool::result::SandboxTier;
use tool::{Arguments, Failure, FailureKind, Progress};

use super::backoff::ServerBackoff;
use super::client::{ClientTransport, McpClient};
use super::health_check::ServerHealthCheck;
use super::http::{McpRequestContext, StreamableHttpTransport};
use super::idle_clients::{ClientOwner, IdleClients};
use super::server_key::{ServerKey, ServerSecrets};
use super::server_pins::ServerPins;
use super::sse::SseTransport;
use super::stdio::StdioTransport;
use super::tool_result::{self, McpToolResult};
use super::web_socket::WebSocketTransport;
use crate::error::{CallAbort, McpError};

/// Idle time after which a connection needs a health check before reuse.
const HEALTH_CHECK_AFTER: Duration = Duration::from_secs(10);

/// Server with its idle connections.
pub(crate) struct Upstream {
    pub(crate) sandbox: Sandbox,
    pub(crate) pins: ServerPins,
    pub(crate) health: Option<ServerHealthCheck>,
    pub(crate) key: Option<Arc<ServerKey>>,
    /// Hint for a server whose program downloads it first, shown if it cannot be started.
    pub(crate) start_guide: Option<String>,
    gateway: HttpGateway,
    idle_clients: Arc<IdleClients>,
    backoff: Mutex<ServerBackoff>,
}

/// Target of a connection.
pub(crate) enum ConnectTarget {
    /// Sandboxed process, with the owner that may reuse it, if any, and the secrets that it gets.
    Process(Box<ConfinedCommand>, Option<ClientOwner>, ServerSecrets),
    /// Streamable HTTP endpoint.
    Http(String, ClientOwner),
    /// SSE endpoint; its stream is open for one call.
    Sse(String),
    /// WebSocket endpoint; its socket is open for one call.
    WebSocket(String),
}

impl ConnectTarget {
    fn owner(&self) -> Option<&ClientOwner> {
        match self {
            ConnectTarget::Process(_, owner, _) => owner.as_ref(),
            ConnectTarget::Http(_, owner) => Some(owner),
            ConnectTarget::Sse(_) | ConnectTarget::WebSocket(_) => None,
        }
    }
}

impl Upstream {
    pub(crate) fn new(
        sandbox: &Sandbox,
        gateway: &HttpGateway,
        (health, key): (Option<ServerHealthCheck>, Option<ServerKey>),
        pins: ServerPins,
    ) -> Self {
        let (sandbox, gateway) = (sandbox.clone(), gateway.clone());
        let (key, idle_clients, backoff) = (key.map(Arc::new), Arc::default(), Mutex::default());
        Upstream { sandbox, pins, health, key, start_guide: None, gateway, idle_clients, backoff }
    }

    /// Calls a tool on an idle connection or a new one.
    pub(crate) async fn call(
        self: &Arc<Self>,
        recorded_permit: &RecordedPermit,
        target: ConnectTarget,
        (tool, arguments, form): (&str, Arguments, OutputForm),
        (deadline, progress): (Instant, &Progress),
    ) -> Result<(McpToolResult, SandboxTier), Failure> {
        let credential = self.credential(deadline).await?;
        let credential = credential.as_ref();
        let context = McpRequestContext { permit: recorded_permit.value(), deadline, credential, progress };
        let (owner, release_count) = (target.owner().cloned(), self.idle_clients.release_count());
        let mut client = match self.take_idle(owner.as_ref(), context).await {
            Some(client) => client,
            None => self.open_client(target, context).await?,
        };
        let tier = client.tier();
        let call_result = self.call_checked(&mut client, recorded_permit, (tool, arguments), context);
        let call_result = tokio::time::timeout_at(deadline.into(), call_result).await;
        let outcome = match call_result {
            Ok(Ok(result)) => tool_result::parse_result(result, form).map_err(CallAbort::AfterCall),
            Ok(Err(stopped)) => Err(stopped),
            Err(_) => Err(CallAbort::TimedOut),
        };
        let is_over = outcome.as_ref().is_err_and(CallAbort::is_final);
        let text = match owner {
            Some(owner) if !is_over => {
                self.idle_clients.put(owner, client, release_count);
                String::new()
            }
            // Before the response, so that the post-run cleanup has checked the files it created.
            _ => {
                let (ended, text) = client.close().await;
                ended.map_err(|error| error.into_failure(&text))?;
                text
            }
        };
        if outcome.as_ref().is_err_and(CallAbort::is_connection_lost) {
            self.backoff().record_failure(Instant::now(), &text);
        }
        let failed = |stopped: CallAbort| stopped.into_failure(&text, recorded_permit);
        outcome.map(|result| (result, tier)).map_err(|stopped| Failure { sandbox: tier, ..failed(stopped) })
    }

    /// Reads the key for outgoing messages, if the server needs one.
    async fn credential(&self, deadline: Instant) -> Result<Option<Credential>, Failure> {
        match &self.key {
            Some(key) => Arc::clone(key).credential(deadline).await.map(Some),
            None => Ok(None),
        }
    }

    /// Ends idle connections.
    pub(crate) fn release(&self, owner_key: CacheScope<'_>) {
        self.idle_clients.release(owner_key);
    }

    async fn call_checked(
        self: &Arc<Self>,
        client: &mut McpClient,
        recorded_permit: &RecordedPermit,
        (tool, arguments): (&str, Arguments),
        context: McpRequestContext<'_>,
    ) -> Result<Value, CallAbort> {
        self.check_definition(client, tool, context).await?;
        client
            .call(tool, arguments, Some(&recorded_permit.call().trace), context)
            .await
            .map_err(CallAbort::AfterCall)
    }

    /// Checks that the current definition of a tool is the accepted one. New definitions are stored for the
    /// operator's review, whatever the outcome of this call.
    async fn check_definition(
        self: &Arc<Self>,
        client: &mut McpClient,
        tool: &str,
        context: McpRequestContext<'_>,
    ) -> Result<(), CallAbort> {
        let text = client.definitions(context).await.map_err(CallAbort::BeforeCall)?;
        if !self.pins.is_noted(&text) {
            let (upstream, text) = (Arc::clone(self), Arc::clone(&text));
            let noted = tokio::task::spawn_blocking(move || upstream.pins.note(&text)).await;
            let crashed = |_| Failure::new(FailureKind::Crashed, "pinning the server's tools failed");
            noted.map_err(crashed).flatten().map_err(CallAbort::Rejected)?;
        }
        self.pins.check_tool(tool, &text).map_err(CallAbort::Rejected)
    }

    /// Takes an idle connection of this owner that still works. Its tool definitions are requested again,
    /// because they may have changed since the last call.
    async fn take_idle(
        self: &Arc<Self>,
        owner: Option<&ClientOwner>,
        context: McpRequestContext<'_>,
    ) -> Option<McpClient> {
        while let Some((mut client, waited)) = self.idle_clients.take(owner?) {
            if !client.is_alive() {
                continue;
            }
            let check = async {
                client.definitions(context).await.map_err(CallAbort::BeforeCall)?;
                if waited >= HEALTH_CHECK_AFTER {
                    self.check_health(&mut client, context).await
                } else {
                    Ok(())
                }
            };
            if matches!(tokio::time::timeout_at(context.deadline.into(), check).await, Ok(Ok(()))) {
                return Some(client);
            }
        }
        None
    }

    async fn open_client(
        self: &Arc<Self>,
        target: ConnectTarget,
        context: McpRequestContext<'_>,
    ) -> Result<McpClient, Failure> {
        self.backoff().check_ready(Instant::now())?;
        let is_process = matches!(target, ConnectTarget::Process(..));
        let has_network = context.permit.confinement().network == NetworkAccess::Full;
        let opened = tokio::time::timeout_at(context.deadline.into(), self.connect(target, context));
        let connected = match opened.await {
            Ok(connected) => connected,
            Err(_late) => {
                let reason = match is_process && !has_network {
                    true => {
                        "it was not ready in time; its sandbox has no network (`network: full` in tools.yaml)"
                    }
                    false => "it was not ready in time",
                };
                Err((CallAbort::BeforeCall(McpError::ConnectionLost(reason.to_owned())), String::new()))
            }
        };
        match connected {
            Ok(client) => {
                self.backoff().record_success();
                Ok(client)
            }
            Err((CallAbort::Rejected(failure), _)) => Err(failure),
            Err((CallAbort::BeforeCall(error) | CallAbort::AfterCall(error), text)) => {
                self.backoff().record_failure(Instant::now(), &format!("{error} {text}"));
                let failure = error.into_failure(&text);
                Err(match &self.start_guide {
                    Some(guide) => failure.with_hint(guide.as_str()),
                    None => failure,
                })
            }
            Err((CallAbort::TimedOut, _)) => Err(CallAbort::timeout_failure()),
        }
    }

    async fn connect(
        self: &Arc<Self>,
        target: ConnectTarget,
        context: McpRequestContext<'_>,
    ) -> Result<McpClient, (CallAbort, String)> {
        // A process that can write runs only the requested call, no health check.
        let is_checked = !matches!(target, ConnectTarget::Process(_, None, _));
        let line = match target {
            ConnectTarget::Process(confined, _, secrets) => {
                let started = self.sandbox.start_interactive(*confined).await;
                let (served, pipes) =
                    started.map_err(|error| (CallAbort::BeforeCall(error.into()), String::new()))?;
                ClientTransport::Stdio(Box::new(StdioTransport::new(served, pipes, secrets)))
            }
            ConnectTarget::Http(url, _) => {
                ClientTransport::Http(StreamableHttpTransport::new(&self.gateway, &url))
            }
            ConnectTarget::Sse(url) => ClientTransport::Sse(Box::new(SseTransport::new(&self.gateway, &url))),
            ConnectTarget::WebSocket(url) => {
                ClientTransport::Socket(Box::new(WebSocketTransport::new(&self.gateway, &url)))
            }
        };
        let opened = McpClient::open(line, context).await;
        let mut client = opened.map_err(|(error, text)| (CallAbort::BeforeCall(error), text))?;
        let checked = if is_checked { self.check_health(&mut client, context).await } else { Ok(()) };
        match checked {
            Ok(()) => Ok(client),
            Err(stopped) => Err((stopped, client.close().await.1)),
        }
    }

    /// Runs the health check of the manifest, a read-only command whose definition must be the accepted one.
    async fn check_health(
        self: &Arc<Self>,
        client: &mut McpClient,
        context: McpRequestContext<'_>,
    ) -> Result<(), CallAbort> {
        let Some(health) = &self.health else { return Ok(()) };
        self.check_definition(client, &health.command, context).await?;
        let call = client.call(&health.command, Arguments::new(), None, context);
        let result = match health.timeout {
            Some(timeout) => tokio::time::timeout(timeout, call).await.unwrap_or_else(|_| {
                let late = format!("`{}` did not answer within {} ms", health.command, timeout.as_millis());
                Err(McpError::Unhealthy(late))
            }),
            None => call.await,
        };
        health.check_result(result.map_err(CallAbort::BeforeCall)?).map_err(CallAbort::BeforeCall)
    }

    fn backoff(&self) -> MutexGuard<'_, ServerBackoff> {
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
