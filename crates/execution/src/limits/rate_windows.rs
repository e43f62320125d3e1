//! Rate windows: the times of recent calls, of each caller and of all callers together.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant, SystemTime};

use governance::RateCounts;
use ledger::LedgerRecovery;
use tool::ToolName;
use tool::caller::CallerKey;

use super::{HOUR, all_calls_bound, effective_count, scaled_to_one_caller};

const MINUTE: Duration = Duration::from_secs(60);
/// Callers with windows of their own. Further ones share one set of windows.
const MAX_CALLERS: usize = 1024;
/// Key of the windows that callers share beyond `MAX_CALLERS`.
const OVERFLOW: CallerKey = CallerKey::User(u32::MAX);

/// Rate windows of all callers.
#[derive(Default)]
pub(super) struct RateWindows {
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

/// Window that a limit applies to.
#[derive(Clone, Copy)]
pub(super) enum RateWindow<'a> {
    ToolLastHour(&'a ToolName),
    AllLastMinute,
    OutboundLastHour,
}

impl RateWindow<'_> {
    fn width(self) -> Duration {
        match self {
            RateWindow::ToolLastHour(_) | RateWindow::OutboundLastHour => HOUR,
            RateWindow::AllLastMinute => MINUTE,
        }
    }

    fn times(self, calls: &CallWindows) -> VecDeque<Instant> {
        let window = match self {
            RateWindow::ToolLastHour(tool) => calls.by_tool.get(tool),
            RateWindow::AllLastMinute => Some(&calls.all_calls),
            RateWindow::OutboundLastHour => Some(&calls.outbound),
        };
        window.cloned().unwrap_or_default()
    }
}

impl CountedCall {
    /// Entry of a call restored from the ledger.
    pub(super) fn restored(tool: ToolName, is_outbound: bool, at: Instant) -> Self {
        CountedCall { caller: None, tool, is_outbound, at }
    }
}

impl RateWindows {
    /// Empty windows, whose hourly counts are unknown until this time.
    pub(super) fn unknown_until(unknown_until: Option<Instant>) -> Self {
        RateWindows { unknown_until, ..RateWindows::default() }
    }

    /// Count of all calls in the last minute, on the scale of the limit of one caller.
    pub(super) fn counts_of_all(&mut self, now: Instant) -> RateCounts {
        let all = slide(&mut self.machine.all_calls, now, MINUTE);
        RateCounts { all_last_minute: scaled_to_one_caller(all), ..RateCounts::default() }
    }

    /// Returns the entry of a call, without adding it.
    pub(super) fn new_call(
        &mut self,
        caller: &CallerKey,
        tool: ToolName,
        is_outbound: bool,
        at: Instant,
    ) -> CountedCall {
        CountedCall { caller: Some(self.key_with_windows(caller, at)), tool, is_outbound, at }
    }

    /// Time until a full window admits one more call of this caller.
    pub(super) fn time_until_free(
        &self,
        caller: &CallerKey,
        window: RateWindow<'_>,
        limit: u32,
        now: Instant,
    ) -> Option<Duration> {
        if let Some(unknown) = self.unknown_for(now)
            && window.width() == HOUR
        {
            return Some(unknown);
        }
        let mut own = window.times(&self.restored);
        own.extend(self.callers.get(caller).map(|own| window.times(own)).unwrap_or_default());
        // The caller's own calls leave the window too, so this is at most a little too late.
        let ceiling = all_calls_bound(limit, u32::try_from(own.len()).unwrap_or(u32::MAX));
        let own = time_until_below(&own, now, window.width(), limit);
        own.max(time_until_below(&window.times(&self.machine), now, window.width(), ceiling))
    }

    pub(super) fn counts(&mut self, caller: &CallerKey, tool: &ToolName, now: Instant) -> RateCounts {
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
    pub(super) fn unknown_for(&self, now: Instant) -> Option<Duration> {
        self.unknown_until.map(|until| until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// Key of the windows that count this caller: its own, or the shared ones if too many callers have their own.
    fn key_with_windows(&mut self, caller: &CallerKey, now: Instant) -> CallerKey {
        if self.callers.len() >= MAX_CALLERS && !self.callers.contains_key(caller) {
            self.callers.retain(|_, own| !own.is_empty(now));
        }
        let is_full = self.callers.len() >= MAX_CALLERS && !self.callers.contains_key(caller);
        if is_full { OVERFLOW } else { *caller }
    }

    pub(super) fn add(&mut self, counted: &CountedCall) {
        self.machine.add(counted);
        match &counted.caller {
            Some(caller) => self.callers.entry(*caller).or_default().add(counted),
            None => self.restored.add(counted),
        }
    }

    /// Counts uses of another tool as part of a call that was counted. They are no further calls of the caller.
    pub(super) fn add_uses(&mut self, call: &CountedCall, tool: &ToolName, uses: u32) {
        let own = match &call.caller {
            Some(caller) => self.callers.entry(*caller).or_default(),
            None => &mut self.restored,
        };
        for windows in [&mut self.machine, own] {
            let times = windows.by_tool.entry(tool.clone()).or_default();
            times.extend((0..uses).map(|_| call.at));
        }
    }

    pub(super) fn remove(&mut self, counted: &CountedCall) {
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
            if let Some(position) = window.iter().rposition(|at| *at == counted.at) {
                window.remove(position);
            }
        };
        forget(&mut self.all_calls);
        self.by_tool.get_mut(&counted.tool).map(forget);
        if counted.is_outbound {
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

/// Calls that earlier daemon runs executed, each with its age at `now`.
pub(super) fn recovered_calls(
    recovery: &LedgerRecovery,
    now: SystemTime,
) -> impl Iterator<Item = (ToolName, Duration)> {
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

    const CALLER: CallerKey = CallerKey::User(1);

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
    fn burst_across_a_window_edge_stays_within_the_limit() {
        const LIMIT: u32 = 10;
        let (tool, start) = (ToolName::new("out").unwrap(), Instant::now());
        let mut windows = RateWindows::default();
        let (mut rng, mut at, mut admitted) = (ScheduleRng::from_seed(1), Duration::ZERO, Vec::new());
        for _ in 0..20_000 {
            // Bursts, pauses, and arrivals within nanoseconds of the end of a window.
            at += match rng.next_below(8) {
                0..5 => Duration::from_nanos(rng.next_below(3) as u64),
                5 => Duration::from_secs(rng.next_below(600) as u64),
                6 => HOUR - Duration::from_nanos(1 + rng.next_below(2) as u64),
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
    }

    /// Calls that a caller can make under a limit of `limit`, at one moment.
    fn admitted(windows: &mut RateWindows, pid: i32, limit: u32, now: Instant) -> u32 {
        let (caller, tool) = (CallerKey::of_pid(pid), ToolName::new("out").unwrap());
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
            let caller = Some(windows.key_with_windows(&CallerKey::of_pid(pid), at));
            windows.add(&CountedCall { caller, tool: tool.clone(), is_outbound: false, at });
        };
        (0..3000).for_each(|pid| call(&mut windows, pid, now));
        assert!(windows.callers.len() <= MAX_CALLERS + 1, "{}", windows.callers.len());
        call(&mut windows, 9999, now + HOUR);
        assert_eq!(windows.callers.len(), 1, "windows without calls are dropped");
    }
}
