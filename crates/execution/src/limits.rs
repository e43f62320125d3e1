//! Rate windows and running places. Counting and reserving happen under one lock, so that a burst cannot overshoot.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use governance::{Counts, Permit};
use ledger::Recovery;
use tool::{Refusal, RefusalCode, ToolName};

use crate::call::Call;
use crate::slots::{Slot, Slots};

const HOUR: Duration = Duration::from_secs(60 * 60);
const MINUTE: Duration = Duration::from_secs(60);
/// How long a call waits for a running place when the caller set no deadline.
const LONGEST_QUEUE: Duration = Duration::from_secs(30);

/// What has been run lately, and what is running.
pub(crate) struct Limits {
    windows: Mutex<Windows>,
    slots: Slots,
}

#[derive(Default)]
struct Windows {
    by_tool: HashMap<ToolName, VecDeque<Instant>>,
    all: VecDeque<Instant>,
}

impl Limits {
    /// Limits with this many places, and in the windows what a previous life ran.
    pub(crate) fn restore(places: usize, recovery: &Recovery) -> Self {
        let mut windows = Windows::default();
        let now = Instant::now();
        let mut times: Vec<(Instant, ToolName)> =
            executed(recovery).filter_map(|(tool, ago)| Some((now.checked_sub(ago)?, tool))).collect();
        times.sort_unstable();
        for (at, tool) in times {
            windows.note(&tool, at);
        }
        Limits { windows: Mutex::new(windows), slots: Slots::new(places) }
    }

    /// How often this tool ran in the last hour, and anything ran in the last minute.
    pub(crate) fn counts(&self, tool: &ToolName) -> Counts {
        self.windows().counts(tool, Instant::now())
    }

    /// How often anything ran in the last minute.
    pub(crate) fn counts_of_all(&self) -> Counts {
        let mut windows = self.windows();
        Counts { tool_last_hour: 0, all_last_minute: slide(&mut windows.all, Instant::now(), MINUTE) }
    }

    /// How many calls are running.
    pub(crate) fn running(&self) -> usize {
        self.slots.taken()
    }

    /// Changes how many may run at once.
    pub(crate) fn set_places(&self, places: usize) {
        self.slots.set_most(places);
    }

    /// Waits for a running place, in order of arrival.
    pub(crate) async fn place(&self, call: &Call) -> Result<Slot, Box<Refusal>> {
        tokio::time::timeout(LONGEST_QUEUE, self.slots.take()).await.map_err(|_| {
            let reason = format!("all {} running places are taken", self.slots.most());
            let refusal = Refusal::new(&call.tool_name, RefusalCode::Busy, reason);
            Box::new(refusal.hint("try again when other calls have ended"))
        })
    }

    /// Counts a call against its rates, after asking its permit again with the counts of this very moment.
    pub(crate) fn count(&self, permit: &Permit) -> Result<(), Box<Refusal>> {
        let tool = permit.call().definition().name();
        let mut windows = self.windows();
        let now = Instant::now();
        permit.within_rates(windows.counts(tool, now)).map_err(Box::<Refusal>::from)?;
        windows.note(tool, now);
        Ok(())
    }

    /// Takes back the count of a call that was not run after all: refused calls use nothing up.
    pub(crate) fn uncount(&self, tool: &ToolName) {
        let mut windows = self.windows();
        windows.all.pop_back();
        windows.by_tool.get_mut(tool).and_then(VecDeque::pop_back);
    }

    fn windows(&self) -> MutexGuard<'_, Windows> {
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

/// What a previous life ran within the last hour, and how long ago.
fn executed(recovery: &Recovery) -> impl Iterator<Item = (ToolName, Duration)> {
    let now = SystemTime::now();
    recovery.executed.iter().flat_map(move |executed| {
        let tool = ToolName::new(&executed.tool).ok();
        executed.slots.iter().flat_map(move |(end, count)| {
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(*end).unwrap_or(0));
            // A clock that was set back must not refill a window: the future counts as now.
            let ago = now.duration_since(at).unwrap_or(Duration::ZERO);
            let calls = usize::try_from(*count).unwrap_or(usize::MAX);
            tool.clone().into_iter().flat_map(move |tool| std::iter::repeat_n((tool, ago), calls))
        })
    })
}
