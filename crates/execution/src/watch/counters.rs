//! What has happened lately, as far as a rule can ask: sliding windows over the last hour, bounded whatever comes.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use governance::files::Metric;

/// The longest window a rule may have.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// So many of one kind are kept; the oldest go first. The policy warns of a rule that asks for more.
const MOST: usize = governance::MOST_COUNTED as usize;
/// With fewer ends than this a rate says nothing.
const FEWEST_ENDS: usize = 5;

/// Something that a rule can count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// The policy or a human refused a call.
    Violation,
    /// A call that can do harm was started.
    HighRisk,
    /// A call that can do harm was refused, or nobody was there to approve it.
    RefusedHighRisk,
    /// A call was malformed; whose and which tool, as one number.
    Malformed(u64),
    /// The machine ran out of something.
    Exhaustion,
    /// A call came to an end, through no fault of its tool or of the machine.
    Ended,
    /// A call failed, and its caller could not have helped it.
    Failed,
}

impl Counted {
    /// Whether a rule may want to know at once.
    pub(crate) fn is_trouble(self) -> bool {
        self != Counted::Ended
    }
}

/// Everything that was counted, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    violations: Lately<()>,
    high_risk: Lately<()>,
    refused_high_risk: Lately<()>,
    malformed: Lately<u64>,
    exhaustion: Lately<()>,
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
            Counted::Ended => self.ends.add(at, End::Well),
            Counted::Failed => self.ends.add(at, End::Badly),
        }
    }

    /// A metric over a window that ends now. Nothing where it is not counted, or where there is too little to say.
    pub(crate) fn read(&self, metric: Metric, now: Duration, window: Duration) -> Option<f64> {
        let since = now.saturating_sub(window);
        let count = match metric {
            Metric::PolicyViolations => self.violations.after(since).count(),
            Metric::HighRiskCalls => self.high_risk.after(since).count(),
            Metric::RefusedHighRiskCalls => self.refused_high_risk.after(since).count(),
            Metric::ResourceExhaustion => self.exhaustion.after(since).count(),
            Metric::RepeatedValidationFailures => most_of_one(self.malformed.after(since)),
            Metric::ToolErrorRate => return error_rate(self.ends.after(since)),
            Metric::CpuLoadPercent
            | Metric::MemoryUsedPercent
            | Metric::MemoryPressure
            | Metric::DiskUsedPercent => return None,
        };
        u32::try_from(count).ok().map(f64::from)
    }

    /// Lets go of what no window reaches any more.
    pub(crate) fn forget_before(&mut self, now: Duration) {
        let since = now.saturating_sub(LONGEST);
        for times in
            [&mut self.violations, &mut self.high_risk, &mut self.refused_high_risk, &mut self.exhaustion]
        {
            times.forget(since);
        }
        self.malformed.forget(since);
        self.ends.forget(since);
    }
}

/// The most that came from one source.
fn most_of_one<'a>(sources: impl Iterator<Item = &'a u64>) -> usize {
    let mut counts: HashMap<u64, usize> = HashMap::new();
    for source in sources {
        *counts.entry(*source).or_default() += 1;
    }
    counts.into_values().max().unwrap_or(0)
}

/// The percentage that ended badly.
fn error_rate<'a>(ends: impl Iterator<Item = &'a End>) -> Option<f64> {
    let (mut all, mut bad) = (0_u32, 0_u32);
    for end in ends {
        all += 1;
        bad += u32::from(*end == End::Badly);
    }
    let enough = usize::try_from(all).is_ok_and(|all| all >= FEWEST_ENDS);
    enough.then(|| f64::from(bad) / f64::from(all) * 100.0)
}

/// Times in order, each with what came with it.
#[derive(Debug)]
struct Lately<T>(VecDeque<(Duration, T)>);

impl<T> Default for Lately<T> {
    fn default() -> Self {
        Lately(VecDeque::new())
    }
}

impl<T> Lately<T> {
    /// Usually the newest; what is recalled from the record may come later than it happened.
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

    /// What happened after a moment; what happened at it has left the window.
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
    fn windows_slide() {
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
        // Recalled late, it still counts where it belongs.
        check(&[(violation, 15)], Metric::PolicyViolations, 74, 60, Some(2.0));
        check(&[], Metric::PolicyViolations, 10_000, 60, Some(0.0));
        check(&[], Metric::HighRiskCalls, 10_000, 60, Some(0.0));
        check(&[], Metric::CpuLoadPercent, 10_000, 60, None);
        check(&[(Counted::Exhaustion, 10_000)], Metric::ResourceExhaustion, 10_001, 60, Some(1.0));
    }

    #[test]
    fn repetition_is_of_one_caller_and_tool() {
        let mut counters = Counters::default();
        for whose in [1, 2, 1, 3, 1, 2] {
            counters.note(Counted::Malformed(whose), at(5));
        }
        assert_eq!(counters.read(Metric::RepeatedValidationFailures, at(6), at(60)), Some(3.0));
    }

    #[test]
    fn a_rate_needs_enough_to_be_one() {
        let mut counters = Counters::default();
        let rate = |counters: &Counters| counters.read(Metric::ToolErrorRate, at(6), at(60));
        for end in [Counted::Failed, Counted::Failed, Counted::Failed, Counted::Ended] {
            counters.note(end, at(5));
        }
        assert_eq!(rate(&counters), None, "four calls say nothing");
        counters.note(Counted::Ended, at(5));
        assert_eq!(rate(&counters), Some(60.0));
    }

    #[test]
    fn memory_is_bounded_whatever_comes() {
        let mut counters = Counters::default();
        for second in 0..10_000 {
            counters.note(Counted::Malformed(second), at(1));
        }
        assert_eq!(counters.malformed.0.len(), MOST);
    }
}
