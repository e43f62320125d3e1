//! Worker sockets: each worker session has a socket of its own, which its orchestrator passes to the worker.
//! Every call on it belongs to that session. The methods for sessions, hooks and the operator do not exist on
//! it.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use execution::{OpenedSession, SessionError, SessionTerms, ToolExecutionLayer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tool::{Caller, Door, fresh_session_id};

use crate::agent::{self, Agent};
use crate::listener::{self, Hall, Listener};
use crate::mcp;
use crate::methods::{calls, status};
use crate::platform::Platform;
use crate::rpc::RpcError;
use crate::service::{Answer, Call, Method, Service};
use crate::session::Session;
use crate::socket::BoundSocket;

/// Prefix and suffix of worker socket names; a random id is between them.
const NAME: (&str, &str) = ("w-", ".sock");
/// Maximum number of connections to one worker socket.
const CONNECTIONS: usize = 4;
/// Maximum number of open worker sockets; fewer if the file descriptor limit is low.
const MOST_DOORS: usize = 64;

const METHODS: &[Method<Agent>] = &[
    Method { name: "sinew/execute", run: execute },
    Method { name: "sinew/tools", run: status::tools },
    Method { name: "initialize", run: mcp::initialize::initialize },
    Method { name: "server/discover", run: mcp::initialize::discover },
    Method { name: "ping", run: mcp::ping },
    Method { name: "tools/list", run: mcp::list::run },
    Method { name: "tools/call", run: call_tool },
];

/// Like `sinew/execute` of the agent socket, but an invalid call is recorded and costs a hop.
fn execute(agent: &Agent, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    calls::execute(agent, session, call).map_err(|error| malformed(agent, session, error))
}

/// Like `tools/call` of the agent socket, but an invalid call is recorded and costs a hop.
fn call_tool(agent: &Agent, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    mcp::call::run(agent, session, call).map_err(|error| malformed(agent, session, error))
}

/// Records a refusal for an invalid message and adds it to the error that the worker gets.
fn malformed(agent: &Agent, session: &Session, error: RpcError) -> RpcError {
    let result = agent.layer.refuse_malformed(session.caller(Door::Socket), &error.message);
    let metadata = result.metadata;
    error.with("refusal", &metadata.refusal).with("session", &metadata.session)
}

fn service(context: Agent, session: &str) -> Service<Agent> {
    Service {
        socket: "this worker's socket",
        methods: METHODS,
        notices: mcp::NOTICES,
        elsewhere: (agent::SOCKET, |_| false),
        worker: Some(session.into()),
        malformed,
        admit: agent::admit,
        context,
    }
}

/// Creates and closes worker sockets.
pub(crate) struct Workers {
    layer: Arc<ToolExecutionLayer>,
    hall: Hall,
    folder: PathBuf,
    places: Arc<Semaphore>,
    /// All open sockets, by session id.
    doors: Arc<Doors>,
    /// Sockets of named sessions, which outlive the connection that opened them, by name.
    named: Mutex<HashMap<String, WorkerDoor>>,
}

/// Handle of one worker socket, held by its opener. Dropping it ends the session and removes the socket with
/// its connections.
pub(crate) struct WorkerDoor {
    pub(crate) opened: OpenedSession,
    pub(crate) socket: PathBuf,
    opener: Caller,
    doors: Arc<Doors>,
}

/// Open worker sockets. The opener or the operator can close one.
struct Doors {
    layer: Arc<ToolExecutionLayer>,
    open: Mutex<HashMap<String, Open>>,
}

struct Open {
    socket: PathBuf,
    stop: CancellationToken,
    _place: OwnedSemaphorePermit,
}

impl Doors {
    fn open(&self) -> MutexGuard<'_, HashMap<String, Open>> {
        // The map is consistent after every statement, so a panic of another holder cannot have broken it.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes a socket and ends its session. Returns true if it was open.
    fn close(&self, id: &str, why: &str) -> bool {
        let Some(door) = self.open().remove(id) else { return false };
        // Recorded first: when a client sees that the socket is gone, the ledger already has the end of the
        // session.
        let _ = self.layer.close_session(id, why);
        door.stop.cancel();
        // The listener task also removes the file, but later; this makes the removal visible at once.
        let _ = fs::remove_file(&door.socket);
        true
    }
}

/// Reason why a worker socket could not be opened.
pub(crate) enum NoDoor {
    /// The limit is reached, the path is too long, or the socket cannot be bound.
    Impossible(RpcError),
    /// The session could not be opened.
    Session(SessionError),
}

impl Workers {
    /// Creates an empty table, limited by the number of file descriptors.
    pub(crate) fn new(
        layer: Arc<ToolExecutionLayer>,
        hall: Hall,
        folder: &Path,
        descriptors: u64,
    ) -> Arc<Self> {
        let affordable = usize::try_from(descriptors / 8).unwrap_or(usize::MAX) / (CONNECTIONS + 1);
        let places = Arc::new(Semaphore::new(affordable.clamp(1, MOST_DOORS)));
        let doors = Arc::new(Doors { layer: Arc::clone(&layer), open: Mutex::default() });
        let (folder, named) = (folder.to_owned(), Mutex::default());
        Arc::new(Workers { layer, hall, folder, places, doors, named })
    }

    /// Opens a session and its socket.
    pub(crate) fn open(&self, terms: SessionTerms, opener: &Session) -> Result<WorkerDoor, NoDoor> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let message = "the limit of open worker sessions is reached: close one first";
            NoDoor::Impossible(RpcError::server("busy", message))
        })?;
        let path = self.fresh_path()?;
        let opener = opener.caller(Door::Socket);
        let opened = self.layer.open_session(terms, &opener).map_err(NoDoor::Session)?;
        // From here on, dropping the handle ends the session if a later step fails.
        let stop = self.hall.stop.child_token();
        let open = Open { socket: path.clone(), stop: stop.clone(), _place: place };
        self.doors.open().insert(opened.session_id.clone(), open);
        let door = WorkerDoor { opened, socket: path, opener, doors: Arc::clone(&self.doors) };
        let bound = BoundSocket::bind_new(&door.socket)
            .map_err(|error| NoDoor::Impossible(RpcError::server("resource_exhausted", error.to_string())))?;
        self.serve(&door, stop, bound);
        Ok(door)
    }

    fn serve(&self, door: &WorkerDoor, stop: CancellationToken, bound: BoundSocket) {
        let hall = Hall { stop: stop.clone(), ..self.hall.clone() };
        // An empty reference: a worker socket must not open further sessions.
        let context = Agent { layer: Arc::clone(&self.layer), limits: hall.limits, workers: Weak::new() };
        let manners = listener::Door { max_connections: CONNECTIONS, max_followers: CONNECTIONS, idle: None };
        let listener = Listener::new(service(context, &door.opened.session_id), hall, manners);
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                never = listener.run(bound.listener()) => match never {},
            }
        });
    }

    /// Returns an unguessable socket path, or an error if it is too long for the system.
    fn fresh_path(&self) -> Result<PathBuf, NoDoor> {
        let path = self.folder.join(format!("{}{}{}", NAME.0, fresh_session_id(), NAME.1));
        let (bytes, limit) = (path.as_os_str().as_bytes().len(), Platform::CURRENT.longest_socket_path());
        if bytes <= limit {
            return Ok(path);
        }
        let message = format!(
            "the path of the worker socket would have {bytes} bytes, but this system allows {limit}: set \
             SINEW_HOME to a shorter path"
        );
        Err(NoDoor::Impossible(RpcError::server("socket_path_too_long", message)))
    }

    pub(crate) fn named(&self) -> MutexGuard<'_, HashMap<String, WorkerDoor>> {
        // The map is consistent after every statement, so a panic of another holder cannot have broken it.
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if this connection may access the session: it opened the session, or the session is named
    /// and was opened by the same caller.
    pub(crate) fn knows(&self, session: &Session, id: &str) -> bool {
        let is = |door: &WorkerDoor| door.opened.session_id == id;
        session.workers.iter().any(is) || self.named().values().any(|door| is(door) && door.is_of(session))
    }

    /// Closes a session that this connection may access.
    pub(crate) fn close(&self, session: &mut Session, id: &str) {
        let is = |door: &WorkerDoor| door.opened.session_id == id;
        session.workers.retain(|door| !is(door));
        // Dropped after the lock is released, because closing a socket writes to the ledger.
        let closed: Vec<WorkerDoor> = {
            let mut named = self.named();
            named.extract_if(|_, door| is(door)).map(|(_, door)| door).collect()
        };
        drop(closed);
    }

    /// Closes any session on behalf of the operator. Returns true if it was open.
    pub(crate) fn end(&self, id: &str) -> bool {
        let was_open = self.doors.close(id, "closed by the operator");
        // Frees the name of the session.
        let named = {
            let mut named = self.named();
            named.extract_if(|_, door| door.opened.session_id == id).map(|(_, door)| door).collect::<Vec<_>>()
        };
        drop(named);
        was_open
    }

    /// Closes the named sessions; the others closed with their connections.
    pub(crate) fn close_all(&self) {
        let all = std::mem::take(&mut *self.named());
        drop(all);
    }
}

impl WorkerDoor {
    /// Returns true if the caller of this connection opened it.
    pub(crate) fn is_of(&self, session: &Session) -> bool {
        self.opener.is_same_party(&session.caller(Door::Socket))
    }
}

impl Drop for WorkerDoor {
    fn drop(&mut self) {
        self.doors.close(&self.opened.session_id, "closed by its opener, or its opener disconnected");
    }
}

impl std::fmt::Debug for WorkerDoor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerDoor").field("session", &self.opened.session_id).finish_non_exhaustive()
    }
}

/// Removes worker sockets of an earlier daemon; sessions do not outlive their daemon. The caller must hold
/// the state lock.
pub(crate) fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (name, is_socket) = (entry.file_name(), entry.file_type().is_ok_and(|kind| kind.is_socket()));
        let ours = name.to_str().is_some_and(|name| name.starts_with(NAME.0) && name.ends_with(NAME.1));
        if ours && is_socket {
            let _ = fs::remove_file(entry.path());
        }
    }
}
