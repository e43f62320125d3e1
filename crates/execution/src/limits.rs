//! Rate windows and running slots. Counting and reserving happen under one lock, so that a burst cannot overshoot.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use governance::{Counts, Permit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tool::{Refusal, RefusalCode, ToolName};

use crate::call::Call;

const HOUR: Duration = Duration::from_secs(60 * 60);
const MINUTE: Duration = Duration::from_secs(60);
/// How long a call waits for a running slot when the caller set no deadline.
const LONGEST_QUEUE: Duration = Duration::from_secs(30);

/// What has been run lately, and what is running.
pub(crate) struct Limits {
    windows: Mutex<Windows>,
    slots: Arc<Semaphore>,
    most_running: usize,
}

#[derive(Default)]
struct Windows {
    by_tool: HashMap<ToolName, VecDeque<Instant>>,
    all: VecDeque<Instant>,
}

/// A place among the running calls; given back when dropped.
pub(crate) struct Slot {
    _place: OwnedSemaphorePermit,
}

impl Limits {
    /// Limits with the given number of slots, and the executions a previous life left in the windows.
    pub(crate) fn restore(
        most_running: usize,
        executed: impl IntoIterator<Item = (ToolName, Duration)>,
    ) -> Self {
        let mut windows = Windows::default();
        let now = Instant::now();
        let mut times: Vec<(Instant, ToolName)> =
            executed.into_iter().filter_map(|(tool, ago)| Some((now.checked_sub(ago)?, tool))).collect();
        times.sort_unstable();
        for (at, tool) in times {
            windows.note(&tool, at);
        }
        Limits { windows: Mutex::new(windows), slots: Arc::new(Semaphore::new(most_running)), most_running }
    }

    /// How often this tool ran in the last hour, and anything ran in the last minute.
    pub(crate) fn counts(&self, tool: &ToolName) -> Counts {
        self.windows().counts(tool, Instant::now())
    }

    /// How many calls are running.
    pub(crate) fn running(&self) -> usize {
        self.most_running.saturating_sub(self.slots.available_permits())
    }

    /// Waits for a running slot, in order of arrival, then counts the call against its rates; the permit is asked
    /// again with the counts of this very moment.
    pub(crate) async fn reserve(&self, call: &Call, permit: &Permit) -> Result<Slot, Box<Refusal>> {
        let waiting = Arc::clone(&self.slots).acquire_owned();
        let place = tokio::time::timeout(call.time_left(LONGEST_QUEUE), waiting).await;
        let Ok(Ok(place)) = place else {
            let reason = format!("all {} running slots are taken", self.most_running);
            let refusal = Refusal::new(&call.tool_name, RefusalCode::Busy, reason);
            return Err(Box::new(refusal.hint("try again when other calls have ended")));
        };
        let tool = permit.call().definition().name();
        let mut windows = self.windows();
        let now = Instant::now();
        permit.within_rates(windows.counts(tool, now)).map_err(Box::<Refusal>::from)?;
        windows.note(tool, now);
        Ok(Slot { _place: place })
    }

    fn windows(&self) -> std::sync::MutexGuard<'_, Windows> {
        // The windows are whole after every statement, so a panic elsewhere cannot have broken them.
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Windows {
    fn counts(&mut self, tool: &ToolName, now: Instant) -> Counts {
        let by_tool = self.by_tool.get_mut(tool).map_or(0, |window| slide(window, now, HOUR));
        Counts { tool_last_hour: by_tool, all_last_minute: slide(&mut self.all, now, MINUTE) }
    }

    fn note(&mut self, tool: &ToolName, at: Instant) {
        self.by_tool.entry(tool.clone()).or_default().push_back(at);
        self.all.push_back(at);
    }
}

/// Forgets what has left the window and counts the rest.
fn slide(window: &mut VecDeque<Instant>, now: Instant, width: Duration) -> u32 {
    while window.front().is_some_and(|at| now.saturating_duration_since(*at) >= width) {
        window.pop_front();
    }
    u32::try_from(window.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_slides_and_survives_a_restart() {
        let tool = ToolName::new("t").unwrap();
        let minutes = |n: u64| Duration::from_secs(60 * n);
        let executed = [0, 59, 61].map(|ago| (tool.clone(), minutes(ago)));
        let limits = Limits::restore(4, executed);
        assert_eq!(limits.counts(&tool), Counts { tool_last_hour: 2, all_last_minute: 1 });
        let other = ToolName::new("other").unwrap();
        assert_eq!(limits.counts(&other), Counts { tool_last_hour: 0, all_last_minute: 1 });
    }
}
