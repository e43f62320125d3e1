//! Accepts connections on one socket: checks the peer credentials and the connection limit, and spawns a task
//! for each connection.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{Shutdown, shutdown};
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::caller::CallerKey;

use crate::budget::MessageBudget;
use crate::connected_clients::ConnectedClients;
use crate::connection::{ClientConnection, PeerChecks};
use crate::connection_state::ConnectionState;
use crate::connection_table::{ConnectionActivity, ConnectionTable};
use crate::peer_process::peer_credentials;
use crate::platform::Platform;
use crate::private_folder::own_uid;
use crate::rpc::{self, RpcError, UnknownId};
use crate::service::SocketService;
use crate::settings::ConnectionLimits;

const MIN_ACCEPT_BACKOFF: Duration = Duration::from_millis(10);
const MAX_ACCEPT_BACKOFF: Duration = Duration::from_secs(1);
/// Connections beyond the limit, for callers that have none: one caller cannot lock the others out.
pub(crate) const RESERVED_FOR_NEW_CALLERS: usize = 16;
/// Longest wait for the slot of an idle connection that is being closed.
const EVICTION_TIMEOUT: Duration = Duration::from_secs(1);

/// State shared by all listeners of a daemon.
#[derive(Clone)]
pub(crate) struct SharedListenerState {
    pub(crate) limits: ConnectionLimits,
    pub(crate) budget: MessageBudget,
    /// The only user whose connections are accepted.
    pub(crate) own_uid: u32,
    pub(crate) next_connection: Arc<AtomicU64>,
    pub(crate) connections: TaskTracker,
    pub(crate) clients: ConnectedClients,
    /// Cancelled when the connections must end.
    pub(crate) stop: CancellationToken,
}

/// Connection limits of one socket.
#[derive(Clone, Copy)]
pub(crate) struct ListenerLimits {
    pub(crate) max_connections: usize,
    /// Connections that may have subscriptions.
    pub(crate) max_followers: usize,
    /// Longest silence of a connection that has no request open; unlimited if absent.
    pub(crate) idle_timeout: Option<Duration>,
}

/// Accepts connections on one socket.
pub(crate) struct ConnectionListener<C: 'static> {
    service: Arc<SocketService<C>>,
    shared: SharedListenerState,
    limits: ListenerLimits,
    connection_slots: Arc<Semaphore>,
    reserved_slots: Arc<Semaphore>,
    table: ConnectionTable,
    follower_slots: Arc<Semaphore>,
    /// True if the last connection was rejected. A burst of rejected connections is logged once.
    is_full: AtomicBool,
}

impl SharedListenerState {
    /// Creates state that accepts the user of this process.
    pub(crate) fn new(limits: ConnectionLimits) -> Self {
        SharedListenerState {
            limits,
            budget: MessageBudget::new(),
            own_uid: own_uid(),
            next_connection: Arc::new(AtomicU64::new(1)),
            connections: TaskTracker::new(),
            clients: ConnectedClients::default(),
            stop: CancellationToken::new(),
        }
    }
}

impl<C: Send + Sync> ConnectionListener<C> {
    pub(crate) fn new(
        service: SocketService<C>,
        sockets: SharedListenerState,
        endpoint: ListenerLimits,
    ) -> Self {
        let connection_slots = Arc::new(Semaphore::new(endpoint.max_connections));
        let followers = Arc::new(Semaphore::new(endpoint.max_followers));
        ConnectionListener {
            service: Arc::new(service),
            shared: sockets,
            limits: endpoint,
            connection_slots,
            reserved_slots: Arc::new(Semaphore::new(RESERVED_FOR_NEW_CALLERS)),
            table: ConnectionTable::new(),
            follower_slots: followers,
            is_full: AtomicBool::new(false),
        }
    }

    /// Accepts connections until the future is dropped.
    pub(crate) async fn run(&self, socket: &UnixListener) -> std::convert::Infallible {
        let mut pause = MIN_ACCEPT_BACKOFF;
        loop {
            match socket.accept().await {
                Ok((stream, _)) => {
                    pause = MIN_ACCEPT_BACKOFF;
                    self.admit(stream);
                }
                // Out of descriptors or memory: the connection stays in the backlog, and an immediate retry
                // would only burn CPU time.
                Err(error) => {
                    tracing::warn!(%error, socket = self.service.socket, "accept_failed");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(MAX_ACCEPT_BACKOFF);
                }
            }
        }
    }

    /// Checks the user and the connection limit before one byte is read or written, then starts the handler.
    fn admit(&self, stream: UnixStream) {
        let Some(peer) = peer_credentials(&stream) else { return };
        if peer.uid != self.shared.own_uid {
            tracing::warn!(
                uid = peer.uid,
                pid = peer.pid(),
                socket = self.service.socket,
                "foreign_user_dropped"
            );
            return;
        }
        let number = self.shared.next_connection.fetch_add(1, Ordering::Relaxed);
        let mut session = ConnectionState::new(number, peer, self.service.worker.as_ref());
        let caller = session.account;
        let Some(slot) = self.reserve_slot(&caller) else { return self.reject_full(&stream) };
        self.is_full.store(false, Ordering::Relaxed);
        tracing::debug!(
            connection = session.connection,
            pid = peer.pid(),
            socket = self.service.socket,
            "connected"
        );
        session.client_entry = Some(self.shared.clients.insert(&session, self.service.socket));
        let activity = ConnectionActivity::default();
        let entry = self.table.insert(number, caller, activity.clone());
        let connection = ClientConnection {
            service: Arc::clone(&self.service),
            session,
            limits: self.shared.limits,
            budget: self.shared.budget.clone(),
            stop: self.shared.stop.clone(),
            idle_timeout: self.limits.idle_timeout,
            activity,
            follower_slots: Arc::clone(&self.follower_slots),
        };
        self.shared.connections.spawn(async move {
            let Some(slot) = slot.wait().await else { return };
            let (read, write) = stream.into_split();
            connection.run(read, write, PeerChecks { has_disconnected, stop_receiving }).await;
            drop((entry, slot));
        });
    }

    /// Reserves a slot: a free one, that of an idle connection, or one of those for callers without a connection.
    fn reserve_slot(&self, caller: &CallerKey) -> Option<ConnectionSlot> {
        let free = |slots: &Arc<Semaphore>| Arc::clone(slots).try_acquire_owned().ok();
        if let Some(slot) = free(&self.connection_slots) {
            return Some(ConnectionSlot::Free(slot));
        }
        if self.table.evict_idle(caller, Instant::now()) {
            return Some(ConnectionSlot::BeingFreed(Arc::clone(&self.connection_slots)));
        }
        if self.table.has_connection_of(caller) {
            return None;
        }
        free(&self.reserved_slots).map(ConnectionSlot::Free)
    }

    /// Sends a `busy` error with one non-blocking write, so that a burst of connections stays cheap.
    fn reject_full(&self, stream: &UnixStream) {
        if !self.is_full.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                limit = self.limits.max_connections,
                socket = self.service.socket,
                "connections_rejected"
            );
        }
        let most = self.limits.max_connections;
        let message = format!("all {most} connections are in use: close one, or try again");
        let error = RpcError::server("busy", message).with_data("max_connections", most);
        let limit = self.shared.limits.max_line_bytes;
        let _ = stream.try_write(&rpc::encode_error(None, UnknownId::Null, error, limit));
    }
}

/// Slot of a connection.
enum ConnectionSlot {
    Free(OwnedSemaphorePermit),
    /// An idle connection is being closed, and its slot becomes free.
    BeingFreed(Arc<Semaphore>),
}

impl ConnectionSlot {
    async fn wait(self) -> Option<OwnedSemaphorePermit> {
        match self {
            ConnectionSlot::Free(slot) => Some(slot),
            ConnectionSlot::BeingFreed(slots) => {
                tokio::time::timeout(EVICTION_TIMEOUT, slots.acquire_owned()).await.ok()?.ok()
            }
        }
    }
}

/// Returns true if the peer has closed both directions. A peer that closed only its sending side may still
/// read its replies.
fn has_disconnected(read: &OwnedReadHalf) -> bool {
    let stream: &UnixStream = read.as_ref();
    let mut watched = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    let asked = poll(&mut watched, PollTimeout::ZERO);
    let [peer] = watched;
    let hung_up = asked.is_ok() && peer.revents().is_some_and(|events| events.contains(PollFlags::POLLHUP));
    hung_up && Platform::CURRENT.hang_up_closes_both_directions()
}

/// Shuts the receiving side down. macOS discards what was received before, so the connection is left as it is there.
fn stop_receiving(read: &OwnedReadHalf) -> bool {
    let stream: &UnixStream = read.as_ref();
    Platform::CURRENT.shutdown_keeps_received_data()
        && shutdown(stream.as_fd().as_raw_fd(), Shutdown::Read).is_ok()
}
