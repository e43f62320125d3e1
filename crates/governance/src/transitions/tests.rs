//! State machine tests with simulated measurements and a simulated clock.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use strict_yaml::Document;
use tool::Mode;

use super::*;
use crate::Policy;
use crate::files::Metric;
use crate::policy_environment::{NameComparison, PathVariables, PolicyEnvironment, ProtectedFolders};
use crate::problems::FileInspection;

fn rules(text: &str) -> Arc<Transitions> {
    let text = format!("modes: {{NORMAL: {{}}}}\ntransition_rules:\n{text}");
    let document = Document::from_text("modes.yaml", &text).unwrap();
    let mut inspection = FileInspection::new(&document);
    let rules = check(&document.parse().unwrap(), &mut inspection).unwrap();
    assert!(inspection.errors.is_empty(), "{:?}", inspection.errors);
    Arc::new(rules)
}

fn seconds(at: u64) -> Duration {
    Duration::from_secs(at)
}

/// Time, measurements, and the expected mode afterwards.
type ObservationStep<'a> = (u64, &'a [(Metric, f64)], Mode);

/// Enters each change at once; a proposal is not entered.
fn check_steps(rules: &Arc<Transitions>, start: Mode, steps: &[ObservationStep<'_>]) {
    let mut machine = ModeMachine::new(Arc::clone(rules), start, seconds(0));
    for (at, measured, expect) in steps {
        let measured: HashMap<&str, f64> = measured.iter().map(|(m, v)| (m.as_str(), *v)).collect();
        let wanted = machine.observe(seconds(*at), |need| measured.get(need.metric.as_str()).copied());
        if let Some(TransitionAction::Change(transition)) = &wanted {
            assert_eq!(transition.from, machine.mode());
            machine.enter(transition.to, seconds(*at), ChangedBy::Rule);
        }
        assert_eq!(machine.mode(), *expect, "at {at} s: {wanted:?}");
    }
}

const CPU: Metric = Metric::CpuLoadPercent;
const REFUSED: Metric = Metric::RefusedHighRiskCalls;
const VIOLATIONS: Metric = Metric::PolicyViolations;
const DISK: Metric = Metric::DiskUsedPercent;

#[test]
fn a_condition_must_hold_for_its_whole_duration() {
    let rules = rules(
        "  NORMAL_to_ALERT: {conditions: [{metric: cpu_load_percent, operator: \">\", value: 85, duration_seconds: 30}]}\n",
    );
    let (high, low): (&[_], &[_]) = (&[(CPU, 90.0)], &[(CPU, 85.0)]);
    use Mode::{Alert, Normal};
    check_steps(&rules, Normal, &[(0, high, Normal), (29, high, Normal), (30, high, Alert)]);
    let spike =
        [(0, high, Normal), (20, low, Normal), (25, high, Normal), (40, high, Normal), (55, high, Alert)];
    check_steps(&rules, Normal, &spike);
    let unmeasured: [(u64, &[_], _); 4] =
        [(0, high, Normal), (20, &[], Normal), (25, high, Normal), (40, high, Normal)];
    check_steps(&rules, Normal, &unmeasured);
    check_steps(&rules, Normal, &[(0, high, Normal), (45, high, Normal), (75, high, Alert)]);
}

#[test]
fn every_operator_and_both_logics_work() {
    for (operator, below, at, above) in [
        (">", false, false, true),
        (">=", false, true, true),
        ("<", true, false, false),
        ("<=", true, true, false),
        ("==", false, true, false),
    ] {
        let rule = format!(
            "  NORMAL_to_ALERT: {{conditions: [{{metric: cpu_load_percent, operator: \"{operator}\", value: 5}}]}}\n"
        );
        for (value, fires) in [(4.0, below), (5.0, at), (6.0, above)] {
            let expect = if fires { Mode::Alert } else { Mode::Normal };
            check_steps(&rules(&rule), Mode::Normal, &[(0, &[(CPU, value)], expect)]);
        }
    }
    let two = "conditions: [{metric: cpu_load_percent, operator: \">\", value: 5}, {metric: disk_used_percent, operator: \">\", value: 5}]";
    for (logic, one, both) in [("any", Mode::Alert, Mode::Alert), ("all", Mode::Normal, Mode::Alert)] {
        let rules = rules(&format!("  NORMAL_to_ALERT: {{logic: {logic}, {two}}}\n"));
        check_steps(&rules, Mode::Normal, &[(0, &[(CPU, 9.0)], one)]);
        check_steps(&rules, Mode::Normal, &[(0, &[(CPU, 9.0), (DISK, 1.0)], one)]);
        check_steps(&rules, Mode::Normal, &[(0, &[(CPU, 9.0), (DISK, 9.0)], both)]);
    }
}

#[test]
fn no_conditions_and_no_measurements_change_nothing() {
    for logic in ["any", "all"] {
        let empty = rules(&format!("  NORMAL_to_ALERT: {{logic: {logic}, conditions: []}}\n"));
        check_steps(&empty, Mode::Normal, &[(0, &[], Mode::Normal), (100, &[(CPU, 99.0)], Mode::Normal)]);
        let one = rules(&format!(
            "  NORMAL_to_ALERT: {{logic: {logic}, conditions: [{{metric: cpu_load_percent, operator: \"<\", value: 5}}]}}\n"
        ));
        check_steps(&one, Mode::Normal, &[(0, &[], Mode::Normal), (10, &[(DISK, 1.0)], Mode::Normal)]);
    }
}

/// A reload that reorders the rules changes nothing.
#[test]
fn strictest_mode_wins_among_rules_that_fire() {
    let written = [
        "  NORMAL_to_ALERT: {conditions: [{metric: cpu_load_percent, operator: \">\", value: 5}]}\n",
        "  NORMAL_to_DEGRADED: {conditions: [{metric: disk_used_percent, operator: \">\", value: 90}]}\n",
        "  DEGRADED_to_NORMAL: {conditions: [{metric: cpu_load_percent, operator: \">\", value: 5}]}\n",
        "  DEGRADED_to_LOCKDOWN: {conditions: [{metric: disk_used_percent, operator: \">\", value: 90}]}\n",
    ];
    let both: &[_] = &[(CPU, 9.0), (DISK, 99.0)];
    let only_busy: &[_] = &[(CPU, 9.0), (DISK, 9.0)];
    let reversed: String = written.iter().rev().copied().collect();
    for text in [written.concat(), reversed] {
        let steps = [(0, only_busy, Mode::Alert), (1, both, Mode::Alert)];
        check_steps(&rules(&text), Mode::Normal, &steps);
        let steps = [(0, both, Mode::Degraded), (99, both, Mode::Lockdown), (199, both, Mode::Lockdown)];
        check_steps(&rules(&text), Mode::Normal, &steps);
    }
}

#[test]
fn loosening_waits_and_tightening_does_not() {
    let rules = rules(concat!(
        "  NORMAL_to_DEGRADED: {conditions: [{metric: disk_used_percent, operator: \">\", value: 97}]}\n",
        "  DEGRADED_to_NORMAL: {conditions: [{metric: disk_used_percent, operator: \"<\", value: 95}]}\n",
    ));
    let (full, free): (&[_], &[_]) = (&[(DISK, 99.0)], &[(DISK, 50.0)]);
    use Mode::{Degraded, Normal};
    let steps = [
        (0, full, Degraded),
        (5, free, Degraded),
        (59, free, Degraded),
        (60, free, Normal),
        (61, full, Degraded),
    ];
    check_steps(&rules, Normal, &steps);
}

#[test]
fn human_approved_change_is_proposed_once_and_withdrawn() {
    let rules = rules(concat!(
        "  ALERT_to_NORMAL:\n    logic: all\n    requires_human_approval: true\n    conditions:\n",
        "      - {metric: cpu_load_percent, operator: \"<\", value: 70}\n",
        "      - {metric: policy_violations, operator: \"==\", value: 0, window_seconds: 300}\n",
    ));
    let mut machine = ModeMachine::new(rules, Mode::Alert, seconds(0));
    let read = |cpu: f64| move |need: MetricQuery| Some(if need.metric.is_counted() { 0.0 } else { cpu });
    assert_eq!(machine.observe(seconds(10), read(5.0)), None, "the shortest stay");
    assert!(matches!(machine.observe(seconds(60), read(5.0)), Some(TransitionAction::Propose(_))));
    assert_eq!(machine.observe(seconds(65), read(5.0)), None, "proposed once");
    assert_eq!(machine.proposal().map(|proposal| proposal.to), Some(Mode::Normal), "and still pending");
    assert_eq!(machine.mode(), Mode::Alert);
    assert_eq!(machine.observe(seconds(70), read(80.0)), None);
    assert_eq!(machine.proposal(), None, "withdrawn once its condition fails");
    assert!(machine.observe(seconds(75), read(5.0)).is_some(), "and proposed anew");
    machine.enter(Mode::Normal, seconds(76), ChangedBy::Human);
    assert_eq!((machine.proposal(), machine.mode()), (None, Mode::Normal));
}

#[test]
fn human_mode_change_resets_counters() {
    let rules = rules(
        "  NORMAL_to_ALERT: {conditions: [{metric: refused_high_risk_calls, operator: \">\", value: 5, window_seconds: 60}]}\n",
    );
    check_steps(
        &rules,
        Mode::Normal,
        &[(1, &[(REFUSED, 5.0)], Mode::Normal), (2, &[(REFUSED, 6.0)], Mode::Alert)],
    );
    let mut machine = ModeMachine::new(rules, Mode::Alert, seconds(0));
    machine.enter(Mode::Normal, seconds(100), ChangedBy::Human);
    // The six calls at 90 s are in the window, but before the person set the mode at 100 s. An earlier mode
    // change is read from the ledger afterwards.
    machine.set_human_change(seconds(80));
    assert_eq!(machine.observe(seconds(110), six_events_at(90, 110)), None);
    assert!(machine.observe(seconds(110), six_events_at(105, 110)).is_some(), "new ones count");
}

/// Returns a reader that counts six events at `then`, evaluated at `now`.
fn six_events_at(then: u64, now: u64) -> impl Fn(MetricQuery) -> Option<f64> {
    move |need| Some(if need.window.unwrap() > seconds(now - then) { 6.0 } else { 0.0 })
}

#[test]
fn only_a_human_mode_change_resets_counters() {
    let rules = rules(
        "  NORMAL_to_ALERT: {conditions: [{metric: refused_high_risk_calls, operator: \">\", value: 5, window_seconds: 60}]}\n",
    );
    let fires = |prepare: &dyn Fn(&mut ModeMachine)| {
        let mut machine = ModeMachine::new(Arc::clone(&rules), Mode::Normal, seconds(0));
        prepare(&mut machine);
        machine.observe(seconds(110), six_events_at(90, 110)).is_some()
    };
    assert!(fires(&|_| {}));
    assert!(fires(&|machine| machine.enter(Mode::Normal, seconds(100), ChangedBy::Rule)));
    assert!(!fires(&|machine| machine.enter(Mode::Normal, seconds(100), ChangedBy::Human)));
    assert!(!fires(&|machine| machine.set_human_change(seconds(100))));
    assert!(fires(&|machine| machine.set_human_change(seconds(80))));
}

#[test]
fn loosening_rules_count_their_whole_window() {
    let rules = rules(concat!(
        "  ALERT_to_NORMAL:\n    requires_human_approval: true\n",
        "    conditions: [{metric: policy_violations, operator: \"==\", value: 0, window_seconds: 300}]\n",
    ));
    let mut machine = ModeMachine::new(rules, Mode::Normal, seconds(0));
    machine.enter(Mode::Alert, seconds(100), ChangedBy::Human);
    assert_eq!(machine.observe(seconds(200), six_events_at(90, 200)), None);
    assert!(machine.observe(seconds(390), six_events_at(90, 390)).is_some(), "three hundred seconds later");
}

#[test]
fn different_proposal_is_reported_again() {
    let rules = rules(concat!(
        "  NORMAL_to_ALERT: {requires_human_approval: true, conditions: [{metric: cpu_load_percent, operator: \">\", value: 5}]}\n",
        "  NORMAL_to_DEGRADED: {requires_human_approval: true, conditions: [{metric: disk_used_percent, operator: \">\", value: 5}]}\n",
    ));
    let mut machine = ModeMachine::new(rules, Mode::Normal, seconds(0));
    let mut proposed = |at: u64, metric: Metric| {
        let moved = machine.observe(seconds(at), |need| (need.metric == metric).then_some(9.0));
        moved.map(|moved| match moved {
            TransitionAction::Propose(transition) | TransitionAction::Change(transition) => transition.to,
        })
    };
    assert_eq!(proposed(1, CPU), Some(Mode::Alert));
    assert_eq!(proposed(2, CPU), None);
    assert_eq!(proposed(3, DISK), Some(Mode::Degraded));
}

#[test]
fn changed_rules_reset_conditions() {
    let of = |value: u32| {
        rules(&format!(
            "  NORMAL_to_ALERT: {{conditions: [{{metric: cpu_load_percent, operator: \">\", value: {value}, duration_seconds: 30}}]}}\n"
        ))
    };
    let fires_at = |followed: Arc<Transitions>| {
        let mut machine = ModeMachine::new(of(85), Mode::Normal, seconds(0));
        let fires =
            |at: u64, machine: &mut ModeMachine| machine.observe(seconds(at), |_| Some(90.0)).is_some();
        assert!(!fires(0, &mut machine));
        machine.set_rules(followed);
        [15, 30, 45].into_iter().find(|at| fires(*at, &mut machine))
    };
    assert_eq!(fires_at(of(85)), Some(30));
    assert_eq!(fires_at(of(80)), Some(45), "under the new rules it holds since 15 s");
    assert_eq!(fires_at(of(95)), None);
}

#[test]
fn some_rules_can_fire_by_time_alone() {
    let ripens = |mode: Mode, condition: &str| {
        let rules = rules(&format!("  NORMAL_to_ALERT: {{conditions: [{{{condition}}}]}}\n"));
        ModeMachine::new(rules, mode, seconds(0)).can_fire_by_time()
    };
    let cpu = "metric: cpu_load_percent, value: 5, operator";
    let counted = "metric: policy_violations, value: 5, window_seconds: 9, operator";
    assert!(ripens(Mode::Normal, &format!("{cpu}: \">\", duration_seconds: 1")));
    assert!(!ripens(Mode::Alert, &format!("{cpu}: \">\", duration_seconds: 1")), "it leaves another mode");
    assert!(!ripens(Mode::Normal, &format!("{cpu}: \"<\"")), "it is measured or not");
    for (operator, expect) in [("<", true), ("<=", true), ("==", true), (">", false), (">=", false)] {
        assert_eq!(ripens(Mode::Normal, &format!("{counted}: \"{operator}\"")), expect, "{operator}");
    }
}

#[test]
fn reading_is_displayed_with_its_threshold() {
    let reading = |value, window_seconds, held_seconds| {
        let (metric, operator, limit) = ("cpu_load_percent", ">", 95.5);
        MetricReading { metric, value, operator, limit, window_seconds, held_seconds }.to_string()
    };
    assert_eq!(reading(Some(97.0), None, Some(0)), "cpu_load_percent 97 > 95.5");
    assert_eq!(reading(Some(97.0), None, Some(120)), "cpu_load_percent 97 > 95.5 for 120 s");
    assert_eq!(reading(Some(97.0), Some(60), Some(120)), "cpu_load_percent 97 > 95.5 in 60 s");
    assert_eq!(reading(None, None, None), "cpu_load_percent is not known");
}

#[test]
fn reason_names_rule_line_and_measurement() {
    let rules = rules(concat!(
        "  NORMAL_to_ALERT:\n    conditions:\n",
        "      - {metric: policy_violations, operator: \">\", value: 10, window_seconds: 600}\n",
        "      - {metric: cpu_load_percent, operator: \">\", value: 95, duration_seconds: 120}\n",
    ));
    let mut machine = ModeMachine::new(rules, Mode::Normal, seconds(0));
    let wanted = machine.observe(seconds(3), |need| (need.metric == VIOLATIONS).then_some(11.0));
    let Some(TransitionAction::Change(transition)) = wanted else { panic!("{wanted:?}") };
    assert_eq!(
        transition.reason(),
        "transition_rules.NORMAL_to_ALERT (modes.yaml line 3): policy_violations 11 > 10 in 600 s"
    );
    let sensors = transition.sensors();
    assert_eq!((&sensors[0]["value"], &sensors[1]["value"]), (&11.0.into(), &serde_json::Value::Null));
}

#[test]
fn nonsensical_rules_are_reported() {
    let reported = |rest: &str| {
        let text = format!("modes: {{NORMAL: {{}}}}\ntransition_rules:\n{rest}");
        let document = Document::from_text("modes.yaml", &text).unwrap();
        let mut inspection = FileInspection::new(&document);
        check(&document.parse().unwrap(), &mut inspection);
        let all = inspection.errors.iter().chain(&inspection.warnings).map(ToString::to_string);
        all.collect::<Vec<_>>().join("\n")
    };
    let one = |condition: &str| reported(&format!("  NORMAL_to_ALERT: {{conditions: [{{{condition}}}]}}\n"));
    for (condition, expect) in [
        ("metric: cpu_load_percent, operator: \">\", value: 5, window_seconds: 9", "has no window"),
        ("metric: policy_violations, operator: \">\", value: 5", "counted over 60 s"),
        ("metric: policy_violations, operator: \">\", value: 5, window_seconds: 0", "counts nothing"),
        ("metric: policy_violations, operator: \">\", value: 5, window_seconds: 3601", "at most 3600"),
        ("metric: cpu_load_percent, operator: \">\", value: -5", "at least 0"),
        ("metric: policy_violations, operator: \">\", value: 4096, window_seconds: 9", "is at most 4096"),
        ("metric: high_risk_calls, operator: \">=\", value: 4097, window_seconds: 9", "is at most 4096"),
        ("metric: resource_exhaustion, operator: \"==\", value: 5000, window_seconds: 9", "is at most 4096"),
        (
            "metric: disk_used_percent, operator: \">\", value: 100",
            "is at most 100, and the threshold is 100",
        ),
        ("metric: memory_pressure, operator: \">=\", value: 5", "is at most 4"),
    ] {
        assert!(one(condition).contains(expect), "{condition}: {}", one(condition));
    }
    for condition in [
        "metric: policy_violations, operator: \">\", value: 4095, window_seconds: 9",
        "metric: policy_violations, operator: \">=\", value: 4096, window_seconds: 9",
        "metric: policy_violations, operator: \"<\", value: 5000, window_seconds: 9",
        "metric: policy_violations, operator: \">\", value: 5, window_seconds: 3600",
        "metric: memory_pressure, operator: \"==\", value: 4",
    ] {
        assert_eq!(one(condition), "", "{condition}");
    }
    let flaps = reported(concat!(
        "  NORMAL_to_DEGRADED: {conditions: [{metric: disk_used_percent, operator: \">\", value: 90}]}\n",
        "  DEGRADED_to_NORMAL: {conditions: [{metric: disk_used_percent, operator: \"<\", value: 95}]}\n",
    ));
    assert!(flaps.contains("leads both to DEGRADED and back to NORMAL"), "{flaps}");
    let pair = |there: &str, back: (&str, &str)| {
        let disk = |test: &str| format!("{{conditions: [{{metric: disk_used_percent, {test}}}]}}");
        reported(&format!("  NORMAL_to_DEGRADED: {}\n  {}: {}\n", disk(there), back.0, disk(back.1)))
    };
    let (above, below) = ("operator: \">\", value: 90", "operator: \"<\", value: 95");
    assert_eq!(pair(above, ("DEGRADED_to_LOCKDOWN", below)), "", "no way back");
    assert_eq!(pair(above, ("ALERT_to_NORMAL", below)), "", "from elsewhere");
    assert_eq!(pair(above, ("DEGRADED_to_NORMAL", "operator: \">\", value: 95")), "");
    assert_eq!(pair("operator: \"<\", value: 96", ("DEGRADED_to_NORMAL", below)), "");
    let empty = reported("  NORMAL_to_ALERT: {conditions: []}\n");
    assert!(empty.contains("has no conditions and never fires"), "{empty}");
    let nowhere = reported("  NORMAL_to_LOCKDOWN: {conditions: []}\n");
    assert!(nowhere.contains("from NORMAL a rule may lead to ALERT or DEGRADED"), "{nowhere}");
}

#[test]
fn busy_processor_does_not_change_the_mode() {
    let environment = PolicyEnvironment {
        variables: PathVariables::with_home(Path::new("/home/ada")),
        protected: ProtectedFolders::default(),
        name_comparison: NameComparison::CaseSensitive,
    };
    let policy = Policy::embedded(&environment).unwrap();
    let mut machine = ModeMachine::new(Arc::clone(&policy.transitions), Mode::Normal, seconds(0));
    let busy = |need: MetricQuery| match need.metric {
        Metric::CpuLoadPercent => Some(100.0),
        Metric::MemoryPressure => Some(1.0),
        _ => Some(0.0),
    };
    for second in 0..3600 {
        let moved = machine.observe(seconds(second), busy);
        assert!(moved.is_none(), "{second}: {moved:?}");
    }
    let refused = |need: MetricQuery| (need.metric == Metric::RefusedHighRiskCalls).then_some(10.0);
    assert!(machine.observe(seconds(3600), refused).is_some(), "the rules are evaluated");
}

#[test]
fn person_may_set_edges_and_lockdown() {
    let ways = |from: Mode| modes_settable_from(from).map(Mode::as_str).collect::<Vec<_>>().join(" ");
    assert_eq!(ways(Mode::Normal), "ALERT DEGRADED LOCKDOWN");
    assert_eq!(ways(Mode::Alert), "NORMAL DEGRADED LOCKDOWN");
    assert_eq!(ways(Mode::Degraded), "NORMAL LOCKDOWN");
    assert_eq!(ways(Mode::Lockdown), "RECOVERY");
    assert_eq!(ways(Mode::Recovery), "NORMAL LOCKDOWN");
}

/// Pseudo-random numbers with a fixed seed.
struct TransitionRng(u64);

impl TransitionRng {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % most
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[usize::try_from(self.below(list.len() as u64)).unwrap()]
    }
}

fn random_rules(dice: &mut TransitionRng) -> Arc<Transitions> {
    use crate::files::{Logic, Operator};
    let count = 3 + dice.below(6);
    let rule = |dice: &mut TransitionRng| TransitionRule {
        // Any pair of modes: the state machine checks the edges as well, not only the loader.
        from: dice.pick(&Mode::ALL),
        to: dice.pick(&Mode::ALL),
        logic: dice.pick(&[Logic::Any, Logic::All]),
        conditions: (0..dice.below(3))
            .map(|_| TransitionCondition {
                metric: dice.pick(&[CPU, DISK, REFUSED]),
                operator: dice.pick(&[Operator::Above, Operator::AtLeast, Operator::Below, Operator::Equal]),
                value: dice.below(3) as f64,
                duration: seconds(dice.pick(&[0, 0, 10])),
                window: None,
            })
            .collect(),
        approval: dice.pick(&[TransitionApproval::NotRequired, TransitionApproval::Required]),
        location: tool::RuleRef { file: "".into(), line: 0, id: "".into() },
    };
    Arc::new(Transitions { rules: (0..count).map(|_| rule(dice)).collect() })
}

#[test]
fn random_measurements_follow_edges_and_keep_lockdown() {
    let (mut dice, mut changes) = (TransitionRng(0x9e37_79b9_7f4a_7c15), 0);
    for _ in 0..2_000 {
        let rules = random_rules(&mut dice);
        let start = dice.pick(&Mode::ALL);
        let mut machine = ModeMachine::new(Arc::clone(&rules), start, seconds(0));
        let mut now = 0;
        for _ in 0..50 {
            now += dice.pick(&[0, 1, 5, 29, 40, 100]);
            let measured = [dice.below(4), dice.below(4), dice.below(4)];
            let before = machine.mode();
            let read = |need: MetricQuery| {
                let at = [CPU, DISK, REFUSED].iter().position(|metric| *metric == need.metric)?;
                (measured[at] < 3).then_some(measured[at] as f64)
            };
            if let Some(TransitionAction::Change(wanted)) = machine.observe(seconds(now), read) {
                assert!(edges::is_rule_edge(before, wanted.to), "{before} to {}", wanted.to);
                assert!(
                    !matches!(before, Mode::Lockdown | Mode::Recovery),
                    "{before} was left without a human"
                );
                let mut between =
                    rules.rules.iter().filter(|rule| (rule.from, rule.to) == (before, wanted.to));
                assert!(
                    between.any(|rule| rule.approval == TransitionApproval::NotRequired
                        && !rule.conditions.is_empty())
                );
                machine.enter(wanted.to, seconds(now), ChangedBy::Rule);
                changes += 1;
            }
            assert!(machine.proposal().is_none_or(|wish| edges::is_rule_edge(machine.mode(), wish.to)));
        }
    }
    assert!(changes > 100, "too few random changes: {changes}");
}
