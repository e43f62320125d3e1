//! Places for running calls: so many at a time, handed out in order of arrival, and a number that can change.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The places there are.
#[derive(Clone)]
pub(crate) struct Slots(Arc<Mutex<State>>);

struct State {
    most: usize,
    taken: usize,
    waiting: VecDeque<oneshot::Sender<Slot>>,
}

/// One place; given back when dropped, wherever that happens.
pub(crate) struct Slot(Slots);

impl Slots {
    pub(crate) fn new(most: usize) -> Self {
        Slots(Arc::new(Mutex::new(State { most, taken: 0, waiting: VecDeque::new() })))
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

    /// A place, once it is this caller's turn. A caller that stops waiting loses its turn and nothing else.
    pub(crate) async fn take(&self) -> Slot {
        let turn = {
            let (sender, turn) = oneshot::channel();
            self.state().waiting.push_back(sender);
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
            let sender = {
                let mut state = self.state();
                if state.taken >= state.most {
                    return;
                }
                let Some(sender) = state.waiting.pop_front() else { return };
                state.taken += 1;
                sender
            };
            // A caller that went away hands the place straight back by dropping it.
            let _ = sender.send(Slot(self.clone()));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is whole after every statement, so a panic elsewhere cannot have broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.state().taken -= 1;
        self.0.hand_out();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn must_wait(slots: &Slots) {
        let waited = tokio::time::timeout(Duration::from_millis(5), slots.take()).await;
        assert!(waited.is_err(), "there was a place");
    }

    #[tokio::test]
    async fn places_are_limited_and_come_back() {
        let slots = Slots::new(2);
        let (first, second) = (slots.take().await, slots.take().await);
        must_wait(&slots).await;
        assert_eq!(slots.taken(), 2, "who stopped waiting holds nothing");
        drop(first);
        let third = slots.take().await;
        drop((second, third));
        assert_eq!(slots.taken(), 0);
    }

    #[tokio::test]
    async fn the_number_changes_under_way() {
        let slots = Slots::new(3);
        let held: Vec<Slot> = vec![slots.take().await, slots.take().await, slots.take().await];
        slots.set_most(1);
        assert_eq!(slots.taken(), 3, "who runs keeps running");
        drop(held);
        let one = slots.take().await;
        must_wait(&slots).await;
        slots.set_most(2);
        drop((slots.take().await, one));
        slots.set_most(0);
        must_wait(&slots).await;
    }

    #[tokio::test]
    async fn turns_are_taken_in_order() {
        let slots = Slots::new(1);
        let held = slots.take().await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for n in 0..20 {
            let (slots, order) = (slots.clone(), Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                let _slot = slots.take().await;
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
}
