//! Pool of idle connections to one server, limited in number and idle time.
//!
//! A connection is reused only by its owner and only if the sandbox fingerprint is still the same. If another
//! path must be hidden now, the process is ended, because it may still see that path.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use registry::CacheScope;
use sandbox::SandboxFingerprint;

use super::client::McpClient;

/// Maximum number of idle connections.
const MAX_IDLE_CLIENTS: usize = 4;
/// Maximum idle time.
const MAX_IDLE_TIME: Duration = Duration::from_secs(120);

/// Owner of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientOwner {
    pub(crate) party: String,
    pub(crate) session: Option<String>,
    /// Sandbox fingerprint, if the server is a local process.
    pub(crate) sandbox_fingerprint: Option<SandboxFingerprint>,
}

impl ClientOwner {
    /// Returns true if the same caller would now get a sandbox that invalidates this one.
    fn is_outdated_by(&self, now: &ClientOwner) -> bool {
        let (before, now_around) = (self.sandbox_fingerprint.as_ref(), now.sandbox_fingerprint.as_ref());
        self.party == now.party
            && before.zip(now_around).is_some_and(|(before, now)| before.is_outdated_by(now))
    }
}

/// Idle connections of one server.
#[derive(Default)]
pub(crate) struct IdleClients {
    state: Mutex<IdleClientsState>,
}

#[derive(Default)]
struct IdleClientsState {
    list: Vec<IdleClient>,
    /// Release counter. A connection whose call began before the last release is not kept.
    release_count: u64,
    has_expiry_task: bool,
}

struct IdleClient {
    owner: ClientOwner,
    since: Instant,
    client: McpClient,
}

impl IdleClients {
    /// Returns the release counter, which a call reads when it begins.
    pub(crate) fn release_count(&self) -> u64 {
        self.state().release_count
    }

    /// Takes a connection of this owner with its idle time.
    pub(crate) fn take(&self, owner: &ClientOwner) -> Option<(McpClient, Duration)> {
        let outdated = self.remove_matching(|one| one.owner.is_outdated_by(owner));
        drop(outdated);
        let mut state = self.state();
        let at = state.list.iter().position(|one| one.owner == *owner)?;
        let found = state.list.swap_remove(at);
        Some((found.client, found.since.elapsed()))
    }

    /// Returns a connection to the pool, unless a release happened since its call began.
    pub(crate) fn put(self: &Arc<Self>, owner: ClientOwner, client: McpClient, expected_release_count: u64) {
        let mut state = self.state();
        if state.release_count != expected_release_count {
            drop(state);
            return drop(client);
        }
        state.list.push(IdleClient { owner, since: Instant::now(), client });
        let too_many = (state.list.len() > MAX_IDLE_CLIENTS).then(|| state.list.remove(0));
        let is_watched = std::mem::replace(&mut state.has_expiry_task, true);
        drop(state);
        drop(too_many);
        if !is_watched {
            tokio::spawn(expire_idle_clients(Arc::downgrade(self)));
        }
    }

    /// Ends matching connections. Connections in use are not returned to the pool.
    pub(crate) fn release(&self, owner_key: CacheScope<'_>) {
        self.state().release_count += 1;
        let ended = self.remove_matching(|one| match owner_key {
            CacheScope::All => true,
            CacheScope::Session(id) => one.owner.session.as_deref() == Some(id),
        });
        drop(ended);
    }

    /// Ends connections that were idle for too long. Returns the time of the next check, or `None` if the
    /// pool is empty.
    fn end_expired(&self) -> Option<Instant> {
        drop(self.remove_matching(|one| one.since.elapsed() >= MAX_IDLE_TIME));
        let mut state = self.state();
        let next = state.list.iter().map(|one| one.since + MAX_IDLE_TIME).min();
        state.has_expiry_task = next.is_some();
        next
    }

    /// Removes matching connections. The caller drops them after the lock is released, because a drop ends a
    /// process.
    fn remove_matching(&self, is_meant: impl Fn(&IdleClient) -> bool) -> Vec<IdleClient> {
        let mut state = self.state();
        let (out, rest) = std::mem::take(&mut state.list).into_iter().partition(is_meant);
        state.list = rest;
        out
    }

    fn state(&self) -> MutexGuard<'_, IdleClientsState> {
        // The list is consistent after every statement, so a poisoned lock is safe to use.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends idle connections when they expire. One task runs while the pool is not empty.
async fn expire_idle_clients(waiting: Weak<IdleClients>) {
    while let Some(next) = waiting.upgrade().and_then(|waiting| waiting.end_expired()) {
        tokio::time::sleep_until(next.into()).await;
    }
}
