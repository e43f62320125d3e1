//! State of one connection: peer credentials from the kernel, MCP handshake, and worker sessions.

use std::sync::Arc;

use execution::CallerKey;
use tool::{Caller, CallerEndpoint};

use crate::mcp::McpHandshake;
use crate::notify::Notifier;
use crate::outbox::Outbox;
use crate::rpc::UnknownId;
use crate::worker_sockets::WorkerSocket;

/// Identity and protocol state of one connection.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    /// Number of the connection, unique while this daemon runs.
    pub(crate) connection: u64,
    pub(crate) peer: PeerCredentials,
    /// Set by `initialize`.
    pub(crate) handshake: Option<McpHandshake>,
    /// Set by the first stateless MCP request.
    pub(crate) has_stateless_requests: bool,
    /// Queue of outgoing lines, once the connection is served.
    pub(crate) outbox: Option<Outbox>,
    /// Worker session of the connection, if it came through a worker socket.
    pub(crate) worker_session: Option<Arc<str>>,
    /// Worker sockets that this connection opened; they close with it.
    pub(crate) worker_sockets: Vec<WorkerSocket>,
}

/// Peer credentials reported by the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerCredentials {
    pub(crate) uid: u32,
    pub(crate) pid: Option<i32>,
}

impl ConnectionState {
    pub(crate) fn new(connection: u64, peer: PeerCredentials, worker: Option<Arc<str>>) -> Self {
        ConnectionState {
            connection,
            peer,
            handshake: None,
            has_stateless_requests: false,
            outbox: None,
            worker_session: worker,
            worker_sockets: Vec::new(),
        }
    }

    /// Returns the form of an unknown id for this client.
    pub(crate) fn unknown_id(&self) -> UnknownId {
        let is_mcp = self.handshake.is_some() || self.has_stateless_requests;
        if is_mcp { UnknownId::Omitted } else { UnknownId::Null }
    }

    /// Returns the identity that limits are counted by.
    pub(crate) fn caller_key(&self) -> CallerKey {
        CallerKey::new(self.worker_session.as_deref(), self.peer.pid, self.peer.uid)
    }

    /// Returns a sender for notifications before or after the reply.
    pub(crate) fn notifier(&self) -> Option<Notifier> {
        self.outbox.clone().map(Notifier::new)
    }

    /// Returns the caller on whose behalf a call through this endpoint runs.
    pub(crate) fn caller(&self, socket_name: CallerEndpoint) -> Caller {
        Caller {
            uid: self.peer.uid,
            pid: self.peer.pid,
            endpoint: socket_name,
            connection: self.connection,
            client: self.handshake.as_ref().and_then(|handshake| handshake.client.clone()),
            session: self.worker_session.as_deref().map(str::to_owned),
        }
    }
}
