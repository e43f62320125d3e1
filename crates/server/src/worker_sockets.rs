//! Worker sockets: each worker session has a socket of its own, which its orchestrator passes to the worker.
//! Every call on it belongs to that session. The methods for sessions, hooks and the operator do not exist on
//! it.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use approvals::sessions::{OpenedSession, SessionError, SessionTerms};
use execution::ToolExecutionLayer;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tool::caller::CallerKey;
use tool::result::fresh_session_id;
use tool::{Caller, CallerEndpoint};

use crate::agent::{self, AgentContext};
use crate::connection_state::{ConnectionState, WorkerIdentity};
use crate::listener::{self, ConnectionListener, SharedListenerState};
use crate::mcp::{self, task_table::TaskTable};
use crate::methods::{calls, status};
use crate::peer_process;
use crate::platform::Platform;
use crate::rpc::{RequestId, RpcError};
use crate::service::{MethodCall, MethodResult, RpcMethod, SocketService};
use crate::socket::BoundSocket;

/// Prefix and suffix of worker socket names; a random id is between them.
const SOCKET_NAME_AFFIXES: (&str, &str) = ("w-", ".sock");
/// Maximum number of connections to one worker socket.
const CONNECTIONS_PER_WORKER: usize = 4;
/// Maximum number of open worker sockets; fewer if the file descriptor limit is low.
const MAX_WORKER_SOCKETS: usize = 64;

const METHODS: &[RpcMethod<AgentContext>] = &[
    RpcMethod { name: "sinew/execute", run: execute },
    RpcMethod { name: "sinew/tools", run: status::tools },
    RpcMethod { name: "initialize", run: mcp::initialize::initialize },
    RpcMethod { name: "server/discover", run: mcp::initialize::discover },
    RpcMethod { name: "ping", run: mcp::ping },
    RpcMethod { name: "tools/list", run: mcp::list::run },
    RpcMethod { name: "tools/call", run: call_tool },
    RpcMethod { name: "tasks/get", run: mcp::tasks::get },
    RpcMethod { name: "tasks/result", run: mcp::tasks::result },
    RpcMethod { name: "tasks/list", run: mcp::tasks::list },
    RpcMethod { name: "tasks/update", run: mcp::tasks::update },
    RpcMethod { name: "tasks/cancel", run: mcp::tasks::cancel },
];

/// Like `sinew/execute` of the agent socket, but an invalid call is recorded and costs a hop.
fn execute(agent: &AgentContext, session: &mut ConnectionState, call: MethodCall) -> MethodResult {
    calls::execute(agent, session, call).map_err(|error| record_malformed(agent, session, None, error))
}

/// Like `tools/call` of the agent socket, but an invalid call is recorded and costs a hop.
fn call_tool(agent: &AgentContext, session: &mut ConnectionState, call: MethodCall) -> MethodResult {
    mcp::call::run(agent, session, call).map_err(|error| record_malformed(agent, session, None, error))
}

/// Records a refusal for an invalid message and adds it to the error that the worker gets.
fn record_malformed(
    agent: &AgentContext,
    session: &ConnectionState,
    _: Option<&RequestId>,
    error: RpcError,
) -> RpcError {
    let caller = session.caller(CallerEndpoint::Socket);
    let result = agent.layer.refuse_malformed(caller, error.refusal_code(), &error.message);
    let metadata = result.metadata;
    error.with_data("refusal", &metadata.refusal).with_data("session", &metadata.session)
}

fn service(context: AgentContext, worker: WorkerIdentity) -> SocketService<AgentContext> {
    SocketService {
        socket: "this worker's socket",
        methods: METHODS,
        notifications: mcp::NOTIFICATIONS,
        other_socket: (agent::SOCKET_NAME, |_| false),
        worker: Some(worker),
        on_malformed: record_malformed,
        admit: agent::admit,
        charge_line: agent::charge_line,
        before_write: |agent| agent.layer.anchor_records(),
        request_slots: Some(context.layer.request_slots().clone()),
        context,
    }
}

/// Creates and closes worker sockets.
pub(crate) struct WorkerSockets {
    layer: Arc<ToolExecutionLayer>,
    shared: SharedListenerState,
    folder: PathBuf,
    slots: Arc<Semaphore>,
    /// All open sockets, by session id.
    open_sockets: Arc<OpenWorkerSockets>,
    /// Sockets of named sessions, which outlive the connection that opened them, by name.
    named: Mutex<HashMap<String, WorkerSocket>>,
}

/// Handle of one worker socket, held by its opener. Dropping it ends the session and removes the socket with
/// its connections.
pub(crate) struct WorkerSocket {
    pub(crate) opened: OpenedSession,
    pub(crate) path: PathBuf,
    opener: Caller,
    open_sockets: Arc<OpenWorkerSockets>,
}

/// Open worker sockets. The opener or the operator can close one.
struct OpenWorkerSockets {
    layer: Arc<ToolExecutionLayer>,
    sockets: Mutex<HashMap<String, OpenWorkerSocket>>,
}

struct OpenWorkerSocket {
    path: PathBuf,
    stop: CancellationToken,
    _slot: OwnedSemaphorePermit,
}

impl OpenWorkerSockets {
    fn lock_sockets(&self) -> MutexGuard<'_, HashMap<String, OpenWorkerSocket>> {
        // The map is consistent after every statement, so a panic of another holder cannot have broken it.
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes a socket and ends its session. Returns true if it was open.
    fn close(&self, id: &str, why: &str) -> bool {
        let Some(endpoint) = self.lock_sockets().remove(id) else { return false };
        // Recorded first: when a client sees that the socket is gone, the ledger already has the end of the
        // session.
        let _ = self.layer.close_session(id, why);
        endpoint.stop.cancel();
        // The listener task also removes the file, but later; this makes the removal visible at once.
        let _ = fs::remove_file(&endpoint.path);
        true
    }
}

/// Reason why a worker socket could not be opened.
pub(crate) enum WorkerSocketError {
    /// The limit is reached, the path is too long, or the socket cannot be bound.
    Unavailable(RpcError),
    /// The session could not be opened.
    Session(SessionError),
}

impl WorkerSockets {
    /// Creates an empty table, limited by the number of file descriptors.
    pub(crate) fn new(
        layer: Arc<ToolExecutionLayer>,
        worker_sockets: SharedListenerState,
        folder: &Path,
        descriptors: u64,
    ) -> Arc<Self> {
        let affordable =
            usize::try_from(descriptors / 8).unwrap_or(usize::MAX) / (CONNECTIONS_PER_WORKER + 1);
        let slots = Arc::new(Semaphore::new(affordable.clamp(1, MAX_WORKER_SOCKETS)));
        let open_sockets =
            Arc::new(OpenWorkerSockets { layer: Arc::clone(&layer), sockets: Mutex::default() });
        let (folder, named) = (folder.to_owned(), Mutex::default());
        Arc::new(WorkerSockets { layer, shared: worker_sockets, folder, slots, open_sockets, named })
    }

    /// Opens a session and its socket.
    pub(crate) fn open(
        &self,
        terms: SessionTerms,
        opener: &ConnectionState,
    ) -> Result<WorkerSocket, WorkerSocketError> {
        let place = Arc::clone(&self.slots).try_acquire_owned().map_err(|_| {
            let message = "the limit of open worker sessions is reached: close one first";
            WorkerSocketError::Unavailable(RpcError::server("busy", message))
        })?;
        let path = self.new_socket_path()?;
        let opener = opener.caller(CallerEndpoint::Socket);
        let opened = self.layer.open_session(terms, &opener).map_err(WorkerSocketError::Session)?;
        // From here on, dropping the handle ends the session if a later step fails.
        let stop = self.shared.stop.child_token();
        let open = OpenWorkerSocket { path: path.clone(), stop: stop.clone(), _slot: place };
        self.open_sockets.lock_sockets().insert(opened.session_id.clone(), open);
        let endpoint = WorkerSocket { opened, path, opener, open_sockets: Arc::clone(&self.open_sockets) };
        let bound = BoundSocket::bind_new(&endpoint.path).map_err(|error| {
            WorkerSocketError::Unavailable(RpcError::server("resource_exhausted", error.to_string()))
        })?;
        self.serve(&endpoint, stop, bound);
        Ok(endpoint)
    }

    fn serve(&self, endpoint: &WorkerSocket, stop: CancellationToken, bound: BoundSocket) {
        let sockets = SharedListenerState { stop: stop.clone(), ..self.shared.clone() };
        // An empty reference: a worker socket must not open further sessions.
        let context = AgentContext {
            layer: Arc::clone(&self.layer),
            limits: sockets.limits,
            tool_lists: Default::default(),
            worker_sockets: Weak::new(),
            tasks: TaskTable::default(),
        };
        let limits = listener::ListenerLimits {
            max_connections: CONNECTIONS_PER_WORKER,
            max_followers: CONNECTIONS_PER_WORKER,
            idle_timeout: None,
        };
        let worker = WorkerIdentity {
            session: endpoint.opened.session_id.as_str().into(),
            opener: endpoint.opener.key(),
        };
        let listener = ConnectionListener::new(service(context, worker), sockets, limits);
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                never = listener.run(bound.listener()) => match never {},
            }
        });
    }

    /// Returns an unguessable socket path, or an error if it is too long for the system.
    fn new_socket_path(&self) -> Result<PathBuf, WorkerSocketError> {
        let path = self.folder.join(format!(
            "{}{}{}",
            SOCKET_NAME_AFFIXES.0,
            fresh_session_id(),
            SOCKET_NAME_AFFIXES.1
        ));
        let (bytes, limit) = (path.as_os_str().as_bytes().len(), Platform::CURRENT.max_socket_path_bytes());
        if bytes <= limit {
            return Ok(path);
        }
        let message = format!(
            "the path of the worker socket would have {bytes} bytes, but this system allows {limit}: set \
             SINEW_HOME to a shorter path"
        );
        Err(WorkerSocketError::Unavailable(RpcError::server("socket_path_too_long", message)))
    }

    pub(crate) fn lock_named(&self) -> MutexGuard<'_, HashMap<String, WorkerSocket>> {
        // The map is consistent after every statement, so a panic of another holder cannot have broken it.
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if this connection may access the session: it opened the session, or the session is named
    /// and was opened by the same process.
    pub(crate) fn may_access(&self, session: &ConnectionState, id: &str) -> bool {
        let is = |endpoint: &WorkerSocket| endpoint.opened.session_id == id;
        session.worker_sockets.iter().any(is)
            || self.lock_named().values().any(|endpoint| is(endpoint) && endpoint.is_opened_by(session))
    }

    /// Closes a session that this connection may access.
    pub(crate) fn close(&self, session: &mut ConnectionState, id: &str) {
        let is = |endpoint: &WorkerSocket| endpoint.opened.session_id == id;
        session.worker_sockets.retain(|endpoint| !is(endpoint));
        // Dropped after the lock is released, because closing a socket writes to the ledger.
        let closed: Vec<WorkerSocket> = {
            let mut named = self.lock_named();
            named.extract_if(|_, endpoint| is(endpoint)).map(|(_, endpoint)| endpoint).collect()
        };
        drop(closed);
    }

    /// Closes any session on behalf of the operator. Returns true if it was open.
    pub(crate) fn close_as_operator(&self, id: &str) -> bool {
        let was_open = self.open_sockets.close(id, "closed by the operator");
        // Frees the name of the session.
        let named = {
            let mut named = self.lock_named();
            named
                .extract_if(|_, endpoint| endpoint.opened.session_id == id)
                .map(|(_, endpoint)| endpoint)
                .collect::<Vec<_>>()
        };
        drop(named);
        was_open
    }

    /// Closes the named sessions; the others closed with their connections.
    pub(crate) fn close_all(&self) {
        let all = std::mem::take(&mut *self.lock_named());
        drop(all);
    }
}

impl WorkerSocket {
    /// Returns true if the caller of this connection opened it. Another process with the same client name could be the
    /// worker, which must not reset its own budgets; it takes over only once the opener has ended.
    pub(crate) fn is_opened_by(&self, session: &ConnectionState) -> bool {
        let caller = session.caller(CallerEndpoint::Socket);
        let has_opener_ended = || match self.opener.key() {
            CallerKey::Process(opener) => !peer_process::is_running(opener),
            CallerKey::User(_) => true,
        };
        self.opener.is_same_instance(&caller) || (self.opener.is_same_party(&caller) && has_opener_ended())
    }
}

impl Drop for WorkerSocket {
    fn drop(&mut self) {
        self.open_sockets.close(&self.opened.session_id, "closed by its opener, or its opener disconnected");
    }
}

impl std::fmt::Debug for WorkerSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerSocket").field("session", &self.opened.session_id).finish_non_exhaustive()
    }
}

/// Removes worker sockets of an earlier daemon; sessions do not outlive their daemon. The caller must hold
/// the state lock.
pub(crate) fn remove_stale_sockets(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (name, is_socket) = (entry.file_name(), entry.file_type().is_ok_and(|kind| kind.is_socket()));
        let ours = name.to_str().is_some_and(|name| {
            name.starts_with(SOCKET_NAME_AFFIXES.0) && name.ends_with(SOCKET_NAME_AFFIXES.1)
        });
        if ours && is_socket {
            let _ = fs::remove_file(entry.path());
        }
    }
}
