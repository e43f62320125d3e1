//! Event counters for the mode rules: sliding windows over the last hour, with bounded memory.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use governance::files::Metric;

/// Longest window that a rule may have.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// Maximum number of events kept per kind; the oldest are dropped first. The policy loader warns about a rule
/// that needs more.
const MOST: usize = governance::MOST_COUNTED as usize;
/// Minimum number of ended calls for an error rate.
const FEWEST_ENDS: usize = 5;

/// Event that a rule can count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// The policy or the operator refused a call.
    Violation,
    /// A high-risk call was started.
    HighRisk,
    /// A high-risk call was refused, or timed out waiting for approval.
    RefusedHighRisk,
    /// A call was malformed. The number is a hash of its connection and tool.
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

impl Counted {
    /// Returns true if the rules must be evaluated at once.
    pub(crate) fn is_trouble(self) -> bool {
        self != Counted::Ended
    }
}

/// Counted events, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    violations: Lately<()>,
    high_risk: Lately<()>,
    refused_high_risk: Lately<()>,
    malformed: Lately<u64>,
    exhaustion: Lately<()>,
    ledger_pressure: Lately<()>,
    ends: Lately<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Well,
    Badly,
}

impl Counters {
    pub(crate) fn note(&mut self, what: Counted, at: Duration) {
        match what {
            Counted::Violation => self.violations.add(at, ()),
            Counted::HighRisk => self.high_risk.add(at, ()),
            Counted::RefusedHighRisk => self.refused_high_risk.add(at, ()),
            Counted::Malformed(whose) => self.malformed.add(at, whose),
            Counted::Exhaustion => self.exhaustion.add(at, ()),
            Counted::LedgerPressure => self.ledger_pressure.add(at, ()),
            Counted::Ended => self.ends.add(at, End::Well),
            Counted::Failed => self.ends.add(at, End::Badly),
        }
    }

    /// Value of a metric over the window that ends now. `None` if it is not a counted metric, or if there are
    /// too few calls for a rate.
    pub(crate) fn read(&self, metric: Metric, now: Duration, window: Duration) -> Option<f64> {
        let since = now.saturating_sub(window);
        let count = match metric {
            Metric::PolicyViolations => self.violations.after(since).count(),
            Metric::HighRiskCalls => self.high_risk.after(since).count(),
            Metric::RefusedHighRiskCalls => self.refused_high_risk.after(since).count(),
            Metric::ResourceExhaustion => self.exhaustion.after(since).count(),
            Metric::LedgerPressure => self.ledger_pressure.after(since).count(),
            Metric::RepeatedValidationFailures => most_of_one(self.malformed.after(since)),
            Metric::ToolErrorRate => return error_rate(self.ends.after(since)),
            Metric::CpuLoadPercent
            | Metric::MemoryUsedPercent
            | Metric::MemoryPressure
            | Metric::DiskUsedPercent => return None,
        };
        u32::try_from(count).ok().map(f64::from)
    }

    /// Drops events that are older than every window.
    pub(crate) fn forget_before(&mut self, now: Duration) {
        let since = now.saturating_sub(LONGEST);
        for times in [
            &mut self.violations,
            &mut self.high_risk,
            &mut self.refused_high_risk,
            &mut self.exhaustion,
            &mut self.ledger_pressure,
        ] {
            times.forget(since);
        }
        self.malformed.forget(since);
        self.ends.forget(since);
    }
}

/// Largest number of events from one source.
fn most_of_one<'a>(sources: impl Iterator<Item = &'a u64>) -> usize {
    let mut counts: HashMap<u64, usize> = HashMap::new();
    for source in sources {
        *counts.entry(*source).or_default() += 1;
    }
    counts.into_values().max().unwrap_or(0)
}

/// Percentage of calls that failed.
fn error_rate<'a>(ends: impl Iterator<Item = &'a End>) -> Option<f64> {
    let (mut all, mut bad) = (0_u32, 0_u32);
    for end in ends {
        all += 1;
        bad += u32::from(*end == End::Badly);
    }
    let enough = usize::try_from(all).is_ok_and(|all| all >= FEWEST_ENDS);
    enough.then(|| f64::from(bad) / f64::from(all) * 100.0)
}

/// Events in order of time.
#[derive(Debug)]
struct Lately<T>(VecDeque<(Duration, T)>);

impl<T> Default for Lately<T> {
    fn default() -> Self {
        Lately(VecDeque::new())
    }
}

impl<T> Lately<T> {
    /// Adds an event. It is normally the newest, but events restored from the ledger may be added after newer
    /// ones.
    fn add(&mut self, at: Duration, what: T) {
        match self.0.back() {
            Some((newest, _)) if *newest > at => {
                let place = self.0.partition_point(|(time, _)| *time <= at);
                self.0.insert(place, (at, what));
            }
            _ => self.0.push_back((at, what)),
        }
        if self.0.len() > MOST {
            self.0.pop_front();
        }
    }

    /// Events after `since`; an event at exactly that time has left the window.
    fn after(&self, since: Duration) -> impl Iterator<Item = &T> {
        let start = self.0.partition_point(|(time, _)| *time <= since);
        self.0.range(start..).map(|(_, what)| what)
    }

    fn forget(&mut self, before: Duration) {
        while self.0.front().is_some_and(|(time, _)| *time <= before) {
            self.0.pop_front();
        }
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
        let mut counters = Counters::default();
        let mut check = |what: &[(Counted, u64)], metric, now, window, expect: Option<f64>| {
            what.iter().for_each(|(what, second)| counters.note(*what, at(*second)));
            counters.forget_before(at(now));
            assert_eq!(counters.read(metric, at(now), at(window)), expect, "{metric:?} at {now}");
        };
        let violation = Counted::Violation;
        check(&[], Metric::PolicyViolations, 0, 60, Some(0.0));
        check(&[(violation, 10), (violation, 20)], Metric::PolicyViolations, 60, 60, Some(2.0));
        check(&[], Metric::PolicyViolations, 70, 60, Some(1.0));
        check(&[], Metric::PolicyViolations, 70, 0, Some(0.0));
        // An event that is added late still counts at its own time.
        check(&[(violation, 15)], Metric::PolicyViolations, 74, 60, Some(2.0));
        check(&[], Metric::PolicyViolations, 10_000, 60, Some(0.0));
        check(&[], Metric::HighRiskCalls, 10_000, 60, Some(0.0));
        check(&[], Metric::CpuLoadPercent, 10_000, 60, None);
        check(&[(Counted::Exhaustion, 10_000)], Metric::ResourceExhaustion, 10_001, 60, Some(1.0));
    }

    #[test]
    fn repetition_counts_one_caller_and_tool() {
        let mut counters = Counters::default();
        for whose in [1, 2, 1, 3, 1, 2] {
            counters.note(Counted::Malformed(whose), at(5));
        }
        assert_eq!(counters.read(Metric::RepeatedValidationFailures, at(6), at(60)), Some(3.0));
    }

    #[test]
    fn error_rate_needs_enough_calls() {
        let mut counters = Counters::default();
        let rate = |counters: &Counters| counters.read(Metric::ToolErrorRate, at(6), at(60));
        for end in [Counted::Failed, Counted::Failed, Counted::Failed, Counted::Ended] {
            counters.note(end, at(5));
        }
        assert_eq!(rate(&counters), None, "four calls are too few");
        counters.note(Counted::Ended, at(5));
        assert_eq!(rate(&counters), Some(60.0));
    }

    #[test]
    fn number_of_kept_events_is_bounded() {
        let mut counters = Counters::default();
        for second in 0..10_000 {
            counters.note(Counted::Malformed(second), at(1));
        }
        assert_eq!(counters.malformed.0.len(), MOST);
    }
}
