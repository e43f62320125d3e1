//! Event counters for the mode rules: sliding windows over the last hour, with bounded memory. Refusals are counted with
//! their callers, so that the watch can tell what one caller caused.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use governance::files::Metric;
use tool::caller::CallerKey;

use crate::suspension::EventSource;

/// Longest window that a rule may have.
const MAX_WINDOW: Duration = Duration::from_secs(60 * 60);
/// Maximum number of events kept per kind; the oldest are dropped first. The policy loader warns about a rule
/// that needs more.
const MAX_EVENTS: usize = governance::transitions::MAX_COUNTED_EVENTS as usize;
/// Minimum number of ended calls for an error rate.
const MIN_ENDS_FOR_RATE: usize = 5;

/// Hash of a tool and the targets of a call, for telling effects apart.
pub(crate) type EffectId = u64;

/// Event that a rule can count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountedEvent {
    /// The policy or the operator refused a call. The number identifies the denied effect.
    Violation(EffectId),
    /// A high-risk call was started.
    HighRisk,
    /// A high-risk call was refused, or timed out waiting for approval. The number identifies the denied effect.
    RefusedHighRisk(EffectId),
    /// A call was malformed. The number is a hash of its caller and tool.
    Malformed(u64),
    /// The machine ran out of a resource.
    Exhaustion,
    /// The ledger's size limit removed records younger than their minimum age.
    LedgerPressure,
    /// A call ended without a fault of its tool or of the machine.
    Ended,
    /// A call failed through a fault of its tool or of the machine.
    Failed,
}

impl CountedEvent {
    /// Returns true if the rules must be evaluated at once.
    pub(crate) fn is_urgent(self) -> bool {
        self != CountedEvent::Ended
    }
}

/// Counted events, oldest first.
#[derive(Debug, Default)]
pub(crate) struct EventCounters {
    violations: SlidingWindow<SourcedEvent>,
    high_risk: SlidingWindow<()>,
    refused_high_risk: SlidingWindow<SourcedEvent>,
    malformed: SlidingWindow<SourcedEvent>,
    exhaustion: SlidingWindow<()>,
    ledger_pressure: SlidingWindow<()>,
    ends: SlidingWindow<CallEnd>,
}

/// Event with the caller that caused it. Events without one are the operator's own.
#[derive(Clone, Debug)]
struct SourcedEvent {
    /// Hash that identifies the denied effect, or the caller and tool of a malformed call.
    hash: u64,
    source: Option<EventSource>,
}

impl SourcedEvent {
    fn key(&self) -> Option<&CallerKey> {
        self.source.as_ref().map(|source| &source.key)
    }

    fn is_same(&self, other: &SourcedEvent) -> bool {
        self.hash == other.hash && self.key() == other.key()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallEnd {
    Success,
    Failure,
}

impl EventCounters {
    /// Counts an event. `source` is the agent that caused it.
    pub(crate) fn record(&mut self, event: CountedEvent, source: Option<EventSource>, at: Duration) {
        let sourced = |hash| SourcedEvent { hash, source };
        match event {
            CountedEvent::Violation(effect) => self.violations.add_distinct(at, sourced(effect)),
            CountedEvent::HighRisk => self.high_risk.add(at, ()),
            CountedEvent::RefusedHighRisk(effect) => self.refused_high_risk.add_distinct(at, sourced(effect)),
            CountedEvent::Malformed(owner) => self.malformed.add(at, sourced(owner)),
            CountedEvent::Exhaustion => self.exhaustion.add(at, ()),
            CountedEvent::LedgerPressure => self.ledger_pressure.add(at, ()),
            CountedEvent::Ended => self.ends.add(at, CallEnd::Success),
            CountedEvent::Failed => self.ends.add(at, CallEnd::Failure),
        }
    }

    /// Value of a metric over the window that ends now, without the events of the `excluded` caller. `None` if it is not
    /// a counted metric, or if there are too few calls for a rate.
    pub(crate) fn read(
        &self,
        metric: Metric,
        now: Duration,
        window: Duration,
        excluded: Option<&CallerKey>,
    ) -> Option<f64> {
        let since = now.saturating_sub(window);
        let included = |event: &&SourcedEvent| excluded.is_none() || event.key() != excluded;
        let distinct = |events: &SlidingWindow<SourcedEvent>| {
            let effects: HashSet<u64> =
                events.after(since).filter(included).map(|event| event.hash).collect();
            effects.len()
        };
        let count = match metric {
            Metric::PolicyViolations => distinct(&self.violations),
            Metric::HighRiskCalls => self.high_risk.after(since).count(),
            Metric::RefusedHighRiskCalls => distinct(&self.refused_high_risk),
            Metric::ResourceExhaustion => self.exhaustion.after(since).count(),
            Metric::LedgerPressure => self.ledger_pressure.after(since).count(),
            Metric::RepeatedValidationFailures => {
                max_per_source(self.malformed.after(since).filter(included).map(|event| event.hash))
            }
            Metric::ToolErrorRate => return error_rate(self.ends.after(since)),
            Metric::CpuLoadPercent
            | Metric::MemoryUsedPercent
            | Metric::MemoryPressure
            | Metric::DiskUsedPercent => return None,
        };
        u32::try_from(count).ok().map(f64::from)
    }

    /// Caller that caused more than half of the events of a metric, if the metric counts refusals.
    pub(crate) fn main_source(&self, metric: Metric, now: Duration, window: Duration) -> Option<EventSource> {
        let events = match metric {
            Metric::PolicyViolations => &self.violations,
            Metric::RefusedHighRiskCalls => &self.refused_high_risk,
            Metric::RepeatedValidationFailures => &self.malformed,
            _ => return None,
        };
        let (mut all, mut by_caller) = (0_usize, HashMap::<&CallerKey, (usize, &EventSource)>::new());
        for event in events.after(now.saturating_sub(window)) {
            all += 1;
            if let Some(source) = &event.source {
                by_caller.entry(&source.key).or_insert((0, source)).0 += 1;
            }
        }
        let (count, source) = by_caller.into_values().max_by_key(|(count, _)| *count)?;
        (count * 2 > all).then(|| source.clone())
    }

    /// Drops the refusals of a caller that was suspended for them.
    pub(crate) fn discard_refusals_of(&mut self, caller: &CallerKey) {
        for events in [&mut self.violations, &mut self.refused_high_risk, &mut self.malformed] {
            events.0.retain(|(_, event)| event.key() != Some(caller));
        }
    }

    /// Drops events that are older than every window.
    pub(crate) fn discard_expired(&mut self, now: Duration) {
        let since = now.saturating_sub(MAX_WINDOW);
        for times in [&mut self.high_risk, &mut self.exhaustion, &mut self.ledger_pressure] {
            times.discard_until(since);
        }
        self.violations.discard_until(since);
        self.refused_high_risk.discard_until(since);
        self.malformed.discard_until(since);
        self.ends.discard_until(since);
    }
}

/// Largest number of events from one source.
fn max_per_source(sources: impl Iterator<Item = u64>) -> usize {
    let mut counts: HashMap<u64, usize> = HashMap::new();
    for source in sources {
        *counts.entry(source).or_default() += 1;
    }
    counts.into_values().max().unwrap_or(0)
}

/// Percentage of calls that failed.
fn error_rate<'a>(ends: impl Iterator<Item = &'a CallEnd>) -> Option<f64> {
    let (mut all, mut bad) = (0_u32, 0_u32);
    for end in ends {
        all += 1;
        bad += u32::from(*end == CallEnd::Failure);
    }
    let enough = usize::try_from(all).is_ok_and(|all| all >= MIN_ENDS_FOR_RATE);
    enough.then(|| f64::from(bad) / f64::from(all) * 100.0)
}

/// Events in order of time.
#[derive(Debug)]
struct SlidingWindow<T>(VecDeque<(Duration, T)>);

impl<T> Default for SlidingWindow<T> {
    fn default() -> Self {
        SlidingWindow(VecDeque::new())
    }
}

impl<T> SlidingWindow<T> {
    /// Adds an event. It is normally the newest, but events restored from the ledger may be added after newer
    /// ones.
    fn add(&mut self, at: Duration, event: T) {
        match self.0.back() {
            Some((newest, _)) if *newest > at => {
                let position = self.0.partition_point(|(time, _)| *time <= at);
                self.0.insert(position, (at, event));
            }
            _ => self.0.push_back((at, event)),
        }
        if self.0.len() > MAX_EVENTS {
            self.0.pop_front();
        }
    }

    /// Events after `since`; an event at exactly that time has left the window.
    fn after(&self, since: Duration) -> impl Iterator<Item = &T> {
        let start = self.0.partition_point(|(time, _)| *time <= since);
        self.0.range(start..).map(|(_, event)| event)
    }

    fn discard_until(&mut self, before: Duration) {
        while self.0.front().is_some_and(|(time, _)| *time <= before) {
            self.0.pop_front();
        }
    }
}

impl SlidingWindow<SourcedEvent> {
    /// Adds an event that counts once however often its caller repeats it: only its latest time is kept.
    fn add_distinct(&mut self, at: Duration, event: SourcedEvent) {
        let earlier = self.0.iter().position(|(_, known)| known.is_same(&event));
        let known = earlier.and_then(|position| self.0.remove(position));
        self.add(known.map_or(at, |(time, _)| time.max(at)), event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    #[test]
    fn events_leave_a_window_with_time() {
        let mut counters = EventCounters::default();
        let mut check = |events: &[(CountedEvent, u64)], metric, now, window, expect: Option<f64>| {
            events.iter().for_each(|(event, second)| counters.record(*event, None, at(*second)));
            counters.discard_expired(at(now));
            assert_eq!(counters.read(metric, at(now), at(window), None), expect, "{metric:?} at {now}");
        };
        let violation = CountedEvent::Violation;
        check(&[], Metric::PolicyViolations, 0, 60, Some(0.0));
        check(&[(violation(1), 10), (violation(2), 20)], Metric::PolicyViolations, 60, 60, Some(2.0));
        check(&[], Metric::PolicyViolations, 70, 60, Some(1.0));
        check(&[], Metric::PolicyViolations, 70, 0, Some(0.0));
        // An event that is added late still counts at its own time.
        check(&[(violation(3), 15)], Metric::PolicyViolations, 74, 60, Some(2.0));
        check(&[], Metric::PolicyViolations, 10_000, 60, Some(0.0));
        check(&[], Metric::HighRiskCalls, 10_000, 60, Some(0.0));
        check(&[], Metric::CpuLoadPercent, 10_000, 60, None);
        check(&[(CountedEvent::Exhaustion, 10_000)], Metric::ResourceExhaustion, 10_001, 60, Some(1.0));
    }

    #[test]
    fn repeated_denied_effect_counts_once() {
        for (event, metric) in [
            (CountedEvent::Violation as fn(EffectId) -> CountedEvent, Metric::PolicyViolations),
            (CountedEvent::RefusedHighRisk, Metric::RefusedHighRiskCalls),
        ] {
            let mut counters = EventCounters::default();
            for second in 0..100 {
                counters.record(event(7), None, at(second));
            }
            assert_eq!(counters.read(metric, at(100), at(200), None), Some(1.0), "{metric:?}");
            // Its last occurrence decides when it leaves the window, also if an earlier one is added late.
            counters.record(event(7), None, at(50));
            assert_eq!(counters.read(metric, at(100), at(10), None), Some(1.0), "{metric:?}");
            counters.record(event(8), None, at(99));
            assert_eq!(counters.read(metric, at(100), at(200), None), Some(2.0), "{metric:?}");
        }
    }

    #[test]
    fn repetition_counts_one_caller_and_tool() {
        let mut counters = EventCounters::default();
        for owner in [1, 2, 1, 3, 1, 2] {
            counters.record(CountedEvent::Malformed(owner), None, at(5));
        }
        assert_eq!(counters.read(Metric::RepeatedValidationFailures, at(6), at(60), None), Some(3.0));
    }

    #[test]
    fn error_rate_needs_enough_calls() {
        let mut counters = EventCounters::default();
        let rate = |counters: &EventCounters| counters.read(Metric::ToolErrorRate, at(6), at(60), None);
        for end in [CountedEvent::Failed, CountedEvent::Failed, CountedEvent::Failed, CountedEvent::Ended] {
            counters.record(end, None, at(5));
        }
        assert_eq!(rate(&counters), None, "four calls are too few");
        counters.record(CountedEvent::Ended, None, at(5));
        assert_eq!(rate(&counters), Some(60.0));
    }

    #[test]
    fn number_of_kept_events_is_bounded() {
        let mut counters = EventCounters::default();
        for second in 0..10_000 {
            counters.record(CountedEvent::Malformed(second), None, at(1));
        }
        assert_eq!(counters.malformed.0.len(), MAX_EVENTS);
    }

    fn source(pid: i32) -> Option<EventSource> {
        let caller = tool::Caller {
            uid: 1,
            pid: Some(pid),
            endpoint: tool::CallerEndpoint::Socket,
            connection: 1,
            client: None,
            session: None,
            account: None,
        };
        EventSource::of(caller.key(), &std::sync::Arc::new(caller))
    }

    #[test]
    fn refusals_are_told_apart_by_caller() {
        let (metric, mut counters) = (Metric::PolicyViolations, EventCounters::default());
        for effect in 0..6 {
            counters.record(CountedEvent::Violation(effect), source(1), at(1));
        }
        counters.record(CountedEvent::Violation(0), source(2), at(1));
        counters.record(CountedEvent::Violation(9), None, at(1));
        let read = |counters: &EventCounters, excluded| counters.read(metric, at(2), at(60), excluded);
        assert_eq!(read(&counters, None), Some(7.0), "the same effect of two callers counts once");
        let main = counters.main_source(metric, at(2), at(60)).expect("six of eight");
        assert_eq!(main.key, CallerKey::of_pid(1));
        assert_eq!(read(&counters, Some(&main.key)), Some(2.0));
        counters.discard_refusals_of(&main.key);
        assert_eq!(read(&counters, None), Some(2.0));
        assert!(counters.main_source(metric, at(2), at(60)).is_none(), "one of two is not more than half");
    }
}
