//! The shipped transition rules against synthetic weeks of ordinary work: an agent's typical mistakes and their
//! repairs change no mode.

use std::path::Path;
use std::time::Duration;

use governance::Policy;
use governance::files::Metric;
use governance::policy_environment::{NameComparison, PathVariables, PolicyEnvironment, ProtectedFolders};
use governance::transitions::{ModeMachine, TransitionAction};
use tool::caller::CallerKey;
use tool::{FailureKind, Mode, RefusalCode, RiskLevel};

use super::call_events::{RefusedCall, failure_events};
use super::event_counters::{CountedEvent, EventCounters};
use super::read_metric;

const WEEKS: u64 = 20;
const WORK_DAYS: u64 = 5;
const WORK_HOURS: u64 = 8;
const CALLS_PER_HOUR: u64 = 200;

/// Mistake that an agent makes and repairs.
struct Episode {
    times_per_day: u64,
    code: RefusalCode,
    risk: RiskLevel,
    /// Range of the number of different targets, such as paths or commands.
    targets: (u64, u64),
    /// Attempts for each target.
    repeats: u64,
    /// Time from the first attempt to the last.
    seconds: u64,
}

/// Mistakes of one working day. The numbers are generous for one operator with a few agents.
const EPISODES: [Episode; 8] = [
    // Arguments are missing or misspelled; the refusal says how to correct them.
    episode(20, RefusalCode::InvalidArguments, RiskLevel::Medium, (1, 1), 2, 30),
    // Files outside of the workspace.
    episode(8, RefusalCode::PathNotAllowed, RiskLevel::Low, (1, 4), 1, 90),
    // The search for a permitted build tool: npm, then yarn, then pnpm.
    episode(4, RefusalCode::CommandNotAllowed, RiskLevel::High, (2, 4), 1, 60),
    // One mistake, repeated without a change.
    episode(3, RefusalCode::CommandNotAllowed, RiskLevel::High, (1, 1), 6, 50),
    // Links that a search has found.
    episode(3, RefusalCode::DomainNotAllowed, RiskLevel::Medium, (3, 7), 1, 300),
    // Environment files of a repository with many packages.
    episode(1, RefusalCode::PathForbidden, RiskLevel::Low, (5, 9), 1, 180),
    // Approvals that expire while the operator is away.
    episode(1, RefusalCode::ApprovalTimedOut, RiskLevel::High, (3, 4), 1, 1200),
    // Calls that the operator denies.
    episode(2, RefusalCode::ApprovalDenied, RiskLevel::High, (1, 2), 1, 120),
];

const fn episode(
    times_per_day: u64,
    code: RefusalCode,
    risk: RiskLevel,
    targets: (u64, u64),
    repeats: u64,
    seconds: u64,
) -> Episode {
    Episode { times_per_day, code, risk, targets, repeats, seconds }
}

struct WeekRng(u64);

impl WeekRng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }
}

/// Returns the events of one week, in the order of time.
fn ordinary_week(rng: &mut WeekRng) -> Vec<(Duration, CountedEvent)> {
    let mut events = Vec::new();
    for day in 0..WORK_DAYS {
        let morning = (day * 24 + 9) * 3600;
        let length = WORK_HOURS * 3600;
        for _ in 0..WORK_HOURS * CALLS_PER_HOUR {
            let at = morning + rng.below(length);
            events.push((at, CountedEvent::Ended));
            events.extend((rng.below(6) == 0).then_some((at, CountedEvent::HighRisk)));
        }
        // The network is unavailable for five minutes.
        let outage = morning + rng.below(length);
        for second in (0..300).step_by(20) {
            events
                .extend(failure_events(FailureKind::Transient, second).map(|event| (outage + second, event)));
        }
        for mistake in &EPISODES {
            for _ in 0..mistake.times_per_day {
                let begin = morning + rng.below(length);
                add_episode(mistake, begin, rng, &mut events);
            }
        }
    }
    events.sort_by_key(|(at, _)| *at);
    events.into_iter().map(|(at, event)| (Duration::from_secs(at), event)).collect()
}

fn add_episode(mistake: &Episode, begin: u64, rng: &mut WeekRng, events: &mut Vec<(u64, CountedEvent)>) {
    let targets = mistake.targets.0 + rng.below(mistake.targets.1 - mistake.targets.0 + 1);
    for target in 0..targets {
        for attempt in 0..mistake.repeats {
            let at =
                begin + mistake.seconds * (target * mistake.repeats + attempt) / (targets * mistake.repeats);
            let refused = RefusedCall {
                code: mistake.code,
                detail: None,
                tool: "some_tool",
                caller: &CallerKey::of_pid(1),
                risk: mistake.risk,
                effect: begin.wrapping_mul(31) + target,
            };
            events.extend(refused.events().map(|event| (at, event)));
        }
    }
}

#[test]
fn shipped_rules_are_quiet_in_ordinary_weeks() {
    let environment = PolicyEnvironment {
        variables: PathVariables::with_home(Path::new("/home/ada")),
        protected: ProtectedFolders::default(),
        name_comparison: NameComparison::CaseSensitive,
    };
    let rules = Policy::embedded(&environment).unwrap().transitions();
    let mut highest = [0.0_f64; 2];
    for week in 0..WEEKS {
        let (mut counters, mut machine) = (EventCounters::default(), None);
        for (at, event) in ordinary_week(&mut WeekRng(week)) {
            let machine = machine.get_or_insert_with(|| ModeMachine::new(rules.clone(), Mode::Normal, at));
            // Without a caller no suspension can replace the mode change.
            counters.record(event, None, at);
            counters.discard_expired(at);
            let action = machine.observe(at, |need| read_metric(&counters, None, at, need, None));
            if let Some(TransitionAction::Change(change)) = action {
                panic!(
                    "week {week}, {} h: {} to {}, {:?}",
                    at.as_secs() / 3600,
                    change.from,
                    change.to,
                    change.readings
                );
            }
            for (highest, (metric, window)) in
                highest.iter_mut().zip([(Metric::PolicyViolations, 600), (Metric::RefusedHighRiskCalls, 60)])
            {
                let value = counters.read(metric, at, Duration::from_secs(window), None).unwrap_or_default();
                *highest = highest.max(value);
            }
        }
    }
    println!(
        "highest in {WEEKS} weeks: {} violations in 600 s, {} refused high-risk calls in 60 s",
        highest[0], highest[1]
    );
    assert!(highest[0] >= 9.0 && highest[1] >= 4.0, "the weeks contain mistakes: {highest:?}");
}

/// Counterpart of the test above: the rules fire on calls that are not ordinary.
#[test]
fn shipped_rules_notice_a_scan() {
    let environment = PolicyEnvironment {
        variables: PathVariables::with_home(Path::new("/home/ada")),
        protected: ProtectedFolders::default(),
        name_comparison: NameComparison::CaseSensitive,
    };
    let rules = Policy::embedded(&environment).unwrap().transitions();
    let mut machine = ModeMachine::new(rules, Mode::Normal, Duration::from_secs(7200));
    let mut counters = EventCounters::default();
    let changed = (0..60).find(|effect| {
        let at = Duration::from_secs(7200 + 5 * effect);
        counters.record(CountedEvent::Violation(*effect), None, at);
        let action = machine.observe(at, |need| read_metric(&counters, None, at, need, None));
        matches!(action, Some(TransitionAction::Change(change)) if change.to == Mode::Alert)
    });
    assert!(changed.is_some_and(|refusals| refusals < 40), "{changed:?}");
}
