//! Pool of idle connections to one server, limited in number and idle time.
//!
//! A connection is reused only by its owner and only if the sandbox fingerprint is still the same. If another
//! path must be hidden now, the process is ended, because it may still see that path.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use registry::Whose;
use sandbox::Enclosure;

use super::client::Client;

/// Maximum number of idle connections.
const MOST: usize = 4;
/// Maximum idle time.
const PATIENCE: Duration = Duration::from_secs(120);

/// Owner of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) party: String,
    pub(crate) session: Option<String>,
    /// Sandbox fingerprint, if the server is a local process.
    pub(crate) enclosure: Option<Enclosure>,
}

impl Owner {
    /// Returns true if the same caller would now get a sandbox that invalidates this one.
    fn is_outdated_by(&self, now: &Owner) -> bool {
        let (before, now_around) = (self.enclosure.as_ref(), now.enclosure.as_ref());
        self.party == now.party
            && before.zip(now_around).is_some_and(|(before, now)| before.is_outdated_by(now))
    }
}

/// Idle connections of one server.
#[derive(Default)]
pub(crate) struct Waiting {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    list: Vec<One>,
    /// Release counter. A connection whose call began before the last release is not kept.
    turn: u64,
    is_watched: bool,
}

struct One {
    owner: Owner,
    since: Instant,
    client: Client,
}

impl Waiting {
    /// Returns the release counter, which a call reads when it begins.
    pub(crate) fn turn(&self) -> u64 {
        self.state().turn
    }

    /// Takes a connection of this owner with its idle time.
    pub(crate) fn take(&self, owner: &Owner) -> Option<(Client, Duration)> {
        let outdated = self.take_out(|one| one.owner.is_outdated_by(owner));
        drop(outdated);
        let mut state = self.state();
        let at = state.list.iter().position(|one| one.owner == *owner)?;
        let found = state.list.swap_remove(at);
        Some((found.client, found.since.elapsed()))
    }

    /// Returns a connection to the pool, unless a release happened since its call began.
    pub(crate) fn put(self: &Arc<Self>, owner: Owner, client: Client, turn: u64) {
        let mut state = self.state();
        if state.turn != turn {
            drop(state);
            return drop(client);
        }
        state.list.push(One { owner, since: Instant::now(), client });
        let too_many = (state.list.len() > MOST).then(|| state.list.remove(0));
        let is_watched = std::mem::replace(&mut state.is_watched, true);
        drop(state);
        drop(too_many);
        if !is_watched {
            tokio::spawn(watch(Arc::downgrade(self)));
        }
    }

    /// Ends matching connections. Connections in use are not returned to the pool.
    pub(crate) fn let_go(&self, whose: Whose<'_>) {
        self.state().turn += 1;
        let ended = self.take_out(|one| match whose {
            Whose::Everybodys => true,
            Whose::Session(id) => one.owner.session.as_deref() == Some(id),
        });
        drop(ended);
    }

    /// Ends connections that were idle for too long. Returns the time of the next check, or `None` if the
    /// pool is empty.
    fn end_old(&self) -> Option<Instant> {
        drop(self.take_out(|one| one.since.elapsed() >= PATIENCE));
        let mut state = self.state();
        let next = state.list.iter().map(|one| one.since + PATIENCE).min();
        state.is_watched = next.is_some();
        next
    }

    /// Removes matching connections. The caller drops them after the lock is released, because a drop ends a
    /// process.
    fn take_out(&self, is_meant: impl Fn(&One) -> bool) -> Vec<One> {
        let mut state = self.state();
        let (out, rest) = std::mem::take(&mut state.list).into_iter().partition(is_meant);
        state.list = rest;
        out
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The list is consistent after every statement, so a poisoned lock is safe to use.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends idle connections when they expire. One task runs while the pool is not empty.
async fn watch(waiting: Weak<Waiting>) {
    while let Some(next) = waiting.upgrade().and_then(|waiting| waiting.end_old()) {
        tokio::time::sleep_until(next.into()).await;
    }
}
