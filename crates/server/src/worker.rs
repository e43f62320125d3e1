//! The doors of workers: each session has a socket of its own, which its orchestrator hands on. Whatever comes through it
//! is in that session. There is no way from here to other sessions, to the hook's questions or to the human's methods.

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
use crate::platform::Platform;
use crate::rpc::RpcError;
use crate::service::{Method, Service};
use crate::session::Session;
use crate::socket::BoundSocket;
use crate::{mcp, methods};

/// What the sockets of workers begin and end with; between them is what nobody guesses.
const NAME: (&str, &str) = ("w-", ".sock");
/// A worker talks over one connection, or a few.
const CONNECTIONS: usize = 4;
/// How many sessions there may be at a time, descriptors allowing.
const MOST_DOORS: usize = 64;

const METHODS: &[Method<Agent>] = &[
    EXECUTE,
    methods::tools::METHOD,
    mcp::initialize::METHOD,
    mcp::discover::METHOD,
    mcp::ping::METHOD,
    mcp::list::METHOD,
    CALL,
];

/// The same methods as elsewhere; but here a message that is no call costs one.
const EXECUTE: Method<Agent> = Method {
    name: methods::execute::METHOD.name,
    run: |agent, session, call| {
        (methods::execute::METHOD.run)(agent, session, call).map_err(|error| malformed(agent, session, error))
    },
};
const CALL: Method<Agent> = Method {
    name: mcp::call::METHOD.name,
    run: |agent, session, call| {
        (mcp::call::METHOD.run)(agent, session, call).map_err(|error| malformed(agent, session, error))
    },
};

/// What a worker is told of a message that is no call: the error, and the refusal that stands for it on record.
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
        context,
    }
}

/// All doors of workers.
pub(crate) struct Workers {
    layer: Arc<ToolExecutionLayer>,
    hall: Hall,
    folder: PathBuf,
    places: Arc<Semaphore>,
    /// All that are open, by their session.
    doors: Arc<Doors>,
    /// Those that outlive the connection that opened them, by the name they were given.
    named: Mutex<HashMap<String, WorkerDoor>>,
}

/// One door, in the hands of whoever opened it. With it goes the session, its socket and whatever is connected to it.
pub(crate) struct WorkerDoor {
    pub(crate) opened: OpenedSession,
    pub(crate) socket: PathBuf,
    opener: Caller,
    doors: Arc<Doors>,
}

/// The doors that are open. One can be closed by whoever opened it, and over its head by the operator.
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
        // The map is whole after every statement, so a panic elsewhere cannot have broken it.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes a door and ends its session. Whether it was open.
    fn close(&self, id: &str, why: &str) -> bool {
        let Some(door) = self.open().remove(id) else { return false };
        // On record first: whoever sees the socket gone finds the end of the session there.
        let _ = self.layer.close_session(id, why);
        door.stop.cancel();
        // The listener removes it too, when it gets to it; whoever looks now finds it gone already.
        let _ = fs::remove_file(&door.socket);
        true
    }
}

/// Why there is no door.
pub(crate) enum NoDoor {
    /// There is no place, or no name for it that the system takes.
    Impossible(RpcError),
    /// There is no session to open it for.
    Session(SessionError),
}

impl Workers {
    /// None yet; as many as these descriptors allow.
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

    /// Opens a session and its door.
    pub(crate) fn open(&self, terms: SessionTerms, opener: &Session) -> Result<WorkerDoor, NoDoor> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let message = "all places for worker sessions are taken: close one first";
            NoDoor::Impossible(RpcError::server("busy", message))
        })?;
        let path = self.fresh_path()?;
        let opener = opener.caller(Door::Socket);
        let opened = self.layer.open_session(terms, &opener).map_err(NoDoor::Session)?;
        // From here on the session ends with the door, whatever else fails.
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
        // No door opens another: this one has no way to `session.open`.
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

    /// A name that nobody guesses, short enough for the system.
    fn fresh_path(&self) -> Result<PathBuf, NoDoor> {
        let path = self.folder.join(format!("{}{}{}", NAME.0, fresh_session_id(), NAME.1));
        let (bytes, limit) = (path.as_os_str().as_bytes().len(), Platform::CURRENT.longest_socket_path());
        if bytes <= limit {
            return Ok(path);
        }
        let message = format!(
            "the socket of a worker would have a path of {bytes} bytes, and this system allows {limit}: set SINEW_HOME to \
             a shorter one"
        );
        Err(NoDoor::Impossible(RpcError::server("socket_path_too_long", message)))
    }

    pub(crate) fn named(&self) -> MutexGuard<'_, HashMap<String, WorkerDoor>> {
        // The map is whole after every statement, so a panic elsewhere cannot have broken it.
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this connection may speak of that session: its own, and those with a name that its party opened.
    pub(crate) fn knows(&self, session: &Session, id: &str) -> bool {
        let is = |door: &WorkerDoor| door.opened.session_id == id;
        session.workers.iter().any(is) || self.named().values().any(|door| is(door) && door.is_of(session))
    }

    /// Closes a session that this connection may speak of.
    pub(crate) fn close(&self, session: &mut Session, id: &str) {
        let is = |door: &WorkerDoor| door.opened.session_id == id;
        session.workers.retain(|door| !is(door));
        // Dropped after the lock is given back: a door that closes writes to the ledger.
        let closed: Vec<WorkerDoor> = {
            let mut named = self.named();
            named.extract_if(|_, door| is(door)).map(|(_, door)| door).collect()
        };
        drop(closed);
    }

    /// Closes any session, because the operator says so. Whether it was open.
    pub(crate) fn end(&self, id: &str) -> bool {
        let was_open = self.doors.close(id, "closed by the operator");
        // Its name is free again.
        let named = {
            let mut named = self.named();
            named.extract_if(|_, door| door.opened.session_id == id).map(|(_, door)| door).collect::<Vec<_>>()
        };
        drop(named);
        was_open
    }

    /// Closes those that have a name; the others went with their connections.
    pub(crate) fn close_all(&self) {
        let all = std::mem::take(&mut *self.named());
        drop(all);
    }
}

impl WorkerDoor {
    /// Whether it was opened by the party of this connection.
    pub(crate) fn is_of(&self, session: &Session) -> bool {
        self.opener.is_same_party(&session.caller(Door::Socket))
    }
}

impl Drop for WorkerDoor {
    fn drop(&mut self) {
        self.doors.close(&self.opened.session_id, "closed by whoever opened it, or gone with it");
    }
}

impl std::fmt::Debug for WorkerDoor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerDoor").field("session", &self.opened.session_id).finish_non_exhaustive()
    }
}

/// Removes what an earlier life left behind: sessions do not outlive their daemon. Only for whoever holds the state.
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
