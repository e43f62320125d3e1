//! Slots of requests: the processor time of the daemon is shared fairly between callers.
//!
//! A request computes only while it holds a slot, except for the one poll in which its idle timer ends. Callers
//! with waiting requests are served round-robin, and one caller cannot take all slots, so a caller with many
//! connections and many open requests delays another one by a few short steps. A request that waits for long, such
//! as for a process, a decision or a client that reads slowly, returns its slot.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};
use tool::caller::CallerKey;

use crate::slots::{CallLength, FairSlots, Slot};

/// Slots for each processor. More than one, because a request keeps its slot while it waits for a file.
const SLOTS_PER_PROCESSOR: usize = 8;
/// Smallest number of slots.
const MIN_SLOTS: usize = 16;
/// Time that a request may wait before it returns its slot. A slot returned at every wait would not bound the steps
/// that are ready to run, which is what other callers wait for.
const MAX_IDLE: Duration = Duration::from_millis(1);

/// Slots of all requests of agents. Clones share them.
#[derive(Clone)]
pub struct RequestSlots(FairSlots);

/// Wait for a slot that was not free at once.
type SlotWait = Pin<Box<dyn Future<Output = Slot> + Send>>;

impl Default for RequestSlots {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        RequestSlots(FairSlots::new((processors * SLOTS_PER_PROCESSOR).max(MIN_SLOTS)))
    }
}

impl RequestSlots {
    /// Runs `work` while it holds a slot of its caller.
    pub async fn run<T>(&self, caller: CallerKey, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let (mut slot, mut waiting, mut idle) = (None, None, None);
        poll_fn(|context| {
            if slot.is_some() && has_elapsed(&mut idle, context) {
                slot = None;
                // Most likely only the timer woke this task, so that the step is empty and needs no slot.
                return work.as_mut().poll(context);
            }
            if slot.is_none() {
                slot = Some(ready!(self.poll_slot(caller, &mut waiting, context)));
            }
            let step = work.as_mut().poll(context);
            if step.is_pending() {
                start_timer(&mut idle, context);
            }
            step
        })
        .await
    }

    /// Takes every slot that a caller can have.
    #[cfg(test)]
    pub(crate) fn occupy(&self, caller: CallerKey) -> Vec<Slot> {
        std::iter::from_fn(|| self.0.try_acquire(&caller, CallLength::Short)).collect()
    }

    fn poll_slot(
        &self,
        caller: CallerKey,
        waiting: &mut Option<SlotWait>,
        context: &mut Context<'_>,
    ) -> Poll<Slot> {
        if waiting.is_none()
            && let Some(slot) = self.0.try_acquire(&caller, CallLength::Short)
        {
            return Poll::Ready(slot);
        }
        let slots = self.0.clone();
        let wait = waiting
            .get_or_insert_with(|| Box::pin(async move { slots.acquire(&caller, CallLength::Short).await }));
        let slot = ready!(wait.as_mut().poll(context));
        *waiting = None;
        Poll::Ready(slot)
    }
}

/// Timer of a request that waits; created at its first wait.
type IdleTimer = Option<Pin<Box<Sleep>>>;

fn has_elapsed(idle: &mut IdleTimer, context: &mut Context<'_>) -> bool {
    idle.as_mut().is_some_and(|timer| timer.as_mut().poll(context).is_ready())
}

fn start_timer(idle: &mut IdleTimer, context: &mut Context<'_>) {
    let timer = idle.get_or_insert_with(|| Box::pin(tokio::time::sleep(MAX_IDLE)));
    timer.as_mut().reset(Instant::now() + MAX_IDLE);
    // Registers the task. The time cannot have passed yet.
    let _ = timer.as_mut().poll(context);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test]
    async fn flood_of_one_caller_does_not_delay_another() {
        let (slots, order) = (RequestSlots(FairSlots::new(1)), Arc::new(Mutex::new(Vec::new())));
        let step = |caller: i32, steps: usize| {
            let (slots, order) = (slots.clone(), Arc::clone(&order));
            tokio::spawn(async move {
                let work = async {
                    for _ in 0..steps {
                        order.lock().unwrap().push(caller);
                        tokio::task::yield_now().await;
                    }
                };
                slots.run(CallerKey::of_pid(caller), work).await;
            })
        };
        let mut tasks: Vec<_> = (0..64).map(|_| step(1, 3)).collect();
        tasks.push(step(2, 3));
        for task in tasks {
            task.await.unwrap();
        }
        let order = order.lock().unwrap();
        assert_eq!(order.len(), 65 * 3);
        let last = order.iter().rposition(|caller| *caller == 2).unwrap();
        assert!(last < 20, "its third step came after {last} others: {order:?}");
    }

    #[tokio::test]
    async fn request_that_waits_for_long_holds_no_slot() {
        let slots = RequestSlots(FairSlots::new(1));
        let (polls, woken) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
        let waiting = tokio::spawn({
            let (slots, polls, woken) = (slots.clone(), Arc::clone(&polls), Arc::clone(&woken));
            async move {
                let work = async {
                    polls.fetch_add(1, Ordering::Relaxed);
                    woken.notified().await;
                    slots.0.in_use()
                };
                slots.run(CallerKey::User(1), work).await
            }
        });
        tokio::task::yield_now().await;
        assert_eq!(
            (polls.load(Ordering::Relaxed), slots.0.in_use()),
            (1, 1),
            "it keeps its slot for a moment"
        );
        assert_eq!(slots.run(CallerKey::User(1), async { 7 }).await, 7, "the same caller goes on after that");
        let is_free = async {
            while slots.0.in_use() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(MAX_IDLE * 1000, is_free).await.expect("it gave its slot back");
        woken.notify_one();
        assert_eq!(waiting.await.unwrap(), 1, "it goes on in a slot");
        assert_eq!(slots.0.in_use(), 0);
    }
}
