//! The trail of a verdict: every rule that was looked at, in order, and what would have to change.

use serde_json::{Value, json};
use tool::Mode;

use super::machine::{Machine, Outcome, machine, valid};
use crate::{Said, Trail};

/// What was looked at: `line id said`, with the floor and definition as line 0.
fn trail(machine: &Machine, tool: &str, arguments: &Value) -> (Outcome, Trail) {
    let arguments = arguments.to_string().replace("$ROOT", &machine.root.display().to_string());
    let call = || valid(tool, serde_json::from_str(&arguments).unwrap());
    let mut trail = Trail::on();
    let outcome = Outcome::of(machine.traced(call(), &mut trail));
    let plain = Outcome::of(machine.verdict(call()));
    assert_eq!((&outcome.word, &outcome.rules), (&plain.word, &plain.rules), "a trail changes nothing");
    (outcome, trail)
}

/// The steps that are no part of the floor, in short.
fn steps(trail: &Trail) -> Vec<String> {
    let written = trail.steps().iter().filter(|step| !step.rule.id.starts_with("floor."));
    written.map(|step| format!("{} {} {:?}", step.rule.line, step.rule.id, step.said)).collect()
}

const TOOLS: &str = "tools:
  read_file:
    allowed_in_modes: [NORMAL]
    requires_approval_in_modes: [ALERT]
    forbidden_in_modes: [LOCKDOWN]
    forbidden_paths:
      - /etc
      - \"$ROOT/ws/sub\"
      - /usr
    allowed_paths:
      - /srv
      - \"$ROOT/ws/**\"
    rate_limit_per_hour: 3
";

#[test]
fn a_permit_names_every_rule_it_passed_and_those_that_did_not_apply() {
    let (outcome, trail) = trail(&machine(TOOLS), "read_file", &json!({"path": "a.txt"}));
    assert_eq!(outcome.word, "permit");
    let expect = [
        "5 read_file.forbidden_in_modes DoesNotApply",
        "4 read_file.requires_approval_in_modes DoesNotApply",
        "3 read_file.allowed_in_modes Passes",
        "13 read_file.rate_limit_per_hour Passes",
        "7 read_file.forbidden_paths DoesNotApply",
        "8 read_file.forbidden_paths DoesNotApply",
        "9 read_file.forbidden_paths DoesNotApply",
        "11 read_file.allowed_paths DoesNotApply",
        "12 read_file.allowed_paths Passes",
    ];
    let steps = steps(&trail);
    assert_eq!(steps.get(..expect.len()), Some(expect.map(str::to_owned).as_slice()), "{steps:#?}");
    assert!(steps[expect.len()..].iter().all(|step| step.ends_with("DoesNotApply")), "{steps:#?}");
    assert!(trail.changes().is_empty());
    let floor = trail.steps().iter().find(|step| step.rule.id == "floor.sinew").unwrap();
    assert_eq!(floor.said, Said::DoesNotApply);
    assert!(floor.asked.ends_with("/ws/a.txt"), "{floor:?}");
}

#[test]
fn a_denial_ends_at_the_rule_that_denied_and_says_what_would_have_to_change() {
    let check = |machine: Machine, tool: &str, arguments: Value, last: &str, write: Option<&str>| {
        let root = machine.root.display().to_string();
        let (outcome, trail) = trail(&machine, tool, &arguments);
        let step = trail.steps().last().unwrap();
        assert_eq!(step.said, Said::Denies, "{:#?}", trail.steps());
        assert_eq!(Some(&step.rule), outcome.rules.last());
        assert_eq!(format!("{} {}", step.rule.line, step.rule.id), last);
        let change = trail.changes().first().unwrap_or_else(|| panic!("no change: {outcome:?}"));
        assert_eq!(change.write.as_deref().map(|text| text.replace(&root, "$ROOT")).as_deref(), write);
        assert_eq!(change.rule, step.rule);
    };
    let read = |path: &str| json!({"path": path});
    let forbidden = "8 read_file.forbidden_paths";
    check(machine(TOOLS), "read_file", read("sub/b.txt"), forbidden, None);
    let listed = "11 read_file.allowed_paths";
    check(machine(TOOLS), "read_file", read("$ROOT/other/o.txt"), listed, Some("$ROOT/other/o.txt"));
    let in_mode = |mode| machine(TOOLS).mode(mode);
    check(in_mode(Mode::Lockdown), "read_file", read("a.txt"), "5 read_file.forbidden_in_modes", None);
    check(
        in_mode(Mode::Recovery),
        "read_file",
        read("a.txt"),
        "3 read_file.allowed_in_modes",
        Some("RECOVERY"),
    );
    check(machine(TOOLS).counts(3, 0), "read_file", read("a.txt"), "13 read_file.rate_limit_per_hour", None);
    let slow = machine("tools: {}\n").mode(Mode::Alert);
    let write = "tools: {slow_read: {allowed_in_modes: [NORMAL, ALERT]}}";
    check(slow, "slow_read", read("a.txt"), "0 slow_read.allowed_modes", Some(write));
    let outside = machine("tools: {}\n");
    check(
        outside,
        "read_file",
        read("$ROOT/other/o.txt"),
        "0 workspaces",
        Some("sinew workspace add $ROOT/other"),
    );
    let modes = "modes:\n  NORMAL: {allowed_tool_categories: [read_only]}\n";
    let narrow = machine("tools: {}\n").modes(modes);
    let category = "2 NORMAL.allowed_tool_categories";
    check(narrow, "search", json!({"query": "x"}), category, Some("network"));
}

#[test]
fn nothing_changes_the_floor() {
    let machine = machine(TOOLS);
    let (outcome, trail) = trail(&machine, "write_file", &json!({"path": ".git/config", "content": ""}));
    assert_eq!(outcome.word, "path_forbidden floor");
    assert_eq!(trail.steps().last().unwrap().rule.id, "floor.git");
    assert!(trail.changes().is_empty());
}

#[test]
fn a_question_names_what_asks_and_what_would_spare_it() {
    let (outcome, trail) = trail(&machine(TOOLS).mode(Mode::Alert), "read_file", &json!({"path": "a.txt"}));
    assert_eq!(outcome.word, "ask");
    let asking: Vec<_> = trail.steps().iter().filter(|step| step.said == Said::Asks).collect();
    assert_eq!(asking.iter().map(|step| step.rule.line).collect::<Vec<_>>(), [4]);
    assert_eq!(trail.changes().iter().map(|change| change.rule.line).collect::<Vec<_>>(), [4]);
    let (_, nothing) = (outcome, Trail::off());
    assert!(nothing.steps().is_empty() && nothing.changes().is_empty());
}
