//! State of one connection: peer credentials from the kernel, MCP handshake, and worker sessions.

use std::sync::Arc;

use tool::{Caller, Door};

use crate::mcp::Handshake;
use crate::notify::Notifier;
use crate::outbox::Outbox;
use crate::worker::WorkerDoor;

/// Identity and protocol state of one connection.
#[derive(Debug)]
pub(crate) struct Session {
    /// Number of the connection, unique while this daemon runs.
    pub(crate) connection: u64,
    pub(crate) peer: Peer,
    /// Set by `initialize`.
    pub(crate) handshake: Option<Handshake>,
    /// Queue of outgoing lines, once the connection is served.
    pub(crate) outbox: Option<Outbox>,
    /// Worker session of the connection, if it came through a worker socket.
    pub(crate) worker: Option<Arc<str>>,
    /// Worker sockets that this connection opened; they close with it.
    pub(crate) workers: Vec<WorkerDoor>,
}

/// Peer credentials reported by the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) uid: u32,
    pub(crate) pid: Option<i32>,
}

impl Session {
    pub(crate) fn new(connection: u64, peer: Peer, worker: Option<Arc<str>>) -> Self {
        Session { connection, peer, handshake: None, outbox: None, worker, workers: Vec::new() }
    }

    /// Returns a sender for notifications before or after the reply.
    pub(crate) fn notifier(&self) -> Option<Notifier> {
        self.outbox.clone().map(Notifier::new)
    }

    /// Returns the caller on whose behalf a call through this endpoint runs.
    pub(crate) fn caller(&self, door: Door) -> Caller {
        Caller {
            uid: self.peer.uid,
            pid: self.peer.pid,
            door,
            connection: self.connection,
            client: self.handshake.as_ref().and_then(|handshake| handshake.client.clone()),
            session: self.worker.as_deref().map(str::to_owned),
        }
    }
}
