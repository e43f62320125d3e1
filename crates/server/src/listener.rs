//! Accepts connections on one socket: checks the peer credentials and the connection limit, and spawns a task
//! for each connection.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::budget::Budget;
use crate::connection::Connection;
use crate::platform::Platform;
use crate::private_folder::own_uid;
use crate::rpc::{self, RpcError};
use crate::service::Service;
use crate::session::{Peer, Session};
use crate::settings::Limits;

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// State shared by all listeners of a daemon.
#[derive(Clone)]
pub(crate) struct Hall {
    pub(crate) limits: Limits,
    pub(crate) budget: Budget,
    /// The only user whose connections are accepted.
    pub(crate) own_uid: u32,
    pub(crate) next_connection: Arc<AtomicU64>,
    pub(crate) connections: TaskTracker,
    /// Cancelled when the connections must end.
    pub(crate) stop: CancellationToken,
}

/// Connection limits of one socket.
#[derive(Clone, Copy)]
pub(crate) struct Door {
    pub(crate) max_connections: usize,
    /// Connections that may have subscriptions.
    pub(crate) max_followers: usize,
    /// Longest silence of a connection that has no request open; unlimited if absent.
    pub(crate) idle: Option<Duration>,
}

/// Accepts connections on one socket.
pub(crate) struct Listener<C: 'static> {
    service: Arc<Service<C>>,
    hall: Hall,
    door: Door,
    places: Arc<Semaphore>,
    followers: Arc<Semaphore>,
    /// True if the last connection was rejected. A burst of rejected connections is logged once.
    full: AtomicBool,
}

impl Hall {
    /// Creates state that accepts the user of this process.
    pub(crate) fn new(limits: Limits) -> Self {
        Hall {
            limits,
            budget: Budget::new(),
            own_uid: own_uid(),
            next_connection: Arc::new(AtomicU64::new(1)),
            connections: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }
}

impl<C: Send + Sync> Listener<C> {
    pub(crate) fn new(service: Service<C>, hall: Hall, door: Door) -> Self {
        let places = Arc::new(Semaphore::new(door.max_connections));
        let followers = Arc::new(Semaphore::new(door.max_followers));
        Listener { service: Arc::new(service), hall, door, places, followers, full: AtomicBool::new(false) }
    }

    /// Accepts connections until the future is dropped.
    pub(crate) async fn run(&self, socket: &UnixListener) -> std::convert::Infallible {
        let mut pause = FIRST_PAUSE;
        loop {
            match socket.accept().await {
                Ok((stream, _)) => {
                    pause = FIRST_PAUSE;
                    self.admit(stream);
                }
                // Out of descriptors or memory: the connection stays in the backlog, and an immediate retry
                // would only burn CPU time.
                Err(error) => {
                    tracing::warn!(%error, socket = self.service.socket, "accept_failed");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Checks the user and the connection limit before one byte is read or written, then starts the handler.
    fn admit(&self, stream: UnixStream) {
        let Some(peer) = identify(&stream) else { return };
        if peer.uid != self.hall.own_uid {
            tracing::warn!(
                uid = peer.uid,
                pid = peer.pid,
                socket = self.service.socket,
                "foreign_user_dropped"
            );
            return;
        }
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { return self.turn_away(&stream) };
        self.full.store(false, Ordering::Relaxed);
        let number = self.hall.next_connection.fetch_add(1, Ordering::Relaxed);
        let session = Session::new(number, peer, self.service.worker.clone());
        tracing::debug!(
            connection = session.connection,
            pid = peer.pid,
            socket = self.service.socket,
            "connected"
        );
        let connection = Connection {
            service: Arc::clone(&self.service),
            session,
            limits: self.hall.limits,
            budget: self.hall.budget.clone(),
            stop: self.hall.stop.clone(),
            idle: self.door.idle,
            followers: Arc::clone(&self.followers),
        };
        self.hall.connections.spawn(async move {
            let (read, write) = stream.into_split();
            connection.run(read, write, has_left).await;
            drop(place);
        });
    }

    /// Sends a `busy` error with one non-blocking write, so that a burst of connections stays cheap.
    fn turn_away(&self, stream: &UnixStream) {
        if !self.full.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                limit = self.door.max_connections,
                socket = self.service.socket,
                "connections_turned_away"
            );
        }
        let most = self.door.max_connections;
        let message = format!("all {most} connections are in use: close one, or try again");
        let error = RpcError::server("busy", message).with("max_connections", most);
        let _ = stream.try_write(&rpc::write(None, &Err(error), self.hall.limits.max_line_bytes));
    }
}

/// Returns true if the peer has closed both directions. A peer that closed only its sending side may still
/// read its replies.
fn has_left(read: &OwnedReadHalf) -> bool {
    let stream: &UnixStream = read.as_ref();
    let mut watched = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    let asked = poll(&mut watched, PollTimeout::ZERO);
    let [peer] = watched;
    let hung_up = asked.is_ok() && peer.revents().is_some_and(|events| events.contains(PollFlags::POLLHUP));
    hung_up && Platform::CURRENT.hang_up_is_final()
}

/// Returns the credentials of the peer; `None` if it has already disconnected.
fn identify(stream: &UnixStream) -> Option<Peer> {
    let credentials = stream.peer_cred().ok()?;
    Some(Peer { uid: credentials.uid(), pid: credentials.pid() })
}
