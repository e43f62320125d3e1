//! Limits of the connections to the bridge.
//!
//! Every program on the machine can connect to a loopback port, also a program of another user, and send
//! nothing. If no slot is free, the oldest unauthenticated connection is therefore closed, so that a client that
//! sends its request at once is always served.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Maximum number of unauthenticated connections.
const MAX_UNAUTHENTICATED: usize = 128;
/// Maximum number of authenticated connections.
const MAX_CLIENTS: usize = 256;

/// All connections of the bridge.
#[derive(Clone, Default)]
pub(crate) struct ConnectionPool(Arc<Mutex<ConnectionCounts>>);

#[derive(Default)]
struct ConnectionCounts {
    /// Eviction signals of the unauthenticated connections, oldest first.
    unauthenticated: VecDeque<Arc<Notify>>,
    clients: usize,
}

/// Slot of one connection, released when dropped.
pub(crate) struct ConnectionPlace {
    pool: ConnectionPool,
    /// Notified when the slot is needed for another connection.
    eviction: Arc<Notify>,
    is_client: Mutex<bool>,
}

impl ConnectionPool {
    /// Returns a slot for a new connection. If none is free, the oldest unauthenticated connection is closed.
    pub(crate) fn admit(&self) -> Arc<ConnectionPlace> {
        let mut state = self.lock();
        if state.unauthenticated.len() >= MAX_UNAUTHENTICATED
            && let Some(oldest) = state.unauthenticated.pop_front()
        {
            oldest.notify_one();
        }
        let eviction = Arc::new(Notify::new());
        state.unauthenticated.push_back(Arc::clone(&eviction));
        drop(state);
        Arc::new(ConnectionPlace { pool: self.clone(), eviction, is_client: Mutex::new(false) })
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionCounts> {
        // The state is consistent after every statement, so a poisoned lock is safe to use.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionPlace {
    /// Waits until the slot is needed for another connection.
    pub(crate) async fn evicted(&self) {
        self.eviction.notified().await;
    }

    /// Marks the connection as authenticated. Returns false if there are too many authenticated connections, or
    /// if this connection has been evicted.
    pub(crate) fn become_client(&self) -> bool {
        let mut is_client = self.is_client.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_client {
            let mut state = self.pool.lock();
            if state.clients < MAX_CLIENTS && state.remove_unauthenticated(&self.eviction) {
                state.clients += 1;
                *is_client = true;
            }
        }
        *is_client
    }
}

impl ConnectionCounts {
    fn remove_unauthenticated(&mut self, which: &Arc<Notify>) -> bool {
        let found = self.unauthenticated.iter().position(|known| Arc::ptr_eq(known, which));
        found.and_then(|place| self.unauthenticated.remove(place)).is_some()
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let is_client = *self.is_client.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.pool.lock();
        if is_client {
            state.clients -= 1;
        } else {
            state.remove_unauthenticated(&self.eviction);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn is_evicted(place: &ConnectionPlace) -> bool {
        tokio::time::timeout(Duration::ZERO, place.evicted()).await.is_ok()
    }

    #[tokio::test]
    async fn oldest_connection_without_the_token_gives_way() {
        let pool = ConnectionPool::default();
        let first = pool.admit();
        let client = pool.admit();
        assert!(client.become_client() && client.become_client(), "once for all requests");
        let silent: Vec<_> = (1..MAX_UNAUTHENTICATED).map(|_| pool.admit()).collect();
        assert!(!is_evicted(&first).await, "there is a slot for each");
        let newest = pool.admit();
        assert!(is_evicted(&first).await && !first.become_client());
        for place in [&client, &silent[0], &newest] {
            assert!(!is_evicted(place).await);
        }
        let after = pool.admit();
        assert!(is_evicted(&silent[0]).await && after.become_client(), "the next one follows");
        drop((first, silent, newest, client));
        let state = pool.lock();
        assert_eq!((state.unauthenticated.len(), state.clients), (0, 1));
    }

    #[test]
    fn clients_with_the_token_are_limited_and_never_evicted() {
        let pool = ConnectionPool::default();
        let clients: Vec<_> = (0..MAX_CLIENTS).map(|_| pool.admit()).collect();
        assert_eq!(clients.iter().filter(|client| client.become_client()).count(), MAX_UNAUTHENTICATED);
        // The first half was evicted before it was authenticated.
        let more: Vec<_> = (0..MAX_CLIENTS - MAX_UNAUTHENTICATED)
            .map(|_| pool.admit())
            .inspect(|client| assert!(client.become_client()))
            .collect();
        let refused = pool.admit();
        assert!(!refused.become_client());
        drop(more);
        assert!(refused.become_client());
    }
}
