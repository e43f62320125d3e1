//! Checks other than paths: modes, categories, approvals, rate limits, and rules that cannot be enforced.

use serde_json::{Value, json};
use tool::Mode;

use super::fixture::{NO_TOOL_ENTRIES, VerdictSummary, machine, valid_call};
use crate::files::Isolation;
use crate::{RateCounts, Situation, Verdict, judge, precheck};

const WRITE_MODES: &str = "tools:
  write_file:
    allowed_in_modes: [NORMAL, LOCKDOWN]
    requires_approval_in_modes: [ALERT, LOCKDOWN]
    forbidden_in_modes: [LOCKDOWN, ALERT]
";

#[test]
fn denial_by_mode_names_the_modes_that_allow_the_tool() {
    let tools = "tools: {read_file: {allowed_in_modes: [NORMAL, LOCKDOWN], forbidden_in_modes: [LOCKDOWN], requires_approval_in_modes: [ALERT]}}\n";
    machine(tools)
        .mode(Mode::Recovery)
        .read("a.txt", "mode_denied not_listed")
        .has_hint("it is allowed in NORMAL, ALERT (see ");
    let nowhere = machine("tools: {read_file: {allowed_in_modes: []}}\n");
    nowhere.read("a.txt", "mode_denied not_listed").has_hint("no mode allows `read_file`");
}

#[test]
fn rate_limit_denial_explains_the_full_window() {
    let limit = |most: u32| machine(&format!("tools: {{read_file: {{rate_limit_per_hour: {most}}}}}\n"));
    limit(3).counts(2, 0).read("a.txt", "permit");
    let full = limit(3).counts(3, 0).read("a.txt", "rate_limited tool_per_hour");
    assert!(
        full.has_reason("Permission denied: Rate limit exceeded")
            .has_hint("3 calls ran in the last hour")
            .retryable
    );
    let unknown = limit(3).counts(RateCounts::UNKNOWN, 0).read("a.txt", "rate_limited tool_per_hour");
    assert!(unknown.has_hint("records are missing").retryable);
    let never = limit(0).read("a.txt", "rate_limited tool_per_hour");
    assert!(!never.has_hint("is 0, which denies every call").retryable);
}

#[test]
fn unattended_paths_do_not_apply_to_calls_without_paths() {
    let tools = "tools: {read_many: {requires_approval: true, unattended_paths: [\"$ROOT/ws/**\"]}}\n";
    let asks =
        |paths: Value, expect: &str| machine(tools).expect("read_many", &json!({"paths": paths}), expect);
    asks(json!(["a.txt", "sub/b.txt"]), "permit");
    asks(json!([]), "ask");
    asks(json!(["a.txt", "sub/new.txt"]), "permit");
}

#[test]
fn unreadable_names_are_hidden_from_a_call() {
    let machine = machine("tools: {read_file: {forbidden_paths: [\"$ROOT/other\", \"**/*.key\"]}}\n");
    let verdict = machine.verdict(valid_call("read_file", json!({"path": "a.txt"})));
    let Verdict::Permit(permit) = verdict else { panic!("{verdict:?}") };
    for (name, shown) in [
        ("ws/a.txt", true),
        ("other", false),
        ("other/o.txt", false),
        ("ws/x.key", false),
        ("sinew/config", false),
    ] {
        assert_eq!(permit.is_visible(&machine.path(name)), shown, "{name}");
        assert_eq!(permit.hidden_by(&machine.path(name)).is_none(), shown, "{name}");
    }
    assert!(!permit.is_visible("not/canonical".as_ref()), "a name that is not canonical is hidden");
    assert!(
        permit.is_protected(&machine.path("ws/.git/config"))
            && !permit.is_protected(&machine.path("ws/a.txt"))
    );
}

#[test]
fn forbidden_beats_approval_beats_allowed_in_modes() {
    let tools = "tools:
  write_file:
    allowed_in_modes: [NORMAL, ALERT]
    requires_approval_in_modes: [ALERT, RECOVERY]
    forbidden_in_modes: [LOCKDOWN]
";
    let free = "modes: {NORMAL: {}, ALERT: {}, DEGRADED: {}, LOCKDOWN: {}, RECOVERY: {}}\n";
    let check = |mode: Mode, expect: &str| machine(tools).modes(free).mode(mode).write("a.txt", expect);
    check(Mode::Normal, "permit");
    check(Mode::Alert, "ask").decided_by("tools.yaml", 4, "write_file.requires_approval_in_modes");
    check(Mode::Recovery, "ask").decided_by("tools.yaml", 4, "write_file.requires_approval_in_modes");
    check(Mode::Degraded, "mode_denied not_listed").decided_by(
        "tools.yaml",
        3,
        "write_file.allowed_in_modes",
    );
    check(Mode::Lockdown, "mode_denied forbidden")
        .has_reason("Permission denied: Tool not allowed in LOCKDOWN mode")
        .decided_by("tools.yaml", 5, "write_file.forbidden_in_modes")
        .has_hint("it is allowed in NORMAL, ALERT, RECOVERY");
    for mode in [Mode::Alert, Mode::Lockdown] {
        machine(WRITE_MODES).modes(free).mode(mode).write("a.txt", "mode_denied forbidden");
    }
}

#[test]
fn unlisted_tool_has_the_modes_of_its_definition() {
    let call = |mode, expect: &str| {
        machine(NO_TOOL_ENTRIES).mode(mode).expect("slow_read", &json!({"path": "a.txt"}), expect)
    };
    call(Mode::Normal, "permit").decided_by("workspaces", 0, "workspaces");
    call(Mode::Alert, "mode_denied not_listed").decided_by("tool definition", 0, "slow_read.allowed_modes");
    let silent = machine("tools: {slow_read: {rate_limit_per_hour: 9}}\n").mode(Mode::Alert);
    silent.expect("slow_read", &json!({"path": "a.txt"}), "mode_denied not_listed");
}

#[test]
fn mode_limits_categories_and_concurrent_tasks() {
    let modes = "modes:
  NORMAL:
    allowed_tool_categories: [read_only, self_check]
  ALERT:
    max_concurrent_tasks: 0
";
    let machine = machine(NO_TOOL_ENTRIES).modes(modes);
    machine.read("a.txt", "permit");
    machine
        .write("a.txt", "mode_denied category")
        .has_reason("Permission denied: Tool not allowed in NORMAL mode")
        .decided_by("modes.yaml", 3, "NORMAL.allowed_tool_categories")
        .has_hint("read_only, self_check");
    let machine = machine.mode(Mode::Alert);
    machine.read("a.txt", "mode_denied no_tasks").decided_by("modes.yaml", 5, "ALERT.max_concurrent_tasks");
    // A category in the file overrides that of the definition.
    let moved = "tools: {write_file: {category: read_only}}\n";
    self::machine(moved).modes(modes).write("a.txt", "permit");
}

#[test]
fn unlisted_mode_keeps_its_built_in_rules() {
    let machine = machine(NO_TOOL_ENTRIES).mode(Mode::Lockdown);
    machine
        .write("a.txt", "mode_denied category")
        .has_reason("Permission denied: Tool not allowed in LOCKDOWN mode");
    machine.read("a.txt", "permit");
}

#[test]
fn every_rule_that_requires_approval_is_named() {
    let approvals = |word: &str| format!("modes: {{NORMAL: {{require_approval_for: [{word}]}}}}\n");
    let check = |word: &str, tool: &str, arguments: &Value, expect: &str| {
        machine(NO_TOOL_ENTRIES).modes(&approvals(word)).expect(tool, arguments, expect);
    };
    let (read, write) = (json!({"path": "a.txt"}), json!({"path": "a.txt", "content": ""}));
    let copy = json!({"from": "a.txt", "to": "c.txt"});
    check("high_risk_tools", "read_file", &read, "permit");
    check("high_risk_tools", "write_file", &write, "ask");
    check("any_write_operation", "copy_file", &copy, "ask");
    check("any_write_operation", "read_file", &read, "permit");
    check("network", "search", &json!({"query": "x"}), "ask");
    check("network", "read_file", &read, "permit");
    check("all_actions", "read_file", &read, "ask");
    check("read_only", "read_file", &read, "ask");
    check("read_only", "copy_file", &copy, "permit");
    check("copy_file", "copy_file", &copy, "ask");
    machine(NO_TOOL_ENTRIES).expect("gated", &json!({}), "ask").decided_by(
        "tool definition",
        0,
        "gated.requires_approval",
    );
    machine("tools: {read_file: {requires_approval: true}}\n").read("a.txt", "ask").decided_by(
        "tools.yaml",
        1,
        "read_file.requires_approval",
    );
    machine("tools: {read_file: {requires_approval: false}}\n").read("a.txt", "permit");
    machine("tool_categories:\n  read_only:\n    requires_approval_in_modes: [NORMAL]\ntools: {}\n")
        .read("a.txt", "ask")
        .decided_by("tools.yaml", 3, "tool_categories.read_only.requires_approval_in_modes");
    let safety = "human_approval:\n  rules:\n    - {risk_level: high, modes: [NORMAL]}\n";
    machine(NO_TOOL_ENTRIES).safety(safety).read("a.txt", "permit");
    machine(NO_TOOL_ENTRIES).safety(safety).write("a.txt", "ask").decided_by(
        "safety.yaml",
        3,
        "human_approval.rules",
    );
    // The risk level of a category raises that of its tools.
    let raised = "tool_categories: {read_only: {risk_level: high}}\ntools: {}\n";
    machine(raised).safety(safety).read("a.txt", "ask");
    let all =
        "tools:\n  write_file:\n    requires_approval: true\n    requires_approval_in_modes: [NORMAL]\n";
    let outcome = machine(all).safety(safety).write("a.txt", "ask");
    assert_eq!(outcome.rules.iter().map(|rule| rule.line).collect::<Vec<_>>(), [3, 4, 3]);
}

#[test]
fn no_approval_is_requested_for_a_denied_call() {
    let tools = "tools:\n  write_file:\n    requires_approval: true\n    max_file_size_mb: 0\n";
    machine(tools).write("/etc/x", "path_not_allowed outside_workspaces");
    machine(tools).write("a.txt", "too_large max_file_size");
    let modes = "modes: {NORMAL: {allowed_tool_categories: [network]}}\n";
    machine(tools).modes(modes).write("a.txt", "mode_denied category");
    let limited = format!("{tools}    rate_limit_per_hour: 1\n");
    machine(&limited).counts(1, 0).write("a.txt", "rate_limited tool_per_hour");
}

#[test]
fn unanswered_approval_refuses_and_approval_permits() {
    let verdict = machine(NO_TOOL_ENTRIES).verdict(valid_call("gated", json!({})));
    let Verdict::ApprovalRequired(question) = verdict else { panic!("no approval required") };
    let refusal = question.no_approver_refusal();
    assert!(refusal.reason.starts_with("Permission denied: Approval"), "{}", refusal.reason);
    assert_eq!(refusal.rule.unwrap().id.as_ref(), "gated.requires_approval");
    let permit = question.into_permit();
    assert_eq!(permit.rules().last().unwrap().id.as_ref(), "gated.requires_approval");
}

#[test]
fn rate_limit_denies_at_the_limit_and_zero_allows_nothing() {
    let tools = "tools:\n  read_file:\n    rate_limit_per_hour: 3\n  write_file: {rate_limit_per_hour: 0}\n";
    machine(tools).counts(2, 0).read("a.txt", "permit");
    let over = machine(tools).counts(3, 0).read("a.txt", "rate_limited tool_per_hour");
    over.has_reason("Permission denied: Rate limit exceeded").decided_by(
        "tools.yaml",
        3,
        "read_file.rate_limit_per_hour",
    );
    assert!(over.retryable);
    let never = machine(tools).write("a.txt", "rate_limited tool_per_hour");
    assert!(!never.retryable);
    never.has_hint("is 0, which denies every call");
    machine(NO_TOOL_ENTRIES).counts(u32::MAX, u32::MAX).read("a.txt", "permit");
    let slow = |count, expect: &str| {
        machine(NO_TOOL_ENTRIES).counts(count, 0).expect("slow_read", &json!({"path": "a.txt"}), expect);
    };
    slow(1, "permit");
    slow(2, "rate_limited tool_per_hour");
    let safety = "rate_limits:\n  NORMAL: {tool_calls_per_minute: 5}\n  ALERT: {tool_calls_per_minute: 0}\n";
    let busy = |mode, count, expect: &str| {
        machine(NO_TOOL_ENTRIES).safety(safety).mode(mode).counts(0, count).read("a.txt", expect)
    };
    busy(Mode::Normal, 4, "permit");
    busy(Mode::Normal, 5, "rate_limited mode_per_minute").decided_by(
        "safety.yaml",
        2,
        "rate_limits.NORMAL.tool_calls_per_minute",
    );
    busy(Mode::Alert, 0, "rate_limited mode_per_minute");
    busy(Mode::Degraded, 1000, "permit");
}

#[test]
fn permit_rechecks_rate_limits_with_new_counts() {
    let machine = machine("tools: {read_file: {rate_limit_per_hour: 3}}\n");
    let Verdict::Permit(permit) = machine.verdict(valid_call("read_file", json!({"path": "a.txt"}))) else {
        panic!("no permit")
    };
    let counts = |tool_last_hour| RateCounts { tool_last_hour, ..RateCounts::default() };
    permit.check_rates(counts(2)).unwrap();
    let denial = permit.check_rates(counts(3)).unwrap_err();
    assert_eq!(denial.refusal().code, tool::RefusalCode::RateLimited);
    assert_eq!(Value::Object(permit.remaining_calls(counts(1))), json!({"tool_per_hour": 2}));
}

#[test]
fn sandbox_rule_denies_a_tool_that_cannot_be_sandboxed() {
    for isolation in [None, Some(Isolation::Reduced), Some(Isolation::Full)] {
        let word = |tool: &str, rule: &str| {
            let machine = machine(&format!("tools: {{{tool}: {{{rule}}}}}\n"));
            let policy = machine.policy().with_isolation(isolation);
            let situation = Situation {
                mode: Mode::Normal,
                workspaces: &machine.workspaces,
                counts: RateCounts::default(),
            };
            let arguments = if tool == "read_file" { json!({"path": "a.txt"}) } else { json!({}) };
            precheck(&policy, &situation, valid_call(tool, arguments))
                .map_or_else(|denial| denial.refusal().detail.clone().unwrap(), |_| "cleared".to_owned())
        };
        for rule in ["requires_sandbox: true", "min_isolation: reduced"] {
            assert_eq!(word("read_file", rule), "not_confinable", "{isolation:?} {rule}");
        }
        let sandbox = if isolation.is_some() { "cleared" } else { "no_sandbox" };
        assert_eq!(word("confined", "min_isolation: reduced"), sandbox, "{isolation:?}");
    }
}

#[test]
fn rule_that_cannot_be_enforced_refuses_the_call() {
    machine(NO_TOOL_ENTRIES).expect("confined", &json!({}), "sandbox_unavailable no_sandbox");
    let check = |rule: &str, expect: &str| {
        machine(&format!("tools:\n  read_file:\n    {rule}\n")).read("a.txt", expect);
    };
    check("requires_sandbox: true", "sandbox_unavailable not_confinable");
    check("min_isolation: full", "sandbox_unavailable not_confinable");
    check("requires_sandbox: false", "permit");
    check("requires_sandbox: false\n    min_isolation: full", "permit");
    check("allowed_commands: [ls]", "command_not_allowed not_judged");
    check("forbidden_commands: [sudo]", "command_not_allowed not_judged");
    check("allowed_domains: [\"*.example.org\"]", "domain_not_allowed not_judged");
    check("shadow: true\n    allowed_commands: [ls]", "command_not_allowed not_judged");
}

#[test]
fn permit_carries_its_limits_and_facts() {
    let tools = "tools: {write_file: {timeout_seconds: 3, max_file_size_mb: 2, max_output_bytes: 99}}\n";
    let machine = machine(tools).counts(4, 5);
    let write = valid_call("write_file", json!({"path": "sub/../a.txt", "content": "héllo"}));
    let Verdict::Permit(permit) = machine.verdict(write) else { panic!("no permit") };
    assert_eq!(
        (permit.timeout().as_secs(), permit.max_file_bytes(), permit.max_output_bytes()),
        (3, Some(2 << 20), 99)
    );
    assert_eq!(permit.path("path").unwrap().canonical(), machine.path("ws/a.txt"));
    assert!(permit.path("other").is_none());
    let facts = permit.facts();
    assert_eq!(facts["counts"], json!({"tool_last_hour": 4, "all_last_minute": 5, "outbound_last_hour": 0}));
    assert_eq!(facts["paths"][0]["canonical"], json!(machine.path("ws/a.txt")));
    assert_eq!((&facts["paths"][0]["size"], &facts["content_bytes"]), (&json!(5), &json!(6)));
    assert!(!facts.to_string().contains("llo"), "facts must not contain content: {facts}");
    let read = valid_call("slow_read", json!({"path": "a.txt"}));
    let Verdict::Permit(permit) = machine.counts(0, 0).verdict(read) else { panic!("no permit") };
    assert_eq!(
        (permit.timeout().as_secs(), permit.max_file_bytes(), permit.max_output_bytes()),
        (7, None, 1 << 20)
    );
}

#[test]
fn prechecked_call_is_judged_under_the_current_mode() {
    let machine = machine("tools: {write_file: {forbidden_in_modes: [LOCKDOWN]}}\n");
    let policy = machine.policy();
    let mut situation =
        Situation { mode: Mode::Normal, workspaces: &machine.workspaces, counts: RateCounts::default() };
    let prechecked =
        precheck(&policy, &situation, valid_call("write_file", json!({"path": "a.txt", "content": ""})))
            .unwrap();
    situation.mode = Mode::Lockdown;
    let outcome = VerdictSummary::of(judge(&policy, &situation, file_access::open(prechecked).unwrap()));
    assert_eq!(outcome.verdict, "mode_denied forbidden");
}
