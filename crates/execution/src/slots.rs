//! Fair slots: a semaphore with a changeable capacity that is shared fairly between callers.
//!
//! Callers are served round-robin, and the calls of one caller in order of arrival, so a caller that sends
//! many calls delays another one by at most one turn. No caller can take all slots: a caller gets another
//! slot only while it holds fewer than `MAX_HELD_PER_FREE_SLOT` for each free one. One caller alone ends at
//! three quarters of the slots, a second caller at three quarters of the rest, and a caller that holds none
//! finds a free one.
//!
//! An eighth of the slots is reserved for short calls. Long calls of any number of callers cannot take these, so a
//! read does not wait for the end of a run.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tool::caller::CallerKey;

/// Number of slots a caller may hold for each slot that it leaves free.
const MAX_HELD_PER_FREE_SLOT: usize = 3;
/// One slot of this many is reserved for short calls.
const SLOTS_PER_RESERVED_SLOT: usize = 8;
/// Smallest capacity with a reserved slot.
const MIN_CAPACITY_WITH_RESERVE: usize = 4;

/// Expected duration of a call, which decides the slots it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallLength {
    /// Works in this process on local data: milliseconds.
    Short,
    /// Starts a process, waits for another machine or makes calls of its own: up to its timeout.
    Long,
}

/// Slots shared by all callers.
#[derive(Clone)]
pub(crate) struct FairSlots(Arc<Mutex<SlotState>>);

struct SlotState {
    capacity: usize,
    in_use: usize,
    /// Number of slots that long calls hold.
    held_by_long_calls: usize,
    /// Number of slots per caller, for callers that hold any.
    held_by_caller: BTreeMap<CallerKey, usize>,
    short_calls: WaitQueue,
    long_calls: WaitQueue,
}

/// Waiting calls of one length: a queue for each caller with waiting calls, and the callers in the order in which they are
/// served.
#[derive(Default)]
struct WaitQueue {
    queues: BTreeMap<CallerKey, VecDeque<oneshot::Sender<Slot>>>,
    waiting_callers: VecDeque<CallerKey>,
}

/// One slot, released when dropped.
pub(crate) struct Slot {
    slots: FairSlots,
    caller: CallerKey,
    length: CallLength,
}

impl SlotState {
    fn held_by(&self, caller: &CallerKey) -> usize {
        self.held_by_caller.get(caller).copied().unwrap_or(0)
    }

    /// Number of free slots that a call of this length may take.
    fn free_for(&self, length: CallLength) -> usize {
        let free = self.capacity.saturating_sub(self.in_use);
        match length {
            CallLength::Short => free,
            CallLength::Long => {
                let for_long = self.capacity.saturating_sub(reserved_of(self.capacity));
                free.min(for_long.saturating_sub(self.held_by_long_calls))
            }
        }
    }

    /// Returns true if a slot is free and the caller is within its share.
    fn has_slot_for(&self, caller: &CallerKey, length: CallLength) -> bool {
        self.held_by(caller) < self.free_for(length).saturating_mul(MAX_HELD_PER_FREE_SLOT)
            || (length == CallLength::Short && self.has_reserved_slot())
    }

    /// Returns true if a reserved slot is free. A caller whose long calls used up its share may take it for a short
    /// call, which ends within milliseconds.
    fn has_reserved_slot(&self) -> bool {
        let reserved = reserved_of(self.capacity);
        let short_in_use = self.in_use.saturating_sub(self.held_by_long_calls);
        self.in_use < self.capacity && short_in_use < reserved
    }

    fn wait_queue(&mut self, length: CallLength) -> &mut WaitQueue {
        match length {
            CallLength::Short => &mut self.short_calls,
            CallLength::Long => &mut self.long_calls,
        }
    }

    fn is_any_waiting(&self) -> bool {
        !self.short_calls.waiting_callers.is_empty() || !self.long_calls.waiting_callers.is_empty()
    }

    fn grant(&mut self, caller: &CallerKey, length: CallLength) {
        self.in_use += 1;
        self.held_by_long_calls += usize::from(length == CallLength::Long);
        match self.held_by_caller.get_mut(caller) {
            Some(held) => *held += 1,
            None => drop(self.held_by_caller.insert(*caller, 1)),
        }
    }

    fn release(&mut self, caller: &CallerKey, length: CallLength) {
        self.in_use -= 1;
        self.held_by_long_calls -= usize::from(length == CallLength::Long);
        match self.held_by_caller.get_mut(caller) {
            Some(occupied) if *occupied > 1 => *occupied -= 1,
            _ => drop(self.held_by_caller.remove(caller)),
        }
    }

    /// Returns the next waiter that is still waiting and within its share; short calls come first. Callers over their
    /// share keep their position.
    fn next_waiter(&mut self) -> Option<(CallerKey, CallLength, oneshot::Sender<Slot>)> {
        let next = |state: &mut Self, length| {
            state.next_waiter_of(length).map(|(caller, sender)| (caller, length, sender))
        };
        next(self, CallLength::Short).or_else(|| next(self, CallLength::Long))
    }

    fn next_waiter_of(&mut self, length: CallLength) -> Option<(CallerKey, oneshot::Sender<Slot>)> {
        let mut over_their_share = Vec::new();
        let mut found = None;
        while found.is_none()
            && let Some(caller) = self.wait_queue(length).waiting_callers.pop_front()
        {
            if self.has_slot_for(&caller, length) {
                found = self.wait_queue(length).next_waiter_of(&caller).map(|sender| (caller, sender));
            } else {
                over_their_share.push(caller);
            }
        }
        let waiting = &mut self.wait_queue(length).waiting_callers;
        over_their_share.into_iter().rev().for_each(|caller| waiting.push_front(caller));
        found
    }
}

/// Number of slots that only short calls may take.
fn reserved_of(capacity: usize) -> usize {
    if capacity < MIN_CAPACITY_WITH_RESERVE { 0 } else { (capacity / SLOTS_PER_RESERVED_SLOT).max(1) }
}

impl WaitQueue {
    fn add(&mut self, caller: &CallerKey, sender: oneshot::Sender<Slot>) {
        let queue = self.queues.entry(*caller).or_default();
        if queue.is_empty() {
            self.waiting_callers.push_back(*caller);
        }
        queue.push_back(sender);
    }

    /// Returns the caller's first waiter that is still waiting, and moves the caller to the end of the turns.
    fn next_waiter_of(&mut self, caller: &CallerKey) -> Option<oneshot::Sender<Slot>> {
        let queue = self.queues.get_mut(caller)?;
        let sender = std::iter::from_fn(|| queue.pop_front()).find(|sender| !sender.is_closed());
        if queue.is_empty() {
            self.queues.remove(caller);
        } else {
            self.waiting_callers.push_back(*caller);
        }
        sender
    }
}

impl FairSlots {
    pub(crate) fn new(max: usize) -> Self {
        FairSlots(Arc::new(Mutex::new(SlotState {
            capacity: max,
            in_use: 0,
            held_by_long_calls: 0,
            held_by_caller: BTreeMap::new(),
            short_calls: WaitQueue::default(),
            long_calls: WaitQueue::default(),
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
    pub(crate) fn set_capacity(&self, max: usize) {
        self.state().capacity = max;
        self.grant_waiting();
    }

    /// Number of slots that this caller holds.
    pub(crate) fn held_by(&self, caller: &CallerKey) -> usize {
        self.state().held_by(caller)
    }

    /// Returns a slot if one is free for this caller and no call of this length is waiting.
    pub(crate) fn try_acquire(&self, caller: &CallerKey, length: CallLength) -> Option<Slot> {
        let mut state = self.state();
        if !state.has_slot_for(caller, length) || !state.wait_queue(length).waiting_callers.is_empty() {
            return None;
        }
        state.grant(caller, length);
        drop(state);
        Some(self.slot(*caller, length))
    }

    /// Returns a slot in addition to the idle one that this caller's tool holds, even beyond the capacity.
    /// Waiting could deadlock: the holders of the other slots may wait in the same way.
    pub(crate) fn acquire_over_capacity(&self, caller: &CallerKey, length: CallLength) -> Slot {
        self.state().grant(caller, length);
        self.slot(*caller, length)
    }

    /// Waits for a slot in the caller's turn. A dropped wait loses only its turn.
    pub(crate) async fn acquire(&self, caller: &CallerKey, length: CallLength) -> Slot {
        if let Some(slot) = self.try_acquire(caller, length) {
            return slot;
        }
        let granted = {
            let (sender, granted) = oneshot::channel();
            self.state().wait_queue(length).add(caller, sender);
            granted
        };
        self.grant_waiting();
        match granted.await {
            Ok(slot) => slot,
            // Senders are dropped only with the state, which `self` keeps alive.
            Err(_) => std::future::pending().await,
        }
    }

    fn slot(&self, caller: CallerKey, length: CallLength) -> Slot {
        Slot { slots: self.clone(), caller, length }
    }

    fn grant_waiting(&self) {
        loop {
            let (caller, length, sender) = {
                let mut state = self.state();
                let Some((caller, length, sender)) = state.next_waiter() else { return };
                state.grant(&caller, length);
                (caller, length, sender)
            };
            // If the receiver is gone, the returned slot is dropped and thereby released.
            let _ = sender.send(self.slot(caller, length));
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
        state.release(&self.caller, self.length);
        // Normally no call is waiting, and the lock is taken only once.
        let is_wanted = state.is_any_waiting();
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

    fn caller(pid: i32) -> CallerKey {
        CallerKey::of_pid(pid)
    }

    fn acquire(slots: &FairSlots, pid: i32) -> impl Future<Output = Slot> {
        let slots = slots.clone();
        async move { slots.acquire(&caller(pid), CallLength::Short).await }
    }

    async fn must_wait(slots: &FairSlots) {
        let waited = tokio::time::timeout(Duration::from_millis(5), acquire(slots, 1)).await;
        assert!(waited.is_err(), "a slot was free");
    }

    #[tokio::test]
    async fn slots_are_limited_and_released_on_drop() {
        let slots = FairSlots::new(2);
        let (first, second) = (acquire(&slots, 1).await, acquire(&slots, 1).await);
        must_wait(&slots).await;
        assert_eq!(slots.in_use(), 2, "an abandoned wait holds no slot");
        drop(first);
        let third = acquire(&slots, 1).await;
        drop((second, third));
        assert_eq!(slots.in_use(), 0);
    }

    #[tokio::test]
    async fn capacity_can_change_while_slots_are_held() {
        let slots = FairSlots::new(3);
        let occupied: Vec<Slot> =
            vec![acquire(&slots, 1).await, acquire(&slots, 1).await, acquire(&slots, 1).await];
        slots.set_capacity(1);
        assert_eq!(slots.in_use(), 3, "holders keep their slots");
        drop(occupied);
        let one = acquire(&slots, 1).await;
        must_wait(&slots).await;
        slots.set_capacity(2);
        drop((acquire(&slots, 1).await, one));
        slots.set_capacity(0);
        must_wait(&slots).await;
    }

    #[tokio::test]
    async fn waiters_of_one_caller_are_served_in_order() {
        let slots = FairSlots::new(1);
        let occupied = acquire(&slots, 1).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for n in 0..20 {
            let (slots, order) = (slots.clone(), Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                let _slot = acquire(&slots, 1).await;
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
        let occupied = acquire(&slots, 1).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        // A flood from one caller, then single calls from two others.
        for (pid, n) in (0..50).map(|n| (1, n)).chain([(2, 0), (3, 0), (2, 1)]) {
            let (slots, order) = (slots.clone(), Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                let _slot = acquire(&slots, pid).await;
                order.lock().unwrap().push((pid, n));
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
        for (pid, share) in [(1, 48), (2, 12), (3, 3), (4, 1)] {
            occupied.extend(std::iter::from_fn(|| slots.try_acquire(&caller(pid), CallLength::Short)));
            assert_eq!(slots.held_by(&caller(pid)), share, "caller {pid}");
        }
        occupied.truncate(60);
        // A caller that waits for more than its share must not delay another one.
        let greedy = acquire(&slots, 1);
        tokio::pin!(greedy);
        assert!(tokio::time::timeout(Duration::from_millis(5), &mut greedy).await.is_err());
        let other = acquire(&slots, 5).await;
        drop((occupied, other));
        drop(tokio::time::timeout(Duration::from_secs(5), greedy).await.expect("its turn comes"));
        assert_eq!((slots.in_use(), slots.state().held_by_caller.len()), (0, 0));
    }

    #[tokio::test]
    async fn abandoned_wait_does_not_block_the_queue() {
        let slots = FairSlots::new(1);
        let occupied = acquire(&slots, 1).await;
        for pid in 0..100 {
            assert!(tokio::time::timeout(Duration::ZERO, acquire(&slots, pid)).await.is_err());
        }
        drop(occupied);
        drop(acquire(&slots, 7).await);
        let state = slots.state();
        assert!(state.short_calls.queues.is_empty() && !state.is_any_waiting(), "the wait queue is empty");
    }
    #[tokio::test]
    async fn long_calls_leave_slots_for_short_ones() {
        let slots = FairSlots::new(64);
        let long = |pid| {
            std::iter::from_fn(move || Some(pid))
                .map_while(|pid| slots.try_acquire(&caller(pid), CallLength::Long))
        };
        let occupied: Vec<Slot> = (1..20).flat_map(long).collect();
        assert_eq!(occupied.len(), 56, "whatever the number of callers");
        // One of them waits for another slot, which must not delay a short call.
        let greedy = caller(1);
        let waiting = slots.acquire(&greedy, CallLength::Long);
        tokio::pin!(waiting);
        assert!(tokio::time::timeout(Duration::from_millis(5), &mut waiting).await.is_err());
        for pid in [1, 2, 99] {
            assert!(slots.try_acquire(&caller(pid), CallLength::Short).is_some(), "caller {pid}");
        }
        drop(occupied);
        drop(tokio::time::timeout(Duration::from_secs(5), waiting).await.expect("its turn comes"));
        let state = slots.state();
        assert_eq!((state.in_use, state.held_by_long_calls), (0, 0));
    }

    #[test]
    fn small_capacities_have_no_reserve() {
        for (capacity, expect) in [(0, 0), (1, 0), (3, 0), (4, 1), (15, 1), (16, 2), (64, 8), (256, 32)] {
            assert_eq!(reserved_of(capacity), expect, "{capacity}");
        }
    }
}
