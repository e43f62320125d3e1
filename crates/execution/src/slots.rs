//! Places for running calls: so many at a time, handed out in turns, and a number that can change.
//!
//! Callers take turns, and each caller's own calls come in the order of their arrival: however many one of them sends,
//! another waits for no more than its turn. And each leaves something to the others: who holds places gets one more only
//! while it holds less than [`PER_FREE_PLACE`] for each that is free, so that one caller alone ends at three quarters
//! of them, a second at three quarters of the rest, and who holds none finds one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// How many places a caller may hold for each that it leaves free.
const PER_FREE_PLACE: usize = 3;

/// The places there are.
#[derive(Clone)]
pub(crate) struct Slots(Arc<Mutex<State>>);

struct State {
    most: usize,
    taken: usize,
    /// How many each caller holds, of those that hold any.
    held: BTreeMap<u64, usize>,
    waiting: Waiting,
}

/// Who waits: a queue for each caller that has somebody in it, and the callers in the order of their turns.
#[derive(Default)]
struct Waiting {
    queues: BTreeMap<u64, VecDeque<oneshot::Sender<Slot>>>,
    turns: VecDeque<u64>,
}

/// One place; given back when dropped, wherever that happens.
pub(crate) struct Slot {
    slots: Slots,
    caller: u64,
}

impl State {
    fn held_by(&self, caller: u64) -> usize {
        self.held.get(&caller).copied().unwrap_or(0)
    }

    /// Whether there is a place for this caller, and enough is left to the others.
    fn has_place_for(&self, caller: u64) -> bool {
        let free = self.most.saturating_sub(self.taken);
        self.held_by(caller) < free.saturating_mul(PER_FREE_PLACE)
    }

    fn give_to(&mut self, caller: u64) {
        self.taken += 1;
        *self.held.entry(caller).or_default() += 1;
    }

    fn take_back_from(&mut self, caller: u64) {
        self.taken -= 1;
        match self.held.get_mut(&caller) {
            Some(held) if *held > 1 => *held -= 1,
            _ => drop(self.held.remove(&caller)),
        }
    }

    /// The next in turn who is still there and for whom there is a place. The others keep their turns.
    fn next(&mut self) -> Option<(u64, oneshot::Sender<Slot>)> {
        let mut over_their_share = Vec::new();
        let mut found = None;
        while found.is_none()
            && let Some(caller) = self.waiting.turns.pop_front()
        {
            if self.has_place_for(caller) {
                found = self.waiting.next_of(caller).map(|sender| (caller, sender));
            } else {
                over_their_share.push(caller);
            }
        }
        over_their_share.into_iter().rev().for_each(|caller| self.waiting.turns.push_front(caller));
        found
    }
}

impl Waiting {
    fn add(&mut self, caller: u64, sender: oneshot::Sender<Slot>) {
        let queue = self.queues.entry(caller).or_default();
        if queue.is_empty() {
            self.turns.push_back(caller);
        }
        queue.push_back(sender);
    }

    /// The first of a caller's own who is still there. The caller has its next turn after all others.
    fn next_of(&mut self, caller: u64) -> Option<oneshot::Sender<Slot>> {
        let queue = self.queues.get_mut(&caller)?;
        let sender = std::iter::from_fn(|| queue.pop_front()).find(|sender| !sender.is_closed());
        if queue.is_empty() {
            self.queues.remove(&caller);
        } else {
            self.turns.push_back(caller);
        }
        sender
    }
}

impl Slots {
    pub(crate) fn new(most: usize) -> Self {
        Slots(Arc::new(Mutex::new(State {
            most,
            taken: 0,
            held: BTreeMap::new(),
            waiting: Waiting::default(),
        })))
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        self.state().taken
    }

    /// How many there are.
    pub(crate) fn most(&self) -> usize {
        self.state().most
    }

    /// Changes how many there are. Who has a place keeps it; fewer places fill up as others are given back.
    pub(crate) fn set_most(&self, most: usize) {
        self.state().most = most;
        self.hand_out();
    }

    /// How many this caller holds.
    pub(crate) fn held_by(&self, caller: u64) -> usize {
        self.state().held_by(caller)
    }

    /// A place, if one is free for this caller and nobody waits for it.
    pub(crate) fn take_at_once(&self, caller: u64) -> Option<Slot> {
        let mut state = self.state();
        if !state.has_place_for(caller) || !state.waiting.turns.is_empty() {
            return None;
        }
        state.give_to(caller);
        Some(Slot { slots: self.clone(), caller })
    }

    /// A place beside one that this caller's tool holds and does nothing with meanwhile. Waiting for one could take for
    /// ever: whoever holds the others may be waiting in the same way.
    pub(crate) fn take_beside(&self, caller: u64) -> Slot {
        self.state().give_to(caller);
        Slot { slots: self.clone(), caller }
    }

    /// A place, once it is this caller's turn. Who stops waiting loses the turn and nothing else.
    pub(crate) async fn take(&self, caller: u64) -> Slot {
        if let Some(slot) = self.take_at_once(caller) {
            return slot;
        }
        let turn = {
            let (sender, turn) = oneshot::channel();
            self.state().waiting.add(caller, sender);
            turn
        };
        self.hand_out();
        match turn.await {
            Ok(slot) => slot,
            // Senders are dropped only with the state itself, which this very call keeps alive.
            Err(_) => std::future::pending().await,
        }
    }

    fn hand_out(&self) {
        loop {
            let (caller, sender) = {
                let mut state = self.state();
                let Some((caller, sender)) = state.next() else { return };
                state.give_to(caller);
                (caller, sender)
            };
            // A caller that went away hands the place straight back by dropping it.
            let _ = sender.send(Slot { slots: self.clone(), caller });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is whole after every statement, so a panic elsewhere cannot have broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.state();
        state.take_back_from(self.caller);
        // Nobody waits as a rule: the lock is taken once.
        let is_wanted = !state.waiting.turns.is_empty();
        drop(state);
        if is_wanted {
            self.slots.hand_out();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn must_wait(slots: &Slots) {
        let waited = tokio::time::timeout(Duration::from_millis(5), slots.take(1)).await;
        assert!(waited.is_err(), "there was a place");
    }

    #[tokio::test]
    async fn places_are_limited_and_come_back() {
        let slots = Slots::new(2);
        let (first, second) = (slots.take(1).await, slots.take(1).await);
        must_wait(&slots).await;
        assert_eq!(slots.taken(), 2, "who stopped waiting holds nothing");
        drop(first);
        let third = slots.take(1).await;
        drop((second, third));
        assert_eq!(slots.taken(), 0);
    }

    #[tokio::test]
    async fn the_number_changes_under_way() {
        let slots = Slots::new(3);
        let held: Vec<Slot> = vec![slots.take(1).await, slots.take(1).await, slots.take(1).await];
        slots.set_most(1);
        assert_eq!(slots.taken(), 3, "who runs keeps running");
        drop(held);
        let one = slots.take(1).await;
        must_wait(&slots).await;
        slots.set_most(2);
        drop((slots.take(1).await, one));
        slots.set_most(0);
        must_wait(&slots).await;
    }

    #[tokio::test]
    async fn turns_are_taken_in_order() {
        let slots = Slots::new(1);
        let held = slots.take(1).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for n in 0..20 {
            let (slots, order) = (slots.clone(), Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                let _slot = slots.take(1).await;
                order.lock().unwrap().push(n);
            }));
            tokio::task::yield_now().await;
        }
        drop(held);
        for task in waiting {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn one_caller_cannot_starve_another() {
        let slots = Slots::new(1);
        let held = slots.take(1).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        // A flood of one caller, then one call each of two others.
        for (caller, n) in (0..50).map(|n| (1, n)).chain([(2, 0), (3, 0), (2, 1)]) {
            let (slots, order) = (slots.clone(), Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                let _slot = slots.take(caller).await;
                order.lock().unwrap().push((caller, n));
            }));
            tokio::task::yield_now().await;
        }
        drop(held);
        for task in waiting {
            task.await.unwrap();
        }
        let order = order.lock().unwrap();
        assert_eq!(order[..6], [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (1, 2)], "in turns: {order:?}");
        let flood: Vec<_> = order.iter().filter(|(caller, _)| *caller == 1).map(|(_, n)| *n).collect();
        assert_eq!(flood, (0..50).collect::<Vec<_>>(), "each in its own order");
    }

    #[tokio::test]
    async fn one_caller_leaves_places_to_the_others() {
        let slots = Slots::new(64);
        let mut held = Vec::new();
        for (caller, share) in [(1, 48), (2, 12), (3, 3), (4, 1)] {
            held.extend(std::iter::from_fn(|| slots.take_at_once(caller)));
            assert_eq!(slots.held_by(caller), share, "caller {caller}");
        }
        held.truncate(60);
        // One that waits for more than its share is no reason for another to wait.
        let greedy = slots.take(1);
        tokio::pin!(greedy);
        assert!(tokio::time::timeout(Duration::from_millis(5), &mut greedy).await.is_err());
        let other = slots.take(5).await;
        drop((held, other));
        drop(tokio::time::timeout(Duration::from_secs(5), greedy).await.expect("its turn comes"));
        assert_eq!((slots.taken(), slots.state().held.len()), (0, 0));
    }

    #[tokio::test]
    async fn whoever_left_costs_nobody_a_turn() {
        let slots = Slots::new(1);
        let held = slots.take(1).await;
        for caller in 0..100 {
            assert!(tokio::time::timeout(Duration::ZERO, slots.take(caller)).await.is_err());
        }
        drop(held);
        drop(slots.take(7).await);
        let state = slots.state();
        assert!(state.waiting.queues.is_empty() && state.waiting.turns.is_empty(), "nothing is kept");
    }
}
