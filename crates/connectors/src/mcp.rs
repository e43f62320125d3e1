//! Executor for `mcp` tools: a sandboxed server process, or a server on the network behind the outbound
//! gateway.
//!
//! The manifest, not the server, defines name, parameters, category and risk of a tool, and every call runs
//! through the whole pipeline before it is sent. The tool definitions of the server are pinned.

mod backoff;
mod client;
mod content_block;
mod definitions;
#[cfg(any(test, fuzzing))]
mod fuzz_messages;
mod health_check;
mod http;
mod idle_clients;
mod message;
mod pin_store;
mod response_wait;
mod server_command;
mod server_key;
mod server_pins;
mod sse;
mod sse_parser;
mod stdio;
mod tool_result;
mod upstream;
mod web_socket;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use governance::{Permit, WorkspaceAccess};
use manifest::{ManifestCommandSpec as ToolCommand, OutputForm};
use registry::{CacheScope, CallPreview, ExecutionSite, ExecutorFuture, RecordedPermit, ToolExecutor};
use sandbox::{FolderAccess, SandboxCommand};
use serde_json::Value;
use tool::result::SandboxTier;
use tool::{Failure, FailureKind, Progress, ToolOutput};

#[cfg(any(test, fuzzing))]
pub use fuzz_messages::fuzz_mcp_messages;
pub(crate) use health_check::ServerHealthCheck;
pub use pin_store::{PinSealer, PinStore, PinVersion};
pub(crate) use server_command::ServerCommand;
pub use server_key::{ConfiguredKey, ConfiguredKeys};
pub(crate) use server_key::{MaskSecrets, ServerKey, ServerVariables, check_key_header};
pub(crate) use server_pins::ServerPins;
pub(crate) use upstream::Upstream;

use crate::cli::grant_for_category;
use crate::input_processor::{InputProcessor, with_opened_paths};
use crate::output_processor::OutputProcessor;
use crate::sandboxed_program::ToolProgram;
use idle_clients::ClientOwner;
use tool_result::McpToolOutcome;
use upstream::ConnectTarget;

/// Maximum lifetime of a reusable read-only server process. A server needed for longer is restarted.
const MAX_SERVER_LIFETIME: Duration = Duration::from_secs(60 * 60);
/// Length limit of a tool's error in a message. The output has all of it.
const MAX_ERROR_CHARS: usize = 2_000;

/// Way to reach the server of a manifest.
#[derive(Clone)]
pub(crate) enum ServerEndpoint {
    /// Process started from a command.
    Process(Arc<ServerCommand>, ToolProgram),
    /// Streamable HTTP endpoint.
    Http(String),
    /// HTTP endpoint with server-sent events (2024-11-05 transport).
    Sse(String),
    /// WebSocket endpoint.
    WebSocket(String),
}

/// Executor of an `mcp` tool.
#[derive(Clone)]
pub(crate) struct McpTool {
    upstream: Arc<Upstream>,
    endpoint: ServerEndpoint,
    /// Tool name on the server.
    tool: String,
    output_form: OutputForm,
    grant: FolderAccess,
    input_processor: InputProcessor,
    output_processor: OutputProcessor,
}

impl McpTool {
    pub(crate) fn new(
        upstream: &Arc<Upstream>,
        reach: &ServerEndpoint,
        command: &ToolCommand,
        (before, after): (InputProcessor, OutputProcessor),
    ) -> Self {
        McpTool {
            upstream: Arc::clone(upstream),
            endpoint: reach.clone(),
            tool: command.name.clone(),
            output_form: command.output,
            grant: grant_for_category(command.category.as_ref()),
            input_processor: before,
            output_processor: after,
        }
    }

    async fn execute(
        self,
        recorded_permit: Arc<RecordedPermit>,
        progress: Progress,
    ) -> Result<ToolOutput, Failure> {
        let deadline = Instant::now() + recorded_permit.value().timeout();
        let arguments = self
            .input_processor
            .process(with_opened_paths(recorded_permit.value()), recorded_permit.value())
            .await?;
        let owner = ClientOwner {
            party: recorded_permit.value().call().party(),
            session: recorded_permit.call().caller.session.clone(),
            sandbox_fingerprint: None,
        };
        let target = match &self.endpoint {
            ServerEndpoint::Http(url) => ConnectTarget::Http(url.clone(), owner),
            ServerEndpoint::Sse(url) => ConnectTarget::Sse(url.clone()),
            ServerEndpoint::WebSocket(url) => ConnectTarget::WebSocket(url.clone()),
            ServerEndpoint::Process(server, program) => {
                let (started, grant) = (Arc::clone(server), self.grant);
                let start = move |permit: &Permit| {
                    let variables = started.variables.read()?;
                    Ok(SandboxCommand { variables, ..started.command(permit, grant, deadline)? })
                };
                let (confined, enclosure) = program.prepare_reusable(&recorded_permit, start).await?;
                let owner =
                    enclosure.map(|enclosure| ClientOwner { sandbox_fingerprint: Some(enclosure), ..owner });
                let secrets = server.variables.values_in(&confined);
                ConnectTarget::Process(Box::new(confined), owner, secrets)
            }
        };
        let call = (self.tool.as_str(), arguments, self.output_form);
        let (result, tier) = tokio::select! {
            called = self.upstream.call(&recorded_permit, target, call, (deadline, &progress)) => called?,
            () = self.upstream.sandbox.closing() => {
                return Err(Failure::new(FailureKind::Cancelled, "Sinew is shutting down"));
            }
        };
        let content = result.content;
        match result.outcome {
            McpToolOutcome::Output(value) => {
                let output = ToolOutput { value, content, sandbox: tier, ..ToolOutput::default() };
                self.output_processor.process(output).await
            }
            McpToolOutcome::ToolError(value) => Err(Failure { content, ..tool_error(value, tier) }),
        }
    }
}

/// Converts an error that the tool of a server reported (`isError: true`) into a failure.
fn tool_error(value: Value, tier: SandboxTier) -> Failure {
    let text = value.get("text").and_then(Value::as_str).unwrap_or_default();
    let text = tool::text::escape_invisible_line(&tool::text::shorten(text, MAX_ERROR_CHARS));
    let message = format!("the server's tool reported an error: {text}");
    let failure = Failure::new(FailureKind::Crashed, message).with_hint("the message comes from the server");
    Failure { output: Some(value), sandbox: tier, ..failure }
}

impl ServerCommand {
    /// Builds the command of the server process. A process that can write lives for one call; others are
    /// reused.
    fn command(
        &self,
        permit: &Permit,
        grant: FolderAccess,
        deadline: Instant,
    ) -> Result<SandboxCommand, Failure> {
        self.check_files()?;
        let writes =
            permit.sandbox_folders().iter().any(|folder| folder.access() == WorkspaceAccess::ReadWrite);
        let is_reusable = grant == FolderAccess::ReadOnly || !writes;
        let deadline = if is_reusable { Instant::now() + MAX_SERVER_LIFETIME } else { deadline };
        let arguments = self.arguments().iter().map(Into::into).collect();
        Ok(SandboxCommand {
            folder_access: grant,
            ..SandboxCommand::read_only(self.program(), arguments, deadline)
        })
    }
}

impl ToolExecutor for McpTool {
    fn preview(&self, permit: &Permit) -> Result<CallPreview, Failure> {
        // A call without a configured key would fail, so no approval is requested. The key itself is read by
        // the call.
        self.upstream.key.as_ref().map_or(Ok(()), |key| key.check_configured())?;
        let preview = self.input_processor.preview(with_opened_paths(permit), permit)?;
        let (mut facts, at_work) = match &self.endpoint {
            ServerEndpoint::Process(server, program) => {
                let command = server.command(permit, self.grant, Instant::now())?;
                let arguments: Vec<OsString> = command.arguments.clone();
                (program.preview_facts(permit, &command, &arguments)?, ExecutionSite::AsDefined)
            }
            ServerEndpoint::Http(url) => {
                (vec![("server".to_owned(), format!("POST {url}"))], ExecutionSite::RemoteServer)
            }
            ServerEndpoint::Sse(url) => {
                let description = format!("GET {url}, then POST to the endpoint that it names");
                (vec![("server".to_owned(), description)], ExecutionSite::RemoteServer)
            }
            ServerEndpoint::WebSocket(url) => (
                vec![("server".to_owned(), format!("GET {url}, upgraded to a WebSocket"))],
                ExecutionSite::RemoteServer,
            ),
        };
        facts.extend(self.upstream.key.as_ref().map(|key| ("key".to_owned(), key.describe())));
        if let ServerEndpoint::Process(server, _) = &self.endpoint {
            facts.extend(server.variables.describe().map(|names| ("variables".to_owned(), names)));
        }
        facts.extend(self.upstream.health.as_ref().map(ServerHealthCheck::preview_fact));
        facts.push(("asks".to_owned(), format!("the tool `{}` of the server", self.tool)));
        Ok(preview.into_preview(facts, at_work))
    }

    fn backing(&self) -> Vec<(&'static str, String)> {
        match &self.endpoint {
            ServerEndpoint::Process(server, _) => {
                vec![("program", server.program().to_owned()), ("argv", server.arguments().join(" "))]
            }
            ServerEndpoint::Http(url) | ServerEndpoint::Sse(url) | ServerEndpoint::WebSocket(url) => {
                let key = self.upstream.key.as_ref().map(|key| ("key", key.describe()));
                [("url", url.clone())].into_iter().chain(key).collect()
            }
        }
    }

    fn release(&self, owner: CacheScope<'_>) {
        self.upstream.release(owner);
    }

    fn run(&self, recorded_permit: Arc<RecordedPermit>) -> ExecutorFuture {
        self.run_with_progress(recorded_permit, Progress::default())
    }

    fn run_with_progress(&self, recorded_permit: Arc<RecordedPermit>, progress: Progress) -> ExecutorFuture {
        Box::pin(self.clone().execute(recorded_permit, progress))
    }

    fn pinned_description(&self) -> Option<Value> {
        self.upstream.pins.pinned_definition(&self.tool)
    }
}
