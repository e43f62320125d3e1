//! Conversations that wait for the next call of who had them: a few of them, for a while.
//!
//! Each belongs to one caller and stands behind walls that are still those it would get now. Once something else is to be
//! hidden, the process is ended: it may see what was put in the place of a hidden file.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use registry::Whose;
use sandbox::Enclosure;

use super::client::Client;

/// How many wait at most.
const MOST: usize = 4;
/// How long one waits before it is ended.
const PATIENCE: Duration = Duration::from_secs(120);

/// Whose conversation it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) party: String,
    pub(crate) session: Option<String>,
    /// What is around the server, where it is a process of ours.
    pub(crate) enclosure: Option<Enclosure>,
}

impl Owner {
    /// Whether the same caller would find itself behind other walls by now.
    fn is_outdated_by(&self, now: &Owner) -> bool {
        let (before, now_around) = (self.enclosure.as_ref(), now.enclosure.as_ref());
        self.party == now.party
            && before.zip(now_around).is_some_and(|(before, now)| before.is_outdated_by(now))
    }
}

/// Those of one server.
#[derive(Default)]
pub(crate) struct Waiting {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    list: Vec<One>,
    /// How often they were let go. What began before the last time is not kept after it.
    turn: u64,
    is_watched: bool,
}

struct One {
    owner: Owner,
    since: Instant,
    client: Client,
}

impl Waiting {
    /// Which turn it is: a call asks when it begins.
    pub(crate) fn turn(&self) -> u64 {
        self.state().turn
    }

    /// One that waits for this owner, and how long it has.
    pub(crate) fn take(&self, owner: &Owner) -> Option<(Client, Duration)> {
        let outdated = self.take_out(|one| one.owner.is_outdated_by(owner));
        drop(outdated);
        let mut state = self.state();
        let at = state.list.iter().position(|one| one.owner == *owner)?;
        let found = state.list.swap_remove(at);
        Some((found.client, found.since.elapsed()))
    }

    /// Has one wait for the next call, if nothing was let go since its call began.
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

    /// Ends those that are meant, and whatever of theirs is under way will not be kept.
    pub(crate) fn let_go(&self, whose: Whose<'_>) {
        self.state().turn += 1;
        let ended = self.take_out(|one| match whose {
            Whose::Everybodys => true,
            Whose::Session(id) => one.owner.session.as_deref() == Some(id),
        });
        drop(ended);
    }

    /// Ends those that have waited for too long. When to look again; never, where none is left.
    fn end_old(&self) -> Option<Instant> {
        drop(self.take_out(|one| one.since.elapsed() >= PATIENCE));
        let mut state = self.state();
        let next = state.list.iter().map(|one| one.since + PATIENCE).min();
        state.is_watched = next.is_some();
        next
    }

    /// Dropping one ends a process, which is not to be waited for with the list in hand.
    fn take_out(&self, is_meant: impl Fn(&One) -> bool) -> Vec<One> {
        let mut state = self.state();
        let (out, rest) = std::mem::take(&mut state.list).into_iter().partition(is_meant);
        state.list = rest;
        out
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The list is whole after every statement, so a panic elsewhere cannot have broken it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends what nobody comes back for. One task, for as long as something waits.
async fn watch(waiting: Weak<Waiting>) {
    while let Some(next) = waiting.upgrade().and_then(|waiting| waiting.end_old()) {
        tokio::time::sleep_until(next.into()).await;
    }
}
