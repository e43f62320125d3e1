//! What is known of one connection: who the kernel says it is, and what it said in its handshake.

use std::sync::Arc;

use tool::{Caller, Door};

use crate::mcp::Handshake;
use crate::notify::Notifier;
use crate::outbox::Outbox;
use crate::worker::WorkerDoor;

/// One connection's identity and its MCP state.
#[derive(Debug)]
pub(crate) struct Session {
    /// Unique in this daemon's life.
    pub(crate) connection: u64,
    pub(crate) peer: Peer,
    /// Set by `initialize`.
    pub(crate) handshake: Option<Handshake>,
    /// The way back to the client, once the conversation has begun.
    pub(crate) outbox: Option<Outbox>,
    /// The worker session that it is in, by the door it came through.
    pub(crate) worker: Option<Arc<str>>,
    /// The doors it opened for workers, which close with it.
    pub(crate) workers: Vec<WorkerDoor>,
}

/// Who is at the other end, as the kernel says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) uid: u32,
    pub(crate) pid: Option<i32>,
}

impl Session {
    pub(crate) fn new(connection: u64, peer: Peer, worker: Option<Arc<str>>) -> Self {
        Session { connection, peer, handshake: None, outbox: None, worker, workers: Vec::new() }
    }

    /// A way to say something before or after an answer.
    pub(crate) fn notifier(&self) -> Option<Notifier> {
        self.outbox.clone().map(Notifier::new)
    }

    /// The party on whose behalf a call through this door runs.
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
