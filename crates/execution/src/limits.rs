//! Rate windows and run slots. Checking and counting happen under one lock, so a burst cannot exceed a limit.
//!
//! A limit of the policy is the limit of one caller. All callers together may make `MACHINE_FACTOR` times as many
//! calls, and share that ceiling like slots: a caller gets another call only while it has made fewer than
//! `MAX_COUNTED_PER_FREE_CALL` for each one that is left. No caller can use up what the others need.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use governance::{Denial, Permit, RateCounts};
use ledger::LedgerRecovery;
use tool::{Refusal, RefusalCode, ToolName};

use crate::call::{CallOrigin, PipelineCall};
use crate::modes;
use crate::slots::{CallLength, FairSlots, Slot};
use crate::throttle::CallerKey;

const HOUR: Duration = Duration::from_secs(60 * 60);
const MINUTE: Duration = Duration::from_secs(60);
/// Longest wait for a run slot when the caller set no deadline.
const MAX_QUEUE_WAIT: Duration = Duration::from_secs(30);
/// Advised delay before a retry when no run slot was free.
const BUSY_RETRY_AFTER: Duration = Duration::from_secs(1);
/// Ceiling of all callers together, as a multiple of the limit of one caller.
const MACHINE_FACTOR: u32 = 4;
/// Number of calls a caller may make for each call that it leaves below the ceiling.
const MAX_COUNTED_PER_FREE_CALL: u32 = 3;
/// Callers with windows of their own. Further ones share one set of windows.
const MOST_CALLERS: usize = 1024;

/// Rate windows of recent calls, and the run slots.
pub(crate) struct CallLimits {
    windows: Mutex<RateWindows>,
    slots: FairSlots,
}

#[derive(Default)]
struct RateWindows {
    /// End of the period in which the hourly counts are unknown, because ledger records are missing. Until
    /// then the hourly windows count as full.
    unknown_until: Option<Instant>,
    /// Calls of all callers.
    machine: CallWindows,
    /// Calls restored from the ledger. They count as calls of every caller, because their callers are not known.
    restored: CallWindows,
    callers: HashMap<CallerKey, CallWindows>,
}

/// Times of calls, oldest first: by tool, of all tools, and of outbound calls.
#[derive(Debug, Default)]
struct CallWindows {
    by_tool: BTreeMap<ToolName, VecDeque<Instant>>,
    all_calls: VecDeque<Instant>,
    outbound: VecDeque<Instant>,
}

/// Entry of one call in the rate windows.
#[derive(Clone, Debug)]
pub(crate) struct CountedCall {
    /// `None` for a call restored from the ledger.
    caller: Option<CallerKey>,
    tool: ToolName,
    is_outbound: bool,
    at: Instant,
}

impl CallLimits {
    /// Creates limits with this many run slots, and fills the windows with the calls recovered from the
    /// ledger. The current rules decide which tools are outbound.
    pub(crate) fn restore(
        places: usize,
        recovery: &LedgerRecovery,
        goes_out: impl Fn(&ToolName) -> bool,
    ) -> Self {
        let now = Instant::now();
        let unknown_until = (!modes::is_intact(recovery)).then(|| now + HOUR);
        let mut windows = RateWindows { unknown_until, ..RateWindows::default() };
        let mut times: Vec<(Instant, ToolName)> = recovered_calls(recovery, SystemTime::now())
            .filter_map(|(tool, ago)| Some((now.checked_sub(ago)?, tool)))
            .collect();
        times.sort_unstable();
        for (at, tool) in times {
            let goes_out = goes_out(&tool);
            windows.add(&CountedCall { caller: None, tool, is_outbound: goes_out, at });
        }
        CallLimits { windows: Mutex::new(windows), slots: FairSlots::new(places) }
    }

    /// Counts for this caller: of this tool in the last hour, of all calls in the last minute, and of outbound calls
    /// in the last hour. Each count is raised as far as the ceiling of all callers requires it.
    pub(crate) fn counts(&self, caller: &CallerKey, tool: &ToolName) -> RateCounts {
        self.windows().counts(caller, tool, Instant::now())
    }

    /// Count of all calls in the last minute, on the scale of the limit of one caller.
    pub(crate) fn counts_of_all(&self) -> RateCounts {
        let mut windows = self.windows();
        let all = slide(&mut windows.machine.all_calls, Instant::now(), MINUTE);
        RateCounts { all_last_minute: all.div_ceil(MACHINE_FACTOR), ..RateCounts::default() }
    }

    /// Number of running calls.
    pub(crate) fn running(&self) -> usize {
        self.slots.in_use()
    }

    /// Changes the number of run slots.
    pub(crate) fn set_capacity(&self, places: usize) {
        self.slots.set_capacity(places);
    }

    /// Returns a run slot if one is free and no call is waiting.
    pub(crate) fn try_acquire_slot(&self, call: &PipelineCall, length: CallLength) -> Option<Slot> {
        match call.origin {
            CallOrigin::Caller => self.slots.try_acquire(&call.caller_key, length),
            CallOrigin::Tool => Some(self.slots.acquire_over_capacity(&call.caller_key, length)),
        }
    }

    /// Waits for a run slot, in turn with other callers.
    pub(crate) async fn acquire_slot(
        &self,
        call: &PipelineCall,
        length: CallLength,
    ) -> Result<Slot, Box<Refusal>> {
        let turn = self.slots.acquire(&call.caller_key, length);
        tokio::time::timeout(MAX_QUEUE_WAIT, turn).await.map_err(|_| {
            let (taken, most) = (self.slots.in_use(), self.slots.capacity());
            let reason = if taken < most {
                let held = self.slots.held_by(&call.caller_key);
                format!("this caller holds {held} of {most} run slots; the rest is reserved for others and for short calls")
            } else {
                format!("all {most} run slots are in use")
            };
            let refusal = Refusal::new(&call.tool_name, RefusalCode::Busy, reason);
            Box::new(refusal.with_hint("try again when other calls have ended"))
        })
    }

    /// Counts a call, after checking its permit against the current counts.
    pub(crate) fn count(&self, caller: &CallerKey, permit: &Permit) -> Result<CountedCall, Denial> {
        let tool = permit.call().definition().name().clone();
        let mut windows = self.windows();
        let at = Instant::now();
        permit.check_rates(windows.counts(caller, &tool, at))?;
        let caller = Some(windows.key_with_windows(caller, at));
        let counted = CountedCall { caller, tool, is_outbound: permit.is_outbound(), at };
        windows.add(&counted);
        Ok(counted)
    }

    /// Removes the count of a call that was not run: only calls that run use up a rate limit.
    pub(crate) fn uncount(&self, counted: &CountedCall) {
        self.windows().remove(counted);
    }

    /// Sets `retry_after_ms` on a refusal that a limit caused.
    pub(crate) fn set_retry_after(&self, call: &PipelineCall, refusal: &mut Refusal) {
        if !refusal.retryable || refusal.retry_after_ms.is_some() {
            return;
        }
        refusal.retry_after_ms = match refusal.code {
            RefusalCode::RateLimited => self.retry_after(call, refusal).map(ceil_millis),
            RefusalCode::Busy => Some(ceil_millis(BUSY_RETRY_AFTER)),
            _ => return,
        };
    }

    /// Time until the full window admits one more call.
    fn retry_after(&self, call: &PipelineCall, refusal: &Refusal) -> Option<Duration> {
        let definition = call.snapshot.definition(&refusal.tool)?;
        let limits = call.snapshot.policy.rate_limits(definition, call.header.mode);
        let (windows, now) = (self.windows(), Instant::now());
        let (width, limit): (Duration, u32) = match refusal.detail.as_deref() {
            Some("tool_per_hour" | "outbound_per_hour") if windows.unknown_for(now).is_some() => {
                return windows.unknown_for(now);
            }
            Some("tool_per_hour") => (HOUR, limits.tool_per_hour?),
            Some("mode_per_minute") => (MINUTE, limits.mode_per_minute?),
            Some("outbound_per_hour") => (HOUR, limits.outbound_per_hour?),
            _ => return None,
        };
        let of = |calls: &CallWindows| -> VecDeque<Instant> {
            let window = match refusal.detail.as_deref() {
                Some("tool_per_hour") => calls.by_tool.get(definition.name()),
                Some("mode_per_minute") => Some(&calls.all_calls),
                _ => Some(&calls.outbound),
            };
            window.cloned().unwrap_or_default()
        };
        let mut own = of(&windows.restored);
        own.extend(windows.callers.get(&call.caller_key).map(of).unwrap_or_default());
        // The caller's own calls leave the window too, so this is at most a little too late.
        let own_calls = u32::try_from(own.len()).unwrap_or(u32::MAX);
        let ceiling =
            limit.saturating_mul(MACHINE_FACTOR).saturating_sub(own_calls / MAX_COUNTED_PER_FREE_CALL);
        let own = time_until_below(&own, now, width, limit);
        own.max(time_until_below(&of(&windows.machine), now, width, ceiling))
    }

    fn windows(&self) -> MutexGuard<'_, RateWindows> {
        // The windows are consistent after every statement, so a panic elsewhere cannot have broken them.
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RateWindows {
    fn counts(&mut self, caller: &CallerKey, tool: &ToolName, now: Instant) -> RateCounts {
        let known = self.unknown_until.is_none_or(|until| now >= until);
        let machine = self.machine.counts(tool, now);
        let restored = self.restored.counts(tool, now);
        let key = if self.callers.contains_key(caller) { caller } else { &OVERFLOW };
        let own = self.callers.get_mut(key).map(|own| own.counts(tool, now)).unwrap_or_default();
        let count = |of: fn(&RateCounts) -> u32| {
            effective_count(of(&own).saturating_add(of(&restored)), of(&machine))
        };
        let hourly = |of| if known { count(of) } else { RateCounts::UNKNOWN };
        RateCounts {
            tool_last_hour: hourly(|counts| counts.tool_last_hour),
            all_last_minute: count(|counts| counts.all_last_minute),
            outbound_last_hour: hourly(|counts| counts.outbound_last_hour),
        }
    }

    /// Time until the hourly counts are known again.
    fn unknown_for(&self, now: Instant) -> Option<Duration> {
        self.unknown_until.map(|until| until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// Key of the windows that count this caller: its own, or the shared ones if too many callers have their own.
    fn key_with_windows(&mut self, caller: &CallerKey, now: Instant) -> CallerKey {
        if self.callers.len() >= MOST_CALLERS && !self.callers.contains_key(caller) {
            self.callers.retain(|_, own| !own.is_empty(now));
        }
        let is_full = self.callers.len() >= MOST_CALLERS && !self.callers.contains_key(caller);
        if is_full { OVERFLOW } else { caller.clone() }
    }

    fn add(&mut self, counted: &CountedCall) {
        self.machine.add(counted);
        match &counted.caller {
            Some(caller) => self.callers.entry(caller.clone()).or_default().add(counted),
            None => self.restored.add(counted),
        }
    }

    fn remove(&mut self, counted: &CountedCall) {
        self.machine.remove(counted);
        match &counted.caller {
            Some(caller) => {
                if let Some(own) = self.callers.get_mut(caller) {
                    own.remove(counted);
                }
            }
            None => self.restored.remove(counted),
        }
    }
}

/// Key of the windows that callers share beyond `MOST_CALLERS`.
const OVERFLOW: CallerKey = CallerKey::User(u32::MAX);

impl CallWindows {
    fn counts(&mut self, tool: &ToolName, now: Instant) -> RateCounts {
        RateCounts {
            tool_last_hour: self.by_tool.get_mut(tool).map_or(0, |window| slide(window, now, HOUR)),
            all_last_minute: slide(&mut self.all_calls, now, MINUTE),
            outbound_last_hour: slide(&mut self.outbound, now, HOUR),
        }
    }

    fn is_empty(&mut self, now: Instant) -> bool {
        self.by_tool.retain(|_, window| slide(window, now, HOUR) > 0);
        self.by_tool.is_empty()
    }

    fn add(&mut self, counted: &CountedCall) {
        self.by_tool.entry(counted.tool.clone()).or_default().push_back(counted.at);
        self.all_calls.push_back(counted.at);
        if counted.is_outbound {
            self.outbound.push_back(counted.at);
        }
    }

    /// Removes the exact time of this call, so that later calls still leave the window at their own time.
    fn remove(&mut self, counted: &CountedCall) {
        let forget = |window: &mut VecDeque<Instant>| {
            if let Some(place) = window.iter().rposition(|at| *at == counted.at) {
                window.remove(place);
            }
        };
        forget(&mut self.all_calls);
        self.by_tool.get_mut(&counted.tool).map(forget);
        if counted.is_outbound {
            forget(&mut self.outbound);
        }
    }
}

/// Count that the limit of one caller is compared with: the caller's own calls, or a higher number if the ceiling of
/// all callers is reached or the caller has used its share of it. With the limit L, the ceiling is
/// `MACHINE_FACTOR` × L, and the share is used up when own ≥ `MAX_COUNTED_PER_FREE_CALL` × (ceiling − all). Both
/// conditions are `(all + own / MAX_COUNTED_PER_FREE_CALL) / MACHINE_FACTOR ≥ L`, which does not contain L.
fn effective_count(own: u32, all: u32) -> u32 {
    own.max(all.saturating_add(own / MAX_COUNTED_PER_FREE_CALL) / MACHINE_FACTOR)
}

/// Drops the entries that have left the window and returns the number of the others.
fn slide(window: &mut VecDeque<Instant>, now: Instant, width: Duration) -> u32 {
    while window.front().is_some_and(|at| now.saturating_duration_since(*at) >= width) {
        window.pop_front();
    }
    u32::try_from(window.len()).unwrap_or(u32::MAX)
}

/// Time until the window holds fewer than `limit` entries. `None` if it already does, or if `limit` is 0.
fn time_until_below(
    window: &VecDeque<Instant>,
    now: Instant,
    width: Duration,
    limit: u32,
) -> Option<Duration> {
    let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0)?;
    let last_in_the_way = window.len().checked_sub(limit)?;
    let leaves = *window.get(last_in_the_way)? + width;
    Some(leaves.saturating_duration_since(now))
}

/// Milliseconds, rounded up so that a retry is never too early.
fn ceil_millis(time: Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}

/// Calls that earlier daemon runs executed, each with its age at `now`.
fn recovered_calls(recovery: &LedgerRecovery, now: SystemTime) -> impl Iterator<Item = (ToolName, Duration)> {
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
    use crate::schedule_rng::ScheduleRng;

    const CALLER: CallerKey = CallerKey::Process(1);

    #[test]
    fn outbound_calls_are_counted_for_an_hour() {
        let mut windows = RateWindows::default();
        let (out, home) = (ToolName::new("out").unwrap(), ToolName::new("home").unwrap());
        let start = Instant::now();
        for at in [start, start + MINUTE] {
            windows.add(&CountedCall { caller: Some(CALLER), tool: out.clone(), is_outbound: true, at });
            windows.add(&CountedCall { caller: Some(CALLER), tool: home.clone(), is_outbound: false, at });
        }
        for (after, expect) in [(MINUTE, 2), (HOUR, 1), (HOUR + MINUTE, 0)] {
            let counts = windows.counts(&CALLER, &home, start + after);
            assert_eq!(counts.outbound_last_hour, expect, "after {after:?}, whichever tool asks");
        }
    }

    #[test]
    fn uncounting_removes_the_exact_entry() {
        let (tool, start) = (ToolName::new("out").unwrap(), Instant::now());
        let mut windows = RateWindows::default();
        let at = |seconds| {
            let at = start + Duration::from_secs(seconds);
            CountedCall { caller: Some(CALLER), tool: tool.clone(), is_outbound: true, at }
        };
        for seconds in [0, 30, 40] {
            windows.add(&at(seconds));
        }
        windows.remove(&at(0));
        windows.remove(&at(0));
        let mut check = |after, expect: [u32; 3]| {
            let counts = windows.counts(&CALLER, &tool, start + after);
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
            let executed = vec![ledger::entry::ExecutionCounts {
                tool: "out".to_owned(),
                mode: tool::Mode::Normal,
                slots,
            }];
            LedgerRecovery { executed, ..LedgerRecovery::default() }
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(10 * day);
        let ago = |recovery: &LedgerRecovery| {
            recovered_calls(recovery, now).map(|(_, ago)| ago.as_secs()).collect::<Vec<_>>()
        };
        let set_back = i64::try_from(11 * day).unwrap();
        assert_eq!(ago(&ran(set_back, 3)), [0, 0, 0], "the future counts as now");
        assert_eq!(ago(&ran(i64::MAX, 1)), [0]);
        assert_eq!(ago(&ran(-5, 1)), [10 * day]);
        let limits = CallLimits::restore(1, &ran(i64::MAX, 4), |_| true);
        let counts = limits.counts(&CALLER, &ToolName::new("out").unwrap());
        assert_eq!((counts.tool_last_hour, counts.outbound_last_hour), (4, 4));
    }

    #[test]
    fn burst_across_a_window_edge_stays_within_the_limit() {
        const LIMIT: u32 = 10;
        let (tool, start) = (ToolName::new("out").unwrap(), Instant::now());
        let mut windows = RateWindows::default();
        let (mut dice, mut at, mut admitted) = (ScheduleRng::from_seed(1), Duration::ZERO, Vec::new());
        for _ in 0..20_000 {
            // Bursts, pauses, and arrivals within nanoseconds of the end of a window.
            at += match dice.next_below(8) {
                0..5 => Duration::from_nanos(dice.next_below(3) as u64),
                5 => Duration::from_secs(dice.next_below(600) as u64),
                6 => HOUR - Duration::from_nanos(1 + dice.next_below(2) as u64),
                _ => HOUR / 2,
            };
            if windows.counts(&CALLER, &tool, start + at).tool_last_hour < LIMIT {
                windows.add(&CountedCall {
                    caller: Some(CALLER),
                    tool: tool.clone(),
                    is_outbound: false,
                    at: start + at,
                });
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
        let lost = LedgerRecovery { damage: vec!["line 1".to_owned()], ..LedgerRecovery::default() };
        let limits = CallLimits::restore(1, &lost, |_| true);
        let tool = ToolName::new("out").unwrap();
        let counts = limits.counts(&CALLER, &tool);
        let unknown = (RateCounts::UNKNOWN, RateCounts::UNKNOWN);
        assert_eq!((counts.tool_last_hour, counts.outbound_last_hour), unknown);
        assert_eq!(counts.all_last_minute, 0, "the minute window is not affected");
        let mut windows = limits.windows();
        let later = Instant::now() + HOUR;
        assert_eq!(
            windows.counts(&CALLER, &tool, later).tool_last_hour,
            0,
            "an hour later it is known again"
        );
        assert_eq!(windows.unknown_for(later), None);
    }

    #[test]
    fn full_window_reports_when_it_frees() {
        let now = Instant::now() + HOUR;
        let ago = |seconds: u64| now - Duration::from_secs(seconds);
        let window = VecDeque::from([ago(50), ago(40), ago(30), ago(20)]);
        let check = |limit, expect: Option<u64>| {
            assert_eq!(
                time_until_below(&window, now, MINUTE, limit),
                expect.map(Duration::from_secs),
                "limit {limit}"
            );
        };
        check(4, Some(10));
        check(3, Some(20));
        check(1, Some(40));
        check(5, None);
        check(0, None);
        assert_eq!(ceil_millis(Duration::from_micros(1)), 1, "never too early");
    }

    /// Calls that a caller can make under a limit of `limit`, at one moment.
    fn admitted(windows: &mut RateWindows, pid: i32, limit: u32, now: Instant) -> u32 {
        let (caller, tool) = (CallerKey::Process(pid), ToolName::new("out").unwrap());
        let mut admitted = 0;
        while admitted < 10_000 && windows.counts(&caller, &tool, now).tool_last_hour < limit {
            let key = windows.key_with_windows(&caller, now);
            windows.add(&CountedCall { caller: Some(key), tool: tool.clone(), is_outbound: false, at: now });
            admitted += 1;
        }
        admitted
    }

    #[test]
    fn no_caller_uses_up_the_calls_of_the_others() {
        let now = Instant::now();
        let mut windows = RateWindows::default();
        let each: Vec<u32> = (1..=7).map(|pid| admitted(&mut windows, pid, 100, now)).collect();
        assert_eq!(each, [100, 100, 100, 75, 19, 5, 1], "each caller its limit, then a share of the rest");
        assert_eq!(each.iter().sum::<u32>(), 400, "the ceiling of all");
        for pid in 1..20 {
            assert_eq!(admitted(&mut windows, pid, 100, now), 0, "{pid}");
        }
        let mut small = RateWindows::default();
        assert_eq!(admitted(&mut small, 1, 1, now), 1, "a limit of one is one");
        assert_eq!(admitted(&mut small, 2, 1, now), 1);
    }

    #[test]
    fn memory_is_bounded_however_many_callers_call() {
        let (now, tool) = (Instant::now(), ToolName::new("out").unwrap());
        let mut windows = RateWindows::default();
        let call = |windows: &mut RateWindows, pid, at| {
            let caller = Some(windows.key_with_windows(&CallerKey::Process(pid), at));
            windows.add(&CountedCall { caller, tool: tool.clone(), is_outbound: false, at });
        };
        (0..3000).for_each(|pid| call(&mut windows, pid, now));
        assert!(windows.callers.len() <= MOST_CALLERS + 1, "{}", windows.callers.len());
        call(&mut windows, 9999, now + HOUR);
        assert_eq!(windows.callers.len(), 1, "windows without calls are dropped");
    }
}
