//! State of one connection: peer credentials from the kernel, MCP handshake, and worker sessions.

use std::sync::Arc;

use tool::caller::{CallerKey, ProcessIdentity};
use tool::{Caller, CallerEndpoint};

use crate::connected_clients::ClientEntry;
use crate::mcp::McpHandshake;
use crate::mcp::task_table::ConnectionTasks;
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
    /// Identity that limits are counted by: the peer, or the opener of its worker session.
    pub(crate) account: CallerKey,
    /// Entry in the list of connected clients, once the connection is served.
    pub(crate) client_entry: Option<ClientEntry>,
    /// Set by `control/console.open`: the connection belongs to the operator's web console.
    pub(crate) is_console: bool,
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
    /// Guard of the tasks that this connection created, once it has one; they end with it.
    pub(crate) tasks: Option<ConnectionTasks>,
}

/// Peer credentials reported by the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerCredentials {
    pub(crate) uid: u32,
    pub(crate) process: Option<ProcessIdentity>,
}

/// Worker session to which every connection of a worker socket belongs.
#[derive(Clone, Debug)]
pub(crate) struct WorkerIdentity {
    pub(crate) session: Arc<str>,
    /// Identity of the caller that opened the session. Its workers share its limits, so that a caller gains nothing by
    /// opening sessions.
    pub(crate) opener: CallerKey,
}

impl PeerCredentials {
    /// Returns the identity that limits are counted by.
    pub(crate) fn key(&self) -> CallerKey {
        self.process.map_or(CallerKey::User(self.uid), CallerKey::Process)
    }

    pub(crate) fn pid(&self) -> Option<i32> {
        self.process.map(|process| process.pid)
    }
}

impl ConnectionState {
    pub(crate) fn new(connection: u64, peer: PeerCredentials, worker: Option<&WorkerIdentity>) -> Self {
        ConnectionState {
            connection,
            peer,
            account: worker.map_or_else(|| peer.key(), |worker| worker.opener),
            client_entry: None,
            is_console: false,
            handshake: None,
            has_stateless_requests: false,
            outbox: None,
            worker_session: worker.map(|worker| Arc::clone(&worker.session)),
            worker_sockets: Vec::new(),
            tasks: None,
        }
    }

    /// Returns the form of an unknown id for this client.
    pub(crate) fn unknown_id(&self) -> UnknownId {
        let is_mcp = self.handshake.is_some() || self.has_stateless_requests;
        if is_mcp { UnknownId::Omitted } else { UnknownId::Null }
    }

    /// Returns a sender for notifications before or after the reply.
    pub(crate) fn notifier(&self) -> Option<Notifier> {
        self.outbox.clone().map(Notifier::new)
    }

    /// Returns the operator as the author of a decision on this connection.
    pub(crate) fn operator(&self) -> Caller {
        self.caller(if self.is_console { CallerEndpoint::Console } else { CallerEndpoint::Control })
    }

    /// Returns the caller on whose behalf a call through this endpoint runs.
    pub(crate) fn caller(&self, socket_name: CallerEndpoint) -> Caller {
        Caller {
            uid: self.peer.uid,
            pid: self.peer.pid(),
            endpoint: socket_name,
            connection: self.connection,
            client: self.handshake.as_ref().and_then(|handshake| handshake.client.clone()),
            session: self.worker_session.as_deref().map(str::to_owned),
            account: Some(self.account),
        }
    }
}
