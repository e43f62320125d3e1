//! Context of a command: the home, the current folder and the connection to the daemon.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use client::{Client, ClientError};
use connectors::PipelineEntry;
use execution::ToolFilter;
use serde_json::{Value, json};
use server::settings::Settings;
use server::{LockHolder, ProcessEnvironment, ServeError, SharedStateLock, SinewHome, StateLock};
use tokio::runtime::Runtime;
use tool::{Arguments, RefusalCode, ToolDefinition, ToolSpec};

use crate::accepted_config::AcceptedConfigWriter;
use crate::command::call;
use crate::compose::{self, WorkspaceSelection};
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::service;

/// Timeout for the process that holds the state lock to answer or release the lock.
const HOLDER_TIMEOUT: Duration = Duration::from_secs(5);
/// Total wait for other commands that hold the state lock one after the other.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(60);
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// Single connection attempt: the retry loop is here, because it depends on the holder of the state lock.
const SINGLE_ATTEMPT: Duration = Duration::ZERO;
/// JSON-RPC error code for invalid parameters.
const INVALID_PARAMS: i64 = -32602;

/// Socket of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DaemonSocket {
    /// `agent.sock`, for tool calls.
    Agent,
    /// `control.sock`, for the operator.
    Control,
}

/// Component that serves a command.
pub(crate) enum CommandBackend<L = StateLock> {
    /// The daemon.
    Daemon,
    /// This process, which holds the state lock.
    Local(L),
}

/// Home and current folder of a command, with handles that parts of the layer need before it exists.
#[derive(Clone)]
pub(crate) struct CommandContext {
    home: SinewHome,
    folder: PathBuf,
    accepted_writer: AcceptedConfigWriter,
    pipeline_entry: PipelineEntry,
}

impl CommandContext {
    /// Locates the home from the environment and the current folder.
    pub(crate) fn from_environment() -> Result<CommandContext, CommandError> {
        let environment: ProcessEnvironment = std::env::vars_os().collect();
        let home = SinewHome::locate(&environment).map_err(|error| serve_error(&error))?;
        let folder = std::env::current_dir()
            .map_err(|error| CommandError::usage(format!("the current folder cannot be used: {error}")))?;
        Ok(CommandContext::new(home, folder))
    }

    /// Creates a context for a given home and folder.
    pub(crate) fn new(home: SinewHome, folder: PathBuf) -> CommandContext {
        CommandContext {
            home,
            folder,
            accepted_writer: AcceptedConfigWriter::default(),
            pipeline_entry: PipelineEntry::default(),
        }
    }

    /// Returns this context with the configuration read from a copy.
    pub(crate) fn with_config_copy(&self, copy: &Path) -> CommandContext {
        CommandContext { home: self.home.with_config_copy(copy), ..self.clone() }
    }

    /// Returns the writer of the accepted copy.
    pub(crate) fn accepted_writer(&self) -> &AcceptedConfigWriter {
        &self.accepted_writer
    }

    /// Returns the pipeline entry for the inner calls of meta tools.
    pub(crate) fn pipeline_entry(&self) -> &PipelineEntry {
        &self.pipeline_entry
    }

    pub(crate) fn home(&self) -> &SinewHome {
        &self.home
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Loads the settings file, or the defaults.
    pub(crate) fn settings(&self) -> Result<Settings, CommandError> {
        Settings::load(&self.home).map_err(|error| serve_error(&error))
    }

    /// Acquires the exclusive state lock.
    pub(crate) fn lock_state(&self) -> Result<StateLock, CommandError> {
        self.home.prepare().map_err(|error| serve_error(&error))?;
        StateLock::acquire(&self.home).map_err(|error| serve_error(&error))
    }

    /// Finds a daemon, else acquires the state lock. Waits for a process that holds the lock and does not
    /// answer, and fails in the end: continuing would give the ledger two writers.
    pub(crate) fn daemon_or_state_lock(&self) -> Result<CommandBackend, CommandError> {
        self.daemon_or_lock(StateLock::acquire)
    }

    /// Like `daemon_or_state_lock`, with a shared lock for reading only.
    pub(crate) fn daemon_or_shared_lock(&self) -> Result<CommandBackend<SharedStateLock>, CommandError> {
        self.daemon_or_lock(SharedStateLock::acquire)
    }

    fn daemon_or_lock<L>(
        &self,
        take: fn(&SinewHome) -> Result<L, ServeError>,
    ) -> Result<CommandBackend<L>, CommandError> {
        let deadline = Instant::now() + MAX_LOCK_WAIT;
        self.home.prepare().map_err(|error| serve_error(&error))?;
        let mut holder = StateLock::holder(&self.home);
        loop {
            match self.has_daemon() {
                Ok(true) => return Ok(CommandBackend::Daemon),
                Ok(false) => {}
                Err(problem) => {
                    // A different holder means that the queue of commands moves, so keep waiting.
                    let before = std::mem::replace(&mut holder, StateLock::holder(&self.home));
                    if holder == before || Instant::now() >= deadline {
                        return Err(problem);
                    }
                    continue;
                }
            }
            // Another command may have taken the lock since the check.
            match take(&self.home) {
                Err(ServeError::AlreadyRunning { .. }) if Instant::now() < deadline => {}
                acquired => return acquired.map(CommandBackend::Local).map_err(|error| serve_error(&error)),
            }
        }
    }

    /// Returns true if a daemon answers. A process that holds the state lock and does not answer is an error.
    fn has_daemon(&self) -> Result<bool, CommandError> {
        let (runtime, deadline) = (self.runtime()?, Instant::now() + HOLDER_TIMEOUT);
        loop {
            match runtime.block_on(self.connect_once(DaemonSocket::Agent)) {
                Ok(_) => return Ok(true),
                // The lock is checked once for each attempt: between two checks another command may take it.
                Err(ClientError::Unreachable { .. }) if !self.is_state_locked() => return Ok(false),
                Err(ClientError::Unreachable { .. }) if Instant::now() < deadline => {
                    std::thread::sleep(RETRY_INTERVAL);
                }
                Err(error) => return Err(self.client_error(&error)),
            }
        }
    }

    /// Returns true if a daemon answers now. Does not connect if no process holds the state lock: a service
    /// manager that listens on the socket would accept and start a daemon.
    pub(crate) fn is_daemon_ready(&self) -> bool {
        let answers = |runtime: Runtime| runtime.block_on(self.connect_once(DaemonSocket::Control));
        self.is_state_locked() && self.runtime().is_ok_and(|runtime| answers(runtime).is_ok())
    }

    /// Returns true if a process holds the state lock, whether or not it answers.
    pub(crate) fn is_state_locked(&self) -> bool {
        matches!(StateLock::holder(&self.home), LockHolder::Process { .. })
    }

    /// Lists the tools, from the daemon if one runs, else from the configuration.
    pub(crate) fn definitions(&self, filter: &ToolFilter) -> Result<Vec<ToolDefinition>, CommandError> {
        if !self.has_daemon()? {
            return self.configured_definitions(filter);
        }
        let mut params = Arguments::new();
        params.extend(filter.mode.map(|mode| ("mode".to_owned(), json!(mode))));
        params.extend(filter.category.as_ref().map(|category| ("category".to_owned(), json!(category))));
        parse_tool_list(&self.request_agent("sinew/tools", Value::Object(params))?)
    }

    /// Lists the tools without waiting: a daemon that does not answer immediately is ignored.
    pub(crate) fn definitions_without_waiting(&self) -> Result<Vec<ToolDefinition>, CommandError> {
        match self.try_request_agent("sinew/tools", || json!({}))? {
            Some(reply) => parse_tool_list(&reply),
            None => self.configured_definitions(&ToolFilter::default()),
        }
    }

    fn configured_definitions(&self, filter: &ToolFilter) -> Result<Vec<ToolDefinition>, CommandError> {
        let snapshot = compose::config_snapshot(self, &self.settings()?, WorkspaceSelection::Configured)?;
        Ok(snapshot.tools(filter).iter().map(|definition| (**definition).clone()).collect())
    }

    /// Sends a request to the agent socket.
    pub(crate) fn request_agent(&self, method: &str, params: Value) -> Result<Value, CommandError> {
        self.request(DaemonSocket::Agent, method, params)
    }

    /// Calls a tool through the agent socket, under the name of the command line. A daemon that restarts refuses calls
    /// on connections that it has accepted before, or does not receive them; such a call did not run, and is sent once
    /// more to the new daemon.
    pub(crate) fn call_tool(
        &self,
        mut params: Arguments,
        mut on_progress: impl FnMut(&Value),
    ) -> Result<Value, CommandError> {
        params.insert("progress_token".to_owned(), json!("call"));
        let params = Value::Object(params);
        let asked = async {
            let first = self.call_once(&params, &mut on_progress).await;
            let did_not_run = match &first {
                Ok(reply) => reply
                    .pointer("/metadata/refusal/code")
                    .is_some_and(|code| *code == RefusalCode::ShuttingDown.as_str()),
                Err(ClientError::Closed(Some(cause))) => cause.kind() == ErrorKind::BrokenPipe,
                Err(_) => false,
            };
            if !did_not_run {
                return first;
            }
            match self.call_once(&params, &mut on_progress).await {
                // The daemon stopped for good, so its refusal is the result.
                Err(ClientError::Unreachable { .. }) => first,
                repeated => repeated,
            }
        };
        self.runtime()?.block_on(asked).map_err(|error| self.client_error(&error))
    }

    async fn call_once(
        &self,
        params: &Value,
        on_progress: &mut impl FnMut(&Value),
    ) -> Result<Value, ClientError> {
        let mut client = self.connect(DaemonSocket::Agent).await?;
        client.introduce(call::CLI_NAME, env!("CARGO_PKG_VERSION")).await?;
        client.request_with_progress("sinew/execute", params.clone(), on_progress).await
    }

    /// Sends a request to the agent socket. Returns `None` if no daemon answers.
    pub(crate) fn try_request_agent(
        &self,
        method: &str,
        params: impl FnOnce() -> Value,
    ) -> Result<Option<Value>, CommandError> {
        let asked = async {
            match self.connect_once(DaemonSocket::Agent).await {
                Ok(mut client) => client.request(method, params()).await.map(Some),
                Err(ClientError::Unreachable { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        };
        self.runtime()?.block_on(asked).map_err(|error| self.client_error(&error))
    }

    /// Sends a request to the control socket.
    pub(crate) fn request_control(&self, method: &str, params: Value) -> Result<Value, CommandError> {
        self.request(DaemonSocket::Control, method, params)
    }

    /// Sends a request to the control socket without starting a daemon by socket activation.
    pub(crate) fn request_running_daemon(&self, method: &str, params: Value) -> Result<Value, CommandError> {
        if self.is_state_locked() {
            return self.request_control(method, params);
        }
        let socket = self.home.control_socket();
        let exists = socket.exists();
        let cause = if exists { Error::other("its socket exists") } else { ErrorKind::NotFound.into() };
        Err(self.client_error(&ClientError::Unreachable { socket, exists, cause }))
    }

    /// Sends a request to the control socket and returns an RPC error to the caller.
    pub(crate) fn try_request_control(
        &self,
        method: &str,
        params: &Value,
    ) -> Result<Result<Value, ClientError>, CommandError> {
        let asked =
            async { self.connect(DaemonSocket::Control).await?.request(method, params.clone()).await };
        match self.runtime()?.block_on(asked) {
            Err(error @ ClientError::Rpc { .. }) => Ok(Err(error)),
            asked => asked.map(Ok).map_err(|error| self.client_error(&error)),
        }
    }

    fn request(&self, socket: DaemonSocket, method: &str, params: Value) -> Result<Value, CommandError> {
        let asked = async {
            let first = self.connect(socket).await?.request(method, params.clone()).await;
            match first {
                // A daemon that restarts received no complete request, so this one did not run.
                Err(ClientError::Closed(Some(cause))) if cause.kind() == ErrorKind::BrokenPipe => {
                    self.connect(socket).await?.request(method, params).await
                }
                replied => replied,
            }
        };
        self.runtime()?.block_on(asked).map_err(|error| self.client_error(&error))
    }

    /// Connects to the daemon. Waits while another `sinew call` holds the state lock or a daemon is starting.
    async fn connect(&self, socket: DaemonSocket) -> Result<Client, ClientError> {
        let deadline = Instant::now() + HOLDER_TIMEOUT;
        loop {
            match self.connect_once(socket).await {
                Err(ClientError::Unreachable { .. })
                    if self.is_state_locked() && Instant::now() < deadline =>
                {
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
                connected => return connected,
            }
        }
    }

    async fn connect_once(&self, socket: DaemonSocket) -> Result<Client, ClientError> {
        Client::connect(&self.socket_path(socket), SINGLE_ATTEMPT).await
    }

    fn socket_path(&self, socket: DaemonSocket) -> PathBuf {
        match socket {
            DaemonSocket::Agent => self.home.agent_socket(),
            DaemonSocket::Control => self.home.control_socket(),
        }
    }

    /// Converts a client error into a command error with a hint. Only the state lock shows whether a daemon
    /// that cannot be reached is starting, stopping or absent.
    pub(crate) fn client_error(&self, error: &ClientError) -> CommandError {
        let problem = |text: String| CommandError::new(exit_status(error), text);
        if !matches!(error, ClientError::Unreachable { .. }) {
            return with_hint(problem(error.to_string()), error.hint());
        }
        match StateLock::holder(&self.home) {
            LockHolder::NoProcess => {
                let hint = match service::is_installed(&self.home) {
                    true => Some(
                        "start it with `sinew service start`; `sinew logs` shows why it ended".to_owned(),
                    ),
                    false => error.hint(),
                };
                with_hint(problem(format!("{error}, and no daemon is running")), hint)
            }
            LockHolder::Process { pid } => {
                let (name, check) = match pid {
                    Some(pid) => (format!(" (pid {pid})"), format!(", or check it with `ps -p {pid}`")),
                    None => (String::new(), String::new()),
                };
                CommandError::new(
                    ExitKind::Locked,
                    format!("{error}, but a process{name} holds the state lock"),
                )
                .with_hint(format!("it may be starting or stopping: try again{check}"))
            }
        }
    }

    /// Creates a single-threaded runtime for one command.
    pub(crate) fn runtime(&self) -> Result<Runtime, CommandError> {
        let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
        built.map_err(|error| CommandError::failed(format!("cannot start: {error}")))
    }
}

fn with_hint(problem: CommandError, hint: Option<String>) -> CommandError {
    match hint {
        Some(hint) => problem.with_hint(hint),
        None => problem,
    }
}

fn parse_tool_list(reply: &Value) -> Result<Vec<ToolDefinition>, CommandError> {
    render::items(reply, "tools").iter().cloned().map(parse_definition).collect()
}

fn parse_definition(native: Value) -> Result<ToolDefinition, CommandError> {
    let garbled = |error: &dyn std::fmt::Display| {
        CommandError::failed(format!("the daemon's list of tools cannot be read: {error}"))
    };
    ToolSpec::from_native(native).map_err(|error| garbled(&error))?.check().map_err(|error| garbled(&error))
}

fn exit_status(error: &ClientError) -> ExitKind {
    match error {
        ClientError::Rpc { code: INVALID_PARAMS, .. } => ExitKind::Usage,
        // The operator's refusal has the same exit code with and without a daemon.
        ClientError::Rpc { data, .. } if is_pin_refusal(data) => ExitKind::Refused,
        ClientError::Rpc { .. } => ExitKind::Failed,
        ClientError::Unreachable { .. }
        | ClientError::ForeignUser { .. }
        | ClientError::Closed(_)
        | ClientError::InvalidReply(_) => ExitKind::Unreachable,
    }
}

fn is_pin_refusal(data: &Value) -> bool {
    let word = data["code"].as_str().unwrap_or_default();
    ["pin_wrong", "pin_needed", "pin_locked"].contains(&word)
}

/// Converts a server error into a command error with a hint.
pub(crate) fn serve_error(error: &ServeError) -> CommandError {
    let problem = match error {
        ServeError::AlreadyRunning { .. } => CommandError::new(ExitKind::Locked, error.to_string()),
        _ => CommandError::configuration(error),
    };
    with_hint(problem, error.hint())
}
