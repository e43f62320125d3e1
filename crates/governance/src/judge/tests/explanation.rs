//! Trace of a verdict: every evaluated rule in order, and the policy change that would allow the call.

use serde_json::{Value, json};
use tool::Mode;

use super::fixture::{NO_TOOL_ENTRIES, TestMachine, VerdictSummary, machine, valid_call};
use crate::rule_trace::{RuleOutcome, RuleTrace};
use crate::suggested_change::{EditAction, PolicyEdit};

/// Returns the verdict of a call and its trace, and checks that tracing does not change the verdict.
fn judge_with_trace(machine: &TestMachine, tool: &str, arguments: &Value) -> (VerdictSummary, RuleTrace) {
    let arguments = arguments.to_string().replace("$ROOT", &machine.root.display().to_string());
    let call = || valid_call(tool, serde_json::from_str(&arguments).unwrap());
    let mut rule_trace = RuleTrace::enabled();
    let outcome = VerdictSummary::of(machine.verdict_traced(call(), &mut rule_trace));
    let plain = VerdictSummary::of(machine.verdict(call()));
    assert_eq!(
        (&outcome.verdict, &outcome.rules),
        (&plain.verdict, &plain.rules),
        "tracing must not change the verdict"
    );
    (outcome, rule_trace)
}

/// Formats the steps as `line id result`, without those of the built-in denials.
fn short_steps(rule_trace: &RuleTrace) -> Vec<String> {
    let written = rule_trace.steps().iter().filter(|step| !step.rule.id.starts_with("built_in."));
    written.map(|step| format!("{} {} {:?}", step.rule.line, step.rule.id, step.outcome)).collect()
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
fn permit_trace_names_every_evaluated_rule() {
    let (outcome, rule_trace) = judge_with_trace(&machine(TOOLS), "read_file", &json!({"path": "a.txt"}));
    assert_eq!(outcome.verdict, "permit");
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
    let steps = short_steps(&rule_trace);
    assert_eq!(steps.get(..expect.len()), Some(expect.map(str::to_owned).as_slice()), "{steps:#?}");
    assert!(steps[expect.len()..].iter().all(|step| step.ends_with("DoesNotApply")), "{steps:#?}");
    assert!(rule_trace.changes().is_empty());
    let step = rule_trace.steps().iter().find(|step| &*step.rule.id == "built_in.sinew").unwrap();
    assert_eq!(step.outcome, RuleOutcome::DoesNotApply);
    assert!(step.value.ends_with("/ws/a.txt"), "{step:?}");
}

#[test]
fn denial_trace_ends_at_the_denying_rule_with_a_remedy() {
    let check = |machine: TestMachine, tool: &str, arguments: Value, last: &str, write: Option<&str>| {
        let root = machine.root.display().to_string();
        let (outcome, trace) = judge_with_trace(&machine, tool, &arguments);
        let step = trace.steps().last().unwrap();
        assert_eq!(step.outcome, RuleOutcome::Denies, "{:#?}", trace.steps());
        assert_eq!(Some(&step.rule), outcome.rules.last());
        assert_eq!(format!("{} {}", step.rule.line, step.rule.id), last);
        let change = trace.changes().first().unwrap_or_else(|| panic!("no change: {outcome:?}"));
        assert_eq!(change.text.as_deref().map(|text| text.replace(&root, "$ROOT")).as_deref(), write);
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
        Some("sinew workspace add $ROOT/other --read-only"),
    );
    let spaced = "sinew workspace add '$ROOT/it'\\''s mine'";
    let outside = || machine("tools: {}\n");
    let write = json!({"path": "$ROOT/it's mine/o.txt", "content": "x"});
    check(outside(), "write_file", write, "0 workspaces", Some(spaced));
    let modes = "modes:\n  NORMAL: {allowed_tool_categories: [read_only]}\n";
    let narrow = machine("tools: {}\n").modes(modes);
    let category = "2 NORMAL.allowed_tool_categories";
    check(narrow, "search", json!({"query": "x"}), category, Some("network"));
}

#[test]
fn built_in_denial_has_no_remedy() {
    let machine = machine(TOOLS);
    let (outcome, trace) =
        judge_with_trace(&machine, "write_file", &json!({"path": ".git/config", "content": ""}));
    assert_eq!(outcome.verdict, "path_forbidden built_in");
    assert_eq!(trace.steps().last().unwrap().rule.id.as_ref(), "built_in.git");
    assert!(trace.changes().is_empty());
}

#[test]
fn approval_trace_names_the_rule_and_its_remedy() {
    let (outcome, trace) =
        judge_with_trace(&machine(TOOLS).mode(Mode::Alert), "read_file", &json!({"path": "a.txt"}));
    assert_eq!(outcome.verdict, "ask");
    let asking: Vec<_> =
        trace.steps().iter().filter(|step| step.outcome == RuleOutcome::RequiresApproval).collect();
    assert_eq!(asking.iter().map(|step| step.rule.line).collect::<Vec<_>>(), [4]);
    assert_eq!(trace.changes().iter().map(|change| change.rule.line).collect::<Vec<_>>(), [4]);
    let (_, nothing) = (outcome, RuleTrace::disabled());
    assert!(nothing.steps().is_empty() && nothing.changes().is_empty());
}

/// Expected value that a denial was checked against, and its remedy as text and as an edit.
struct ExpectedRemedy<'a> {
    checked_value: &'a str,
    instruction: &'a str,
    write: &'a str,
    edit: &'a str,
}

#[track_caller]
fn check_remedy(machine: &TestMachine, tool: &str, arguments: &Value, expect: &ExpectedRemedy<'_>) {
    let (outcome, trace) = judge_with_trace(machine, tool, arguments);
    let plain = |text: &str| text.replace(&machine.root.display().to_string(), "$ROOT");
    let step = trace.steps().last().unwrap();
    assert_eq!(
        (step.outcome, plain(&step.value).as_str()),
        (RuleOutcome::Denies, expect.checked_value),
        "{outcome:?}"
    );
    let [change] = trace.changes() else { panic!("{:#?}", trace.changes()) };
    let write = plain(change.text.as_deref().unwrap_or_default());
    assert_eq!(
        (plain(&change.description).as_str(), write.as_str()),
        (expect.instruction, expect.write),
        "{outcome:?}"
    );
    assert_eq!(plain(&change.edit.as_ref().map(format_edit).unwrap_or_default()), expect.edit, "{outcome:?}");
}

/// Checks that a denial which no policy file can lift has no remedy.
#[track_caller]
fn check_no_remedy(machine: &TestMachine, tool: &str, arguments: &Value) {
    let (outcome, trace) = judge_with_trace(machine, tool, arguments);
    assert_eq!(trace.steps().last().unwrap().outcome, RuleOutcome::Denies, "{outcome:?}");
    assert!(trace.changes().is_empty(), "{outcome:?}: {:#?}", trace.changes());
}

#[test]
fn missing_sandbox_has_no_remedy() {
    check_no_remedy(&machine(NO_TOOL_ENTRIES), "confined", &json!({}));
    check_no_remedy(&machine("tools: {confined: {min_isolation: reduced}}\n"), "confined", &json!({}));
}

#[test]
fn denials_by_mode_or_limit_name_a_remedy() {
    let check = |machine: TestMachine,
                 tool: &str,
                 arguments: Value,
                 asked: &str,
                 [how, write]: [&str; 2],
                 edit: &str| {
        check_remedy(
            &machine,
            tool,
            &arguments,
            &ExpectedRemedy { checked_value: asked, instruction: how, write, edit },
        );
    };
    let read = |path: &str| json!({"path": path});
    let in_mode = |mode| machine(TOOLS).mode(mode);
    let a = || read("a.txt");
    check(
        in_mode(Mode::Lockdown),
        "read_file",
        a(),
        "LOCKDOWN",
        ["remove LOCKDOWN from this list, or change the mode", ""],
        "tools.yaml tools.read_file.forbidden_in_modes without line 5 LOCKDOWN",
    );
    check(
        in_mode(Mode::Recovery),
        "read_file",
        a(),
        "RECOVERY",
        ["add to this list", "RECOVERY"],
        "tools.yaml tools.read_file.allowed_in_modes with RECOVERY",
    );
    let narrow = "modes:\n  NORMAL: {allowed_tool_categories: [read_only]}\n";
    check(
        machine(NO_TOOL_ENTRIES).modes(narrow),
        "search",
        json!({"query": "x"}),
        "network",
        ["add to this list", "network"],
        "modes.yaml modes.NORMAL.allowed_tool_categories with network",
    );
    let idle = machine(NO_TOOL_ENTRIES).modes("modes:\n  NORMAL: {max_concurrent_tasks: 0}\n");
    check(idle, "read_file", a(), "read_only", ["raise this above 0, or change the mode", ""], "");
    let wait = "raise this number, or wait for the window to pass";
    check(machine(TOOLS).counts(3, 0), "read_file", a(), "3 calls in the last hour", [wait, ""], "");
    let busy =
        machine(NO_TOOL_ENTRIES).safety("rate_limits: {NORMAL: {tool_calls_per_minute: 7}}\n").counts(0, 9);
    check(busy, "read_file", a(), "9 calls in the last minute", [wait, ""], "");
}

#[test]
fn path_denials_name_a_remedy() {
    let check = |machine: TestMachine,
                 tool: &str,
                 arguments: Value,
                 asked: &str,
                 [how, write]: [&str; 2],
                 edit: &str| {
        check_remedy(
            &machine,
            tool,
            &arguments,
            &ExpectedRemedy { checked_value: asked, instruction: how, write, edit },
        );
    };
    let read = |path: &str| json!({"path": path});
    let narrower = "remove this pattern or narrow it";
    check(
        machine(TOOLS),
        "read_file",
        read("sub/b.txt"),
        "$ROOT/ws/sub/b.txt",
        [
            "`$ROOT/ws/sub` forbids more than $ROOT/ws/sub/b.txt, so it is not lifted for one call; \
             replace it by narrower patterns",
            "",
        ],
        "",
    );
    check(
        machine("tools:\n  read_file:\n    forbidden_paths: [$ROOT/ws/a.txt]\n"),
        "read_file",
        read("a.txt"),
        "$ROOT/ws/a.txt",
        [narrower, ""],
        "tools.yaml tools.read_file.forbidden_paths without line 3 $ROOT/ws/a.txt",
    );
    check(
        machine(TOOLS),
        "read_file",
        read("../other/o.txt"),
        "$ROOT/other/o.txt",
        ["add to this list", "$ROOT/other/o.txt"],
        "tools.yaml tools.read_file.allowed_paths with $ROOT/other/o.txt",
    );
    check(
        machine(NO_TOOL_ENTRIES),
        "read_file",
        read("$ROOT/other/o.txt"),
        "$ROOT/other/o.txt",
        ["the operator adds the workspace", "sinew workspace add $ROOT/other --read-only"],
        "",
    );
    let linked = machine("tools: {read_file: {forbidden_paths: [~/.ssh]}}\n");
    std::fs::hard_link(linked.path("home/.ssh/id"), linked.path("ws/innocent")).unwrap();
    check(
        linked,
        "read_file",
        read("innocent"),
        "innocent",
        ["add to tools.yaml", "tools: {read_file: {hard_links: allow}}"],
        "tools.yaml tools.read_file.hard_links = allow",
    );
    let small = machine("tools: {write_file: {max_file_size_mb: 1}}\n");
    check(
        small,
        "write_file",
        json!({"path": "w", "content": "x".repeat((1 << 20) + 1)}),
        "1048577 bytes",
        ["raise this number", ""],
        "tools.yaml tools.write_file.max_file_size_mb = 2",
    );
}

#[test]
fn command_and_host_denials_name_a_remedy() {
    let check = |machine: TestMachine,
                 tool: &str,
                 arguments: Value,
                 asked: &str,
                 [how, write]: [&str; 2],
                 edit: &str| {
        check_remedy(
            &machine,
            tool,
            &arguments,
            &ExpectedRemedy { checked_value: asked, instruction: how, write, edit },
        );
    };
    let run = || machine("tools:\n  run:\n    allowed_commands: [ls]\n    forbidden_commands: [sudo]\n");
    let narrower = "remove this pattern or narrow it";
    let argv = |words: &[&str]| json!({"argv": words});
    check(
        run(),
        "run",
        argv(&["/bin/sudo", "ls"]),
        "/bin/sudo ls",
        [narrower, ""],
        "tools.yaml tools.run.forbidden_commands without line 4 sudo",
    );
    check(
        run(),
        "run",
        argv(&["git", "no"]),
        "git no",
        ["add to this list", "{argv: [git, \"no\"], exact: true}"],
        "tools.yaml tools.run.allowed_commands with {argv: [git, \"no\"], exact: true}",
    );
    check(
        machine(NO_TOOL_ENTRIES),
        "run",
        argv(&["ls"]),
        "ls",
        ["add to tools.yaml", "tools: {run: {allowed_commands: [{argv: [ls], exact: true}]}}"],
        "tools.yaml tools.run.allowed_commands with {argv: [ls], exact: true}",
    );
    check_no_remedy(&run(), "run", &json!({"line": "ls; id"}));
    let fetch = |tools: &str| {
        machine(tools)
            .safety("outbound_gateway:\n  allowed_domains: [\"*\"]\n  blocked_domains: [\"*.onion\"]\n")
    };
    let url = |text: &str| json!({"url": text});
    check(
        fetch(NO_TOOL_ENTRIES),
        "fetch",
        url("http://x.onion/"),
        "x.onion",
        [narrower, ""],
        "safety.yaml outbound_gateway.blocked_domains without line 3 *.onion",
    );
    check(
        fetch("tools: {fetch: {allowed_domains: [a.org]}}\n"),
        "fetch",
        url("https://b.org"),
        "b.org",
        ["add to this list", "b.org"],
        "tools.yaml tools.fetch.allowed_domains with b.org",
    );
    check(
        fetch(NO_TOOL_ENTRIES),
        "fetch",
        url("http://127.0.0.1/"),
        "127.0.0.1",
        ["set in safety.yaml, for every tool", "allow_private_addresses: true"],
        "safety.yaml outbound_gateway.allow_private_addresses = true",
    );
    check_no_remedy(&fetch(NO_TOOL_ENTRIES), "fetch", &url("http://169.254.169.254/"));
    check(
        machine(NO_TOOL_ENTRIES),
        "fetch",
        url("https://a.org"),
        "a.org",
        ["add to safety.yaml", "outbound_gateway.allowed_domains: [a.org]"],
        "safety.yaml outbound_gateway.allowed_domains with a.org",
    );
}

fn format_edit(edit: &PolicyEdit) -> String {
    let act = match &edit.action {
        EditAction::Add(value) => format!("with {value}"),
        EditAction::Remove { line, text } => format!("without line {line} {text}"),
        EditAction::Set(value) => format!("= {value}"),
    };
    format!("{} {} {act}", edit.file.name(), edit.keys.join("."))
}

/// Formats the steps as rule, rule text, checked value and result, without those of built-in denials and
/// other modes.
fn full_steps(trace: &RuleTrace) -> Vec<String> {
    let of_others = |id: &str| id.starts_with("built_in.") || id.ends_with(".require_approval_for");
    let steps = trace.steps().iter().filter(|step| !of_others(&step.rule.id));
    let shown = |step: &crate::rule_trace::TraceStep| {
        let content = step.content.as_deref().unwrap_or("-");
        format!("{} {} | {content} | {} | {:?}", step.rule.line, step.rule.id, step.value, step.outcome)
    };
    steps.map(shown).collect()
}

#[test]
fn trace_lists_command_host_and_category_steps() {
    let tools = "tools:
  run:
    allowed_commands: [cat, ls]
    forbidden_commands: [sudo, {argv: [ls, -R]}]
";
    let modes = "modes: {NORMAL: {allowed_tool_categories: [read_only, system_write]}}\n";
    let (_, trace) = judge_with_trace(&machine(tools).modes(modes), "run", &json!({"argv": ["ls", "-l"]}));
    assert_eq!(
        full_steps(&trace),
        [
            "0 run.allowed_modes | NORMAL | NORMAL | Passes",
            "1 NORMAL.allowed_tool_categories | read_only | system_write | DoesNotApply",
            "1 NORMAL.allowed_tool_categories | system_write | system_write | Passes",
            "4 run.forbidden_commands | sudo | ls -l | DoesNotApply",
            "4 run.forbidden_commands | ls -R | ls -l | DoesNotApply",
            "3 run.allowed_commands | cat | ls -l | DoesNotApply",
            "3 run.allowed_commands | ls | ls -l | Passes",
        ]
    );
    let safety = "outbound_gateway:
  blocked_domains: [evil.org]
  allowed_domains: [a.org, \"*.b.org\"]
";
    let machine = machine("tools:\n  fetch:\n    allowed_domains: [c.org, x.b.org]\n").safety(safety);
    let (_, trace) = self::judge_with_trace(&machine, "fetch", &json!({"url": "https://x.b.org/"}));
    assert_eq!(
        full_steps(&trace),
        [
            "0 fetch.allowed_modes | NORMAL | NORMAL | Passes",
            "2 outbound_gateway.blocked_domains | evil.org | x.b.org | DoesNotApply",
            "3 fetch.allowed_domains | c.org | x.b.org | DoesNotApply",
            "3 fetch.allowed_domains | x.b.org | x.b.org | Passes",
            "3 outbound_gateway.allowed_domains | a.org | x.b.org | DoesNotApply",
            "3 outbound_gateway.allowed_domains | *.b.org | x.b.org | Passes",
        ]
    );
}

#[test]
fn trace_lists_path_size_and_unattended_steps() {
    let tools = "tools:
  read_file:
    allowed_paths: [/srv/**, \"$ROOT/ws/**\"]
    unattended_paths: [/srv, \"$ROOT/ws/sub/**\"]
    max_file_size_mb: 1
    requires_approval: true
";
    let machine = machine(tools);
    let (outcome, trace) = judge_with_trace(&machine, "read_file", &json!({"path": "sub/../sub/b.txt"}));
    assert_eq!(outcome.verdict, "permit");
    let root = machine.root.display().to_string();
    let reported: Vec<String> = full_steps(&trace).iter().map(|step| step.replace(&root, "$ROOT")).collect();
    assert_eq!(
        reported,
        [
            "0 read_file.allowed_modes | NORMAL | NORMAL | Passes",
            "3 read_file.allowed_paths | /srv/** | $ROOT/ws/sub | DoesNotApply",
            "3 read_file.allowed_paths | $ROOT/ws/** | $ROOT/ws/sub | Passes",
            "3 read_file.allowed_paths | /srv/** | $ROOT/ws/sub/b.txt | DoesNotApply",
            "3 read_file.allowed_paths | $ROOT/ws/** | $ROOT/ws/sub/b.txt | Passes",
            "5 read_file.max_file_size_mb | 1048576 bytes | 5 bytes | Passes",
            "4 read_file.unattended_paths | $ROOT/ws/sub/** | $ROOT/ws/sub/b.txt | Passes",
        ]
    );
}
