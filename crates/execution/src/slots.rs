//! Fair slots: a semaphore with a changeable capacity that is shared fairly between callers.
//!
//! Callers are served round-robin, and the calls of one caller in order of arrival, so a caller that sends
//! many calls delays another one by at most one turn. No caller can take all slots: a caller gets another
//! slot only while it holds fewer than `MAX_HELD_PER_FREE_SLOT` for each free one. One caller alone ends at
//! three quarters of the slots, a second caller at three quarters of the rest, and a caller that holds none
//! finds a free one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Number of slots a caller may hold for each slot that it leaves free.
const MAX_HELD_PER_FREE_SLOT: usize = 3;

/// Slots shared by all callers.
#[derive(Clone)]
pub(crate) struct FairSlots(Arc<Mutex<SlotState>>);

struct SlotState {
    capacity: usize,
    in_use: usize,
    /// Number of slots per caller, for callers that hold any.
    held_by_caller: BTreeMap<u64, usize>,
    wait_queue: WaitQueue,
}

/// Waiting calls: a queue for each caller with waiting calls, and the callers in the order of their turns.
#[derive(Default)]
struct WaitQueue {
    queues: BTreeMap<u64, VecDeque<oneshot::Sender<Slot>>>,
    caller_turns: VecDeque<u64>,
}

/// One slot, released when dropped.
pub(crate) struct Slot {
    slots: FairSlots,
    caller: u64,
}

impl SlotState {
    fn held_by(&self, caller: u64) -> usize {
        self.held_by_caller.get(&caller).copied().unwrap_or(0)
    }

    /// Returns true if a slot is free and the caller is within its share.
    fn has_slot_for(&self, caller: u64) -> bool {
        let free = self.capacity.saturating_sub(self.in_use);
        self.held_by(caller) < free.saturating_mul(MAX_HELD_PER_FREE_SLOT)
    }

    fn grant(&mut self, caller: u64) {
        self.in_use += 1;
        *self.held_by_caller.entry(caller).or_default() += 1;
    }

    fn release(&mut self, caller: u64) {
        self.in_use -= 1;
        match self.held_by_caller.get_mut(&caller) {
            Some(occupied) if *occupied > 1 => *occupied -= 1,
            _ => drop(self.held_by_caller.remove(&caller)),
        }
    }

    /// Returns the next waiter that is still waiting and within its share. Callers over their share keep
    /// their turns.
    fn next_waiter(&mut self) -> Option<(u64, oneshot::Sender<Slot>)> {
        let mut over_their_share = Vec::new();
        let mut found = None;
        while found.is_none()
            && let Some(caller) = self.wait_queue.caller_turns.pop_front()
        {
            if self.has_slot_for(caller) {
                found = self.wait_queue.next_waiter_of(caller).map(|sender| (caller, sender));
            } else {
                over_their_share.push(caller);
            }
        }
        over_their_share.into_iter().rev().for_each(|caller| self.wait_queue.caller_turns.push_front(caller));
        found
    }
}

impl WaitQueue {
    fn add(&mut self, caller: u64, sender: oneshot::Sender<Slot>) {
        let queue = self.queues.entry(caller).or_default();
        if queue.is_empty() {
            self.caller_turns.push_back(caller);
        }
        queue.push_back(sender);
    }

    /// Returns the caller's first waiter that is still waiting, and moves the caller to the end of the turns.
    fn next_waiter_of(&mut self, caller: u64) -> Option<oneshot::Sender<Slot>> {
        let queue = self.queues.get_mut(&caller)?;
        let sender = std::iter::from_fn(|| queue.pop_front()).find(|sender| !sender.is_closed());
        if queue.is_empty() {
            self.queues.remove(&caller);
        } else {
            self.caller_turns.push_back(caller);
        }
        sender
    }
}

impl FairSlots {
    pub(crate) fn new(most: usize) -> Self {
        FairSlots(Arc::new(Mutex::new(SlotState {
            capacity: most,
            in_use: 0,
            held_by_caller: BTreeMap::new(),
            wait_queue: WaitQueue::default(),
        })))
    }

    /// Number of slots in use.
    pub(crate) fn in_use(&self) -> usize {
        self.state().in_use
    }

    /// Number of slots.
    pub(crate) fn capacity(&self) -> usize {
        self.state().capacity
    }

    /// Changes the number of slots. Holders keep their slots; a lower capacity takes effect as slots are
    /// released.
    pub(crate) fn set_capacity(&self, most: usize) {
        self.state().capacity = most;
        self.grant_waiting();
    }

    /// Number of slots that this caller holds.
    pub(crate) fn held_by(&self, caller: u64) -> usize {
        self.state().held_by(caller)
    }

    /// Returns a slot if one is free for this caller and no call is waiting.
    pub(crate) fn try_acquire(&self, caller: u64) -> Option<Slot> {
        let mut state = self.state();
        if !state.has_slot_for(caller) || !state.wait_queue.caller_turns.is_empty() {
            return None;
        }
        state.grant(caller);
        Some(Slot { slots: self.clone(), caller })
    }

    /// Returns a slot in addition to the idle one that this caller's tool holds, even beyond the capacity.
    /// Waiting could deadlock: the holders of the other slots may wait in the same way.
    pub(crate) fn acquire_over_capacity(&self, caller: u64) -> Slot {
        self.state().grant(caller);
        Slot { slots: self.clone(), caller }
    }

    /// Waits for a slot in the caller's turn. A dropped wait loses only its turn.
    pub(crate) async fn acquire(&self, caller: u64) -> Slot {
        if let Some(slot) = self.try_acquire(caller) {
            return slot;
        }
        let turn = {
            let (sender, turn) = oneshot::channel();
            self.state().wait_queue.add(caller, sender);
            turn
        };
        self.grant_waiting();
        match turn.await {
            Ok(slot) => slot,
            // Senders are dropped only with the state, which `self` keeps alive.
            Err(_) => std::future::pending().await,
        }
    }

    fn grant_waiting(&self) {
        loop {
            let (caller, sender) = {
                let mut state = self.state();
                let Some((caller, sender)) = state.next_waiter() else { return };
                state.grant(caller);
                (caller, sender)
            };
            // If the receiver is gone, the returned slot is dropped and thereby released.
            let _ = sender.send(Slot { slots: self.clone(), caller });
        }
    }

    fn state(&self) -> MutexGuard<'_, SlotState> {
        // The state is consistent after every statement, so a panic elsewhere cannot have broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.state();
        state.release(self.caller);
        // Normally no call is waiting, and the lock is taken only once.
        let is_wanted = !state.wait_queue.caller_turns.is_empty();
        drop(state);
        if is_wanted {
            self.slots.grant_waiting();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn must_wait(slots: &FairSlots) {
        let waited = tokio::time::timeout(Duration::from_millis(5), slots.acquire(1)).await;
        assert!(waited.is_err(), "a slot was free");
    }

    #[tokio::test]
    async fn slots_are_limited_and_released_on_drop() {
        let slots = FairSlots::new(2);
        let (first, second) = (slots.acquire(1).await, slots.acquire(1).await);
        must_wait(&slots).await;
        assert_eq!(slots.in_use(), 2, "an abandoned wait holds no slot");
        drop(first);
        let third = slots.acquire(1).await;
        drop((second, third));
        assert_eq!(slots.in_use(), 0);
    }

    #[tokio::test]
    async fn capacity_can_change_while_slots_are_held() {
        let slots = FairSlots::new(3);
        let occupied: Vec<Slot> =
            vec![slots.acquire(1).await, slots.acquire(1).await, slots.acquire(1).await];
        slots.set_capacity(1);
        assert_eq!(slots.in_use(), 3, "holders keep their slots");
        drop(occupied);
        let one = slots.acquire(1).await;
        must_wait(&slots).await;
        slots.set_capacity(2);
        drop((slots.acquire(1).await, one));
        slots.set_capacity(0);
        must_wait(&slots).await;
    }

    #[tokio::test]
    async fn waiters_of_one_caller_are_served_in_order() {
        let slots = FairSlots::new(1);
        let occupied = slots.acquire(1).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for n in 0..20 {
            let (slots, order) = (slots.clone(), Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                let _slot = slots.acquire(1).await;
                order.lock().unwrap().push(n);
            }));
            tokio::task::yield_now().await;
        }
        drop(occupied);
        for task in waiting {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn one_caller_cannot_starve_another() {
        let slots = FairSlots::new(1);
        let occupied = slots.acquire(1).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        // A flood from one caller, then single calls from two others.
        for (caller, n) in (0..50).map(|n| (1, n)).chain([(2, 0), (3, 0), (2, 1)]) {
            let (slots, order) = (slots.clone(), Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                let _slot = slots.acquire(caller).await;
                order.lock().unwrap().push((caller, n));
            }));
            tokio::task::yield_now().await;
        }
        drop(occupied);
        for task in waiting {
            task.await.unwrap();
        }
        let order = order.lock().unwrap();
        assert_eq!(order[..6], [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (1, 2)], "in turns: {order:?}");
        let flood: Vec<_> = order.iter().filter(|(caller, _)| *caller == 1).map(|(_, n)| *n).collect();
        assert_eq!(flood, (0..50).collect::<Vec<_>>(), "each in its own order");
    }

    #[tokio::test]
    async fn one_caller_cannot_take_all_slots() {
        let slots = FairSlots::new(64);
        let mut occupied = Vec::new();
        for (caller, share) in [(1, 48), (2, 12), (3, 3), (4, 1)] {
            occupied.extend(std::iter::from_fn(|| slots.try_acquire(caller)));
            assert_eq!(slots.held_by(caller), share, "caller {caller}");
        }
        occupied.truncate(60);
        // A caller that waits for more than its share must not delay another one.
        let greedy = slots.acquire(1);
        tokio::pin!(greedy);
        assert!(tokio::time::timeout(Duration::from_millis(5), &mut greedy).await.is_err());
        let other = slots.acquire(5).await;
        drop((occupied, other));
        drop(tokio::time::timeout(Duration::from_secs(5), greedy).await.expect("its turn comes"));
        assert_eq!((slots.in_use(), slots.state().held_by_caller.len()), (0, 0));
    }

    #[tokio::test]
    async fn abandoned_wait_does_not_block_the_queue() {
        let slots = FairSlots::new(1);
        let occupied = slots.acquire(1).await;
        for caller in 0..100 {
            assert!(tokio::time::timeout(Duration::ZERO, slots.acquire(caller)).await.is_err());
        }
        drop(occupied);
        drop(slots.acquire(7).await);
        let state = slots.state();
        assert!(
            state.wait_queue.queues.is_empty() && state.wait_queue.caller_turns.is_empty(),
            "the wait queue is empty"
        );
    }
}
