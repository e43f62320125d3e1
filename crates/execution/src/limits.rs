//! Rate windows and run slots. Checking and counting happen under one lock, so a burst cannot exceed a limit.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use governance::{Counts, Denial, Permit};
use ledger::Recovery;
use tool::{Refusal, RefusalCode, ToolName};

use crate::call::{Call, MadeBy};
use crate::recorder;
use crate::slots::{Slot, Slots};

const HOUR: Duration = Duration::from_secs(60 * 60);
const MINUTE: Duration = Duration::from_secs(60);
/// Longest wait for a run slot when the caller set no deadline.
const LONGEST_QUEUE: Duration = Duration::from_secs(30);
/// Advised delay before a retry when no run slot was free.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// Rate windows of recent calls, and the run slots.
pub(crate) struct Limits {
    windows: Mutex<Windows>,
    slots: Slots,
}

#[derive(Default)]
struct Windows {
    /// End of the period in which the hourly counts are unknown, because ledger records are missing. Until
    /// then the hourly windows count as full.
    unknown_until: Option<Instant>,
    by_tool: BTreeMap<ToolName, VecDeque<Instant>>,
    all: VecDeque<Instant>,
    outbound: VecDeque<Instant>,
}

/// Entry of one call in the rate windows.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    tool: ToolName,
    goes_out: bool,
    at: Instant,
}

impl Limits {
    /// Creates limits with this many run slots, and fills the windows with the calls recovered from the
    /// ledger. The current rules decide which tools are outbound.
    pub(crate) fn restore(places: usize, recovery: &Recovery, goes_out: impl Fn(&ToolName) -> bool) -> Self {
        let now = Instant::now();
        let unknown_until = (!recorder::is_whole(recovery)).then(|| now + HOUR);
        let mut windows = Windows { unknown_until, ..Windows::default() };
        let mut times: Vec<(Instant, ToolName)> = executed(recovery, SystemTime::now())
            .filter_map(|(tool, ago)| Some((now.checked_sub(ago)?, tool)))
            .collect();
        times.sort_unstable();
        for (at, tool) in times {
            let goes_out = goes_out(&tool);
            windows.note(&Counted { tool, goes_out, at });
        }
        Limits { windows: Mutex::new(windows), slots: Slots::new(places) }
    }

    /// Counts of this tool in the last hour, all calls in the last minute, and outbound calls in the last
    /// hour.
    pub(crate) fn counts(&self, tool: &ToolName) -> Counts {
        self.windows().counts(tool, Instant::now())
    }

    /// Count of all calls in the last minute.
    pub(crate) fn counts_of_all(&self) -> Counts {
        let mut windows = self.windows();
        let all_last_minute = slide(&mut windows.all, Instant::now(), MINUTE);
        Counts { all_last_minute, ..Counts::default() }
    }

    /// Number of running calls.
    pub(crate) fn running(&self) -> usize {
        self.slots.taken()
    }

    /// Changes the number of run slots.
    pub(crate) fn set_places(&self, places: usize) {
        self.slots.set_most(places);
    }

    /// Returns a run slot if one is free and no call is waiting.
    pub(crate) fn place_at_once(&self, call: &Call) -> Option<Slot> {
        match call.made_by {
            MadeBy::Caller => self.slots.take_at_once(call.caller.connection),
            MadeBy::Tool => Some(self.slots.take_beside(call.caller.connection)),
        }
    }

    /// Waits for a run slot, in turn with other callers.
    pub(crate) async fn place(&self, call: &Call) -> Result<Slot, Box<Refusal>> {
        let turn = self.slots.take(call.caller.connection);
        tokio::time::timeout(LONGEST_QUEUE, turn).await.map_err(|_| {
            let (taken, most) = (self.slots.taken(), self.slots.most());
            let reason = if taken < most {
                let held = self.slots.held_by(call.caller.connection);
                format!("this connection holds {held} of {most} run slots; the rest is reserved for others")
            } else {
                format!("all {most} run slots are in use")
            };
            let refusal = Refusal::new(&call.tool_name, RefusalCode::Busy, reason);
            Box::new(refusal.hint("try again when other calls have ended"))
        })
    }

    /// Counts a call, after checking its permit against the current counts.
    pub(crate) fn count(&self, permit: &Permit) -> Result<Counted, Denial> {
        let tool = permit.call().definition().name().clone();
        let mut windows = self.windows();
        let at = Instant::now();
        permit.within_rates(windows.counts(&tool, at))?;
        let counted = Counted { tool, goes_out: permit.goes_out(), at };
        windows.note(&counted);
        Ok(counted)
    }

    /// Removes the count of a call that was not run: only calls that run use up a rate limit.
    pub(crate) fn uncount(&self, counted: &Counted) {
        self.windows().forget(counted);
    }

    /// Sets `retry_after_ms` on a refusal that a limit caused.
    pub(crate) fn advise(&self, call: &Call, refusal: &mut Refusal) {
        if !refusal.retryable || refusal.retry_after_ms.is_some() {
            return;
        }
        refusal.retry_after_ms = match refusal.code {
            RefusalCode::RateLimited => self.free_again(call, refusal).map(milliseconds),
            RefusalCode::Busy => Some(milliseconds(BUSY_PAUSE)),
            _ => return,
        };
    }

    /// Time until the full window admits one more call.
    fn free_again(&self, call: &Call, refusal: &Refusal) -> Option<Duration> {
        let definition = call.world.definition(&refusal.tool)?;
        let limits = call.world.policy.rate_limits(definition, call.mode);
        let (windows, now) = (self.windows(), Instant::now());
        match refusal.detail.as_deref() {
            Some("tool_per_hour" | "outbound_per_hour") if windows.known_in(now).is_some() => {
                windows.known_in(now)
            }
            Some("tool_per_hour") => {
                frees_in(windows.by_tool.get(definition.name())?, now, HOUR, limits.tool_per_hour?)
            }
            Some("mode_per_minute") => frees_in(&windows.all, now, MINUTE, limits.mode_per_minute?),
            Some("outbound_per_hour") => frees_in(&windows.outbound, now, HOUR, limits.outbound_per_hour?),
            _ => None,
        }
    }

    fn windows(&self) -> MutexGuard<'_, Windows> {
        // The windows are consistent after every statement, so a panic elsewhere cannot have broken them.
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Windows {
    fn counts(&mut self, tool: &ToolName, now: Instant) -> Counts {
        let all_last_minute = slide(&mut self.all, now, MINUTE);
        if self.unknown_until.is_some_and(|until| now < until) {
            let unknown = Counts::UNKNOWN;
            return Counts { tool_last_hour: unknown, all_last_minute, outbound_last_hour: unknown };
        }
        Counts {
            tool_last_hour: self.by_tool.get_mut(tool).map_or(0, |window| slide(window, now, HOUR)),
            all_last_minute,
            outbound_last_hour: slide(&mut self.outbound, now, HOUR),
        }
    }

    /// Time until the hourly counts are known again.
    fn known_in(&self, now: Instant) -> Option<Duration> {
        self.unknown_until.map(|until| until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    fn note(&mut self, counted: &Counted) {
        self.by_tool.entry(counted.tool.clone()).or_default().push_back(counted.at);
        self.all.push_back(counted.at);
        if counted.goes_out {
            self.outbound.push_back(counted.at);
        }
    }

    /// Removes the exact time of this call, so that later calls still leave the window at their own time.
    fn forget(&mut self, counted: &Counted) {
        let forget = |window: &mut VecDeque<Instant>| {
            if let Some(place) = window.iter().rposition(|at| *at == counted.at) {
                window.remove(place);
            }
        };
        forget(&mut self.all);
        self.by_tool.get_mut(&counted.tool).map(forget);
        if counted.goes_out {
            forget(&mut self.outbound);
        }
    }
}

/// Drops the entries that have left the window and returns the number of the others.
fn slide(window: &mut VecDeque<Instant>, now: Instant, width: Duration) -> u32 {
    while window.front().is_some_and(|at| now.saturating_duration_since(*at) >= width) {
        window.pop_front();
    }
    u32::try_from(window.len()).unwrap_or(u32::MAX)
}

/// Time until the window holds fewer than `limit` entries. `None` if it already does, or if `limit` is 0.
fn frees_in(window: &VecDeque<Instant>, now: Instant, width: Duration, limit: u32) -> Option<Duration> {
    let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0)?;
    let last_in_the_way = window.len().checked_sub(limit)?;
    let leaves = *window.get(last_in_the_way)? + width;
    Some(leaves.saturating_duration_since(now))
}

/// Milliseconds, rounded up so that a retry is never too early.
fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}

/// Calls that earlier daemon runs executed, each with its age at `now`.
fn executed(recovery: &Recovery, now: SystemTime) -> impl Iterator<Item = (ToolName, Duration)> {
    recovery.executed.iter().flat_map(move |executed| {
        let tool = ToolName::new(&executed.tool).ok();
        executed.slots.iter().flat_map(move |(end, count)| {
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(*end).unwrap_or(0));
            // A time in the future counts as now, so that a clock that was set back does not refill a window.
            let ago = now.duration_since(at).unwrap_or(Duration::ZERO);
            let calls = usize::try_from(*count).unwrap_or(usize::MAX);
            tool.clone().into_iter().flat_map(move |tool| std::iter::repeat_n((tool, ago), calls))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approvals::Dice;

    #[test]
    fn outbound_calls_are_counted_for_an_hour() {
        let mut windows = Windows::default();
        let (out, home) = (ToolName::new("out").unwrap(), ToolName::new("home").unwrap());
        let start = Instant::now();
        for at in [start, start + MINUTE] {
            windows.note(&Counted { tool: out.clone(), goes_out: true, at });
            windows.note(&Counted { tool: home.clone(), goes_out: false, at });
        }
        for (after, expect) in [(MINUTE, 2), (HOUR, 1), (HOUR + MINUTE, 0)] {
            let counts = windows.counts(&home, start + after);
            assert_eq!(counts.outbound_last_hour, expect, "after {after:?}, whichever tool asks");
        }
    }

    #[test]
    fn uncounting_removes_the_exact_entry() {
        let (tool, start) = (ToolName::new("out").unwrap(), Instant::now());
        let mut windows = Windows::default();
        let at = |seconds| {
            let at = start + Duration::from_secs(seconds);
            Counted { tool: tool.clone(), goes_out: true, at }
        };
        for seconds in [0, 30, 40] {
            windows.note(&at(seconds));
        }
        windows.forget(&at(0));
        windows.forget(&at(0));
        let mut check = |after, expect: [u32; 3]| {
            let counts = windows.counts(&tool, start + after);
            let found = [counts.all_last_minute, counts.tool_last_hour, counts.outbound_last_hour];
            assert_eq!(found, expect, "after {after:?}");
        };
        check(Duration::from_secs(70), [2, 2, 2]);
        check(HOUR + Duration::from_secs(35), [0, 1, 1]);
        check(HOUR + Duration::from_secs(40), [0, 0, 0]);
    }

    #[test]
    fn changed_clock_does_not_refill_a_window() {
        let day = 24 * 3600;
        let ran = |end: i64, count: u32| {
            let slots = vec![(end, count)];
            let executed =
                vec![ledger::entry::Executed { tool: "out".to_owned(), mode: tool::Mode::Normal, slots }];
            Recovery { executed, ..Recovery::default() }
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(10 * day);
        let ago =
            |recovery: &Recovery| executed(recovery, now).map(|(_, ago)| ago.as_secs()).collect::<Vec<_>>();
        let set_back = i64::try_from(11 * day).unwrap();
        assert_eq!(ago(&ran(set_back, 3)), [0, 0, 0], "the future counts as now");
        assert_eq!(ago(&ran(i64::MAX, 1)), [0]);
        assert_eq!(ago(&ran(-5, 1)), [10 * day]);
        let limits = Limits::restore(1, &ran(i64::MAX, 4), |_| true);
        let counts = limits.counts(&ToolName::new("out").unwrap());
        assert_eq!((counts.tool_last_hour, counts.outbound_last_hour), (4, 4));
    }

    #[test]
    fn burst_across_a_window_edge_stays_within_the_limit() {
        const LIMIT: u32 = 10;
        let (tool, start) = (ToolName::new("out").unwrap(), Instant::now());
        let mut windows = Windows::default();
        let (mut dice, mut at, mut admitted) = (Dice::of(1), Duration::ZERO, Vec::new());
        for _ in 0..20_000 {
            // Bursts, pauses, and arrivals within nanoseconds of the end of a window.
            at += match dice.roll(8) {
                0..5 => Duration::from_nanos(dice.roll(3) as u64),
                5 => Duration::from_secs(dice.roll(600) as u64),
                6 => HOUR - Duration::from_nanos(1 + dice.roll(2) as u64),
                _ => HOUR / 2,
            };
            if windows.counts(&tool, start + at).tool_last_hour < LIMIT {
                windows.note(&Counted { tool: tool.clone(), goes_out: false, at: start + at });
                admitted.push(at);
            }
        }
        assert!(admitted.len() > 1000, "{}", admitted.len());
        for (first, beyond) in admitted.iter().zip(admitted.iter().skip(LIMIT as usize)) {
            assert!(*beyond - *first >= HOUR, "eleven within an hour: {first:?} to {beyond:?}");
        }
    }

    #[test]
    fn missing_records_make_the_hourly_window_full() {
        let lost = Recovery { damage: vec!["line 1".to_owned()], ..Recovery::default() };
        let limits = Limits::restore(1, &lost, |_| true);
        let tool = ToolName::new("out").unwrap();
        let counts = limits.counts(&tool);
        let unknown = (Counts::UNKNOWN, Counts::UNKNOWN);
        assert_eq!((counts.tool_last_hour, counts.outbound_last_hour), unknown);
        assert_eq!(counts.all_last_minute, 0, "the minute window is not affected");
        let mut windows = limits.windows();
        let later = Instant::now() + HOUR;
        assert_eq!(windows.counts(&tool, later).tool_last_hour, 0, "an hour later it is known again");
        assert_eq!(windows.known_in(later), None);
    }

    #[test]
    fn full_window_reports_when_it_frees() {
        let now = Instant::now() + HOUR;
        let ago = |seconds: u64| now - Duration::from_secs(seconds);
        let window = VecDeque::from([ago(50), ago(40), ago(30), ago(20)]);
        let check = |limit, expect: Option<u64>| {
            assert_eq!(
                frees_in(&window, now, MINUTE, limit),
                expect.map(Duration::from_secs),
                "limit {limit}"
            );
        };
        check(4, Some(10));
        check(3, Some(20));
        check(1, Some(40));
        check(5, None);
        check(0, None);
        assert_eq!(milliseconds(Duration::from_micros(1)), 1, "never too early");
    }
}
