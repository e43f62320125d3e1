//! Context of a command: the home, the current folder and the connection to the daemon.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use connectors::Road;
use execution::ToolFilter;
use serde_json::{Value, json};
use server::{
    Client, ClientError, Environment, Holder, Home, ServeError, Settings, Socket, StateLock, StateView,
};
use tokio::runtime::Runtime;
use tool::{Arguments, ToolDefinition, ToolSpec};

use crate::accepted::Keeper;
use crate::compose::{self, Folders};
use crate::exit::{Exit, Problem};
use crate::render;
use crate::service;

/// Timeout for the process that holds the state lock to answer or release the lock.
const PATIENCE: Duration = Duration::from_secs(5);
/// Total wait for other commands that hold the state lock one after the other.
const LONGEST_QUEUE: Duration = Duration::from_secs(60);
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(20);
/// Single connection attempt: the retry loop is here, because it depends on the holder of the state lock.
const ONCE: Duration = Duration::ZERO;
/// JSON-RPC error code for invalid parameters.
const INVALID_PARAMS: i64 = -32602;

/// Component that serves a command.
pub(crate) enum Reach<L = StateLock> {
    /// The daemon.
    Daemon,
    /// This process, which holds the state lock.
    Nobody(L),
}

/// Home and current folder of a command, with handles that parts of the layer need before it exists.
#[derive(Clone)]
pub(crate) struct Setting {
    home: Home,
    folder: PathBuf,
    keeper: Keeper,
    road: Road,
}

impl Setting {
    /// Locates the home from the environment and the current folder.
    pub(crate) fn find() -> Result<Setting, Problem> {
        let environment: Environment = std::env::vars_os().collect();
        let home = Home::locate(&environment).map_err(|error| explain(&error))?;
        let folder = std::env::current_dir()
            .map_err(|error| Problem::usage(format!("the current folder cannot be used: {error}")))?;
        Ok(Setting::at(home, folder))
    }

    /// Creates a context for a given home and folder.
    pub(crate) fn at(home: Home, folder: PathBuf) -> Setting {
        Setting { home, folder, keeper: Keeper::default(), road: Road::default() }
    }

    /// Returns this context with the configuration read from a copy.
    pub(crate) fn reading(&self, copy: &Path) -> Setting {
        Setting { home: self.home.reading(copy), ..self.clone() }
    }

    /// Returns the writer of the accepted copy.
    pub(crate) fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// Returns the pipeline entry for the inner calls of meta tools.
    pub(crate) fn road(&self) -> &Road {
        &self.road
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Loads the settings file, or the defaults.
    pub(crate) fn settings(&self) -> Result<Settings, Problem> {
        Settings::load(&self.home).map_err(|error| explain(&error))
    }

    /// Acquires the exclusive state lock.
    pub(crate) fn take_state(&self) -> Result<StateLock, Problem> {
        self.home.prepare().map_err(|error| explain(&error))?;
        StateLock::acquire(&self.home).map_err(|error| explain(&error))
    }

    /// Finds a daemon, else acquires the state lock. Waits for a process that holds the lock and does not
    /// answer, and fails in the end: continuing would give the ledger two writers.
    pub(crate) fn reach_or_state(&self) -> Result<Reach, Problem> {
        self.reach_or(StateLock::acquire)
    }

    /// Like `daemon_or_state_lock`, with a shared lock for reading only.
    pub(crate) fn reach_or_view(&self) -> Result<Reach<StateView>, Problem> {
        self.reach_or(StateView::acquire)
    }

    fn reach_or<L>(&self, take: fn(&Home) -> Result<L, ServeError>) -> Result<Reach<L>, Problem> {
        let deadline = Instant::now() + LONGEST_QUEUE;
        self.home.prepare().map_err(|error| explain(&error))?;
        let mut holder = StateLock::holder(&self.home);
        loop {
            match self.is_reachable() {
                Ok(true) => return Ok(Reach::Daemon),
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
                acquired => return acquired.map(Reach::Nobody).map_err(|error| explain(&error)),
            }
        }
    }

    /// Returns true if a daemon answers. A process that holds the state lock and does not answer is an error.
    fn is_reachable(&self) -> Result<bool, Problem> {
        match self.runtime()?.block_on(self.connect(Socket::Agent)) {
            Ok(_) => Ok(true),
            Err(ClientError::Unreachable { holder: Holder::Nobody, .. }) => Ok(false),
            Err(error) => Err(self.unanswered(&error)),
        }
    }

    /// Returns true if a daemon answers now. Does not connect if no process holds the state lock: a service
    /// manager that listens on the socket would accept and start a daemon.
    pub(crate) fn daemon_answers(&self) -> bool {
        let answers = |runtime: Runtime| runtime.block_on(Client::connect(&self.home, Socket::Control, ONCE));
        self.is_held() && self.runtime().is_ok_and(|runtime| answers(runtime).is_ok())
    }

    /// Returns true if a process holds the state lock, whether or not it answers.
    pub(crate) fn is_held(&self) -> bool {
        matches!(StateLock::holder(&self.home), Holder::Process { .. })
    }

    /// Lists the tools, from the daemon if one runs, else from the configuration.
    pub(crate) fn definitions(&self, filter: &ToolFilter) -> Result<Vec<ToolDefinition>, Problem> {
        if !self.is_reachable()? {
            return self.configured(filter);
        }
        let mut params = Arguments::new();
        params.extend(filter.mode.map(|mode| ("mode".to_owned(), json!(mode))));
        params.extend(filter.category.as_ref().map(|category| ("category".to_owned(), json!(category))));
        read_list(&self.ask_agent("sinew/tools", Value::Object(params))?)
    }

    /// Lists the tools without waiting: a daemon that does not answer immediately is ignored.
    pub(crate) fn definitions_at_hand(&self) -> Result<Vec<ToolDefinition>, Problem> {
        match self.ask_agent_if_served("sinew/tools", || json!({}))? {
            Some(reply) => read_list(&reply),
            None => self.configured(&ToolFilter::default()),
        }
    }

    fn configured(&self, filter: &ToolFilter) -> Result<Vec<ToolDefinition>, Problem> {
        let world = compose::world(self, &self.settings()?, Folders::Configured)?;
        Ok(world.tools(filter).iter().map(|definition| (**definition).clone()).collect())
    }

    /// Sends a request to the agent socket.
    pub(crate) fn ask_agent(&self, method: &str, params: Value) -> Result<Value, Problem> {
        self.ask(Socket::Agent, method, params)
    }

    /// Sends a request to the agent socket. Returns `None` if no daemon answers.
    pub(crate) fn ask_agent_if_served(
        &self,
        method: &str,
        params: impl FnOnce() -> Value,
    ) -> Result<Option<Value>, Problem> {
        let asked = async {
            match Client::connect(&self.home, Socket::Agent, ONCE).await {
                Ok(mut client) => client.request(method, params()).await.map(Some),
                Err(ClientError::Unreachable { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        };
        self.runtime()?.block_on(asked).map_err(|error| self.unanswered(&error))
    }

    /// Sends a request to the control socket.
    pub(crate) fn ask_control(&self, method: &str, params: Value) -> Result<Value, Problem> {
        self.ask(Socket::Control, method, params)
    }

    /// Sends a request to the control socket without starting a daemon by socket activation.
    pub(crate) fn ask_running(&self, method: &str, params: Value) -> Result<Value, Problem> {
        if self.is_held() {
            return self.ask_control(method, params);
        }
        let socket = self.home.control_socket();
        let (exists, holder) = (socket.exists(), Holder::Nobody);
        let cause = if exists { Error::other("its socket exists") } else { ErrorKind::NotFound.into() };
        Err(self.unanswered(&ClientError::Unreachable { socket, exists, holder, cause }))
    }

    /// Sends a request to the control socket and returns an RPC error to the caller.
    pub(crate) fn try_control(
        &self,
        method: &str,
        params: &Value,
    ) -> Result<Result<Value, ClientError>, Problem> {
        let asked = async { self.connect(Socket::Control).await?.request(method, params.clone()).await };
        match self.runtime()?.block_on(asked) {
            Err(error @ ClientError::Answered { .. }) => Ok(Err(error)),
            asked => asked.map(Ok).map_err(|error| self.unanswered(&error)),
        }
    }

    fn ask(&self, socket: Socket, method: &str, params: Value) -> Result<Value, Problem> {
        let asked = async { self.connect(socket).await?.request(method, params).await };
        self.runtime()?.block_on(asked).map_err(|error| self.unanswered(&error))
    }

    /// Connects to the daemon. Waits while another `sinew call` holds the state lock or a daemon is starting.
    async fn connect(&self, socket: Socket) -> Result<Client, ClientError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match Client::connect(&self.home, socket, ONCE).await {
                Err(ClientError::Unreachable { holder: Holder::Process { .. }, .. })
                    if Instant::now() < deadline =>
                {
                    tokio::time::sleep(BETWEEN_ATTEMPTS).await;
                }
                connected => return connected,
            }
        }
    }

    /// Converts a client error into a command error with a hint.
    pub(crate) fn unanswered(&self, error: &ClientError) -> Problem {
        let problem = Problem::new(exit_of(error), error.to_string());
        let is_down = matches!(error, ClientError::Unreachable { holder: Holder::Nobody, .. });
        match error.hint() {
            Some(_) if is_down && service::is_installed(&self.home) => {
                problem.hint("start it with `sinew service start`; `sinew logs` shows why it ended")
            }
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }

    /// Creates a single-threaded runtime for one command.
    pub(crate) fn runtime(&self) -> Result<Runtime, Problem> {
        let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
        built.map_err(|error| Problem::failed(format!("cannot start: {error}")))
    }
}

fn read_list(reply: &Value) -> Result<Vec<ToolDefinition>, Problem> {
    render::items(reply, "tools").iter().cloned().map(read_back).collect()
}

fn read_back(native: Value) -> Result<ToolDefinition, Problem> {
    let garbled = |error: &dyn std::fmt::Display| {
        Problem::failed(format!("the daemon's list of tools cannot be read: {error}"))
    };
    ToolSpec::from_native(native).map_err(|error| garbled(&error))?.check().map_err(|error| garbled(&error))
}

fn exit_of(error: &ClientError) -> Exit {
    match error {
        ClientError::Answered { code: INVALID_PARAMS, .. } => Exit::Usage,
        // The operator's refusal has the same exit code with and without a daemon.
        ClientError::Answered { data, .. } if is_about_the_pin(data) => Exit::Refused,
        ClientError::Answered { .. } => Exit::Failed,
        ClientError::Unreachable { .. }
        | ClientError::Foreign { .. }
        | ClientError::Closed(_)
        | ClientError::Garbled(_) => Exit::Unreachable,
    }
}

fn is_about_the_pin(data: &Value) -> bool {
    let word = data["code"].as_str().unwrap_or_default();
    ["pin_wrong", "pin_needed", "pin_locked"].contains(&word)
}

/// Converts a server error into a command error with a hint.
pub(crate) fn explain(error: &ServeError) -> Problem {
    let problem = Problem::configuration(error);
    match error.hint() {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}
