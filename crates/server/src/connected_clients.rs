//! Programs that are connected to the sockets, by name, for the operator. It limits and closes nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde::Serialize;

use crate::connection_state::ConnectionState;

/// Connections of all sockets, by number. Clones share the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectedClients(Arc<Mutex<BTreeMap<u64, ConnectedClient>>>);

/// Program behind one connection.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ConnectedClient {
    /// Name that the program gave in the handshake.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    socket: &'static str,
    /// Worker session of the connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    since: Timestamp,
}

/// Guard that removes a connection from the list when it is dropped.
#[derive(Debug)]
pub(crate) struct ClientEntry {
    clients: ConnectedClients,
    connection: u64,
}

impl ConnectedClients {
    pub(crate) fn insert(&self, state: &ConnectionState, socket: &'static str) -> ClientEntry {
        let session = state.worker_session.as_deref().map(str::to_owned);
        let client =
            ConnectedClient { name: None, pid: state.peer.pid(), socket, session, since: Timestamp::now() };
        self.lock().insert(state.connection, client);
        ClientEntry { clients: self.clone(), connection: state.connection }
    }

    /// Returns all connections except this one, oldest first.
    pub(crate) fn all_except(&self, connection: u64) -> Vec<ConnectedClient> {
        self.lock()
            .iter()
            .filter(|(number, _)| **number != connection)
            .map(|(_, client)| client.clone())
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, ConnectedClient>> {
        // The map is consistent after every statement, so a panic elsewhere cannot have broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientEntry {
    /// Sets the name of the client.
    pub(crate) fn set_name(&self, name: Option<&str>) {
        if let Some(client) = self.clients.lock().get_mut(&self.connection) {
            client.name = name.map(str::to_owned);
        }
    }
}

impl Drop for ClientEntry {
    fn drop(&mut self) {
        self.clients.lock().remove(&self.connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection_state::PeerCredentials;

    #[test]
    fn connection_is_listed_until_it_ends() {
        let clients = ConnectedClients::default();
        let state = |number| ConnectionState::new(number, PeerCredentials { uid: 1, process: None }, None);
        let (first, _second) =
            (clients.insert(&state(1), "agent.sock"), clients.insert(&state(2), "control.sock"));
        first.set_name(Some("claude-code"));
        let names = |own| clients.all_except(own).into_iter().map(|client| client.name).collect::<Vec<_>>();
        assert_eq!(names(2), [Some("claude-code".to_owned())]);
        drop(first);
        assert_eq!(names(3), [None]);
    }
}
