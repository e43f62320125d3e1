//! Rules in shadow mode: calls that they would deny run, and all other rules still apply.

use serde_json::json;
use tool::Mode;

use super::fixture::{machine, valid_call};
use crate::Verdict;
use crate::rule_trace::{RuleOutcome, RuleTrace};

const TOOLS: &str = "tools:
  write_file:
    shadow: true
    allowed_in_modes: [NORMAL]
    forbidden_in_modes: [ALERT]
    requires_approval_in_modes: [RECOVERY]
    forbidden_paths: [\"$ROOT/ws/sub\"]
    max_file_size_mb: 0
    rate_limit_per_hour: 0
  run:
    shadow: true
    allowed_commands: [ls]
";

#[test]
fn shadow_denial_is_recorded_and_the_call_runs() {
    let free = "modes: {NORMAL: {}, ALERT: {}, RECOVERY: {}}\n";
    let check = |mode, path: &str, would: Option<&str>| {
        let machine = machine(TOOLS).modes(free).mode(mode);
        let call = valid_call("write_file", json!({"path": path, "content": ""}));
        let mut trace = RuleTrace::enabled();
        let Verdict::Permit(permit) = machine.verdict_traced(call, &mut trace) else {
            panic!("{path} does not run")
        };
        let refusal = permit.shadow_denial();
        assert_eq!(refusal.and_then(|refusal| refusal.detail.as_deref()), would, "{path} in {mode}");
        assert_eq!(permit.facts()["would_deny"]["detail"], json!(would));
        assert_eq!(trace.steps().iter().any(|step| step.outcome == RuleOutcome::WouldDeny), would.is_some());
    };
    check(Mode::Normal, "a.txt", Some("tool_per_hour"));
    check(Mode::Normal, "sub/b.txt", Some("tool_per_hour"));
    check(Mode::Alert, "a.txt", Some("forbidden"));
    machine(TOOLS).expect("run", &json!({"argv": ["id"]}), "permit");
    let warnings = machine(TOOLS).policy();
    assert!(warnings.warnings().iter().any(|warning| warning.message.contains("not enforced")));
}

/// The cached match of the enforced rules must not be used for the rules in shadow mode.
#[test]
fn typed_name_is_matched_against_shadow_rules_too() {
    let machine = machine("tools: {read_file: {shadow: true, forbidden_paths: [\"$ROOT/ws/sub\"]}}\n");
    for (path, would) in [("a.txt", None), ("sub/b.txt", Some("forbidden_path"))] {
        let verdict = machine.verdict(valid_call("read_file", json!({"path": path})));
        let Verdict::Permit(permit) = verdict else { panic!("{path} does not run") };
        assert_eq!(permit.shadow_denial().and_then(|refusal| refusal.detail.as_deref()), would, "{path}");
    }
}

#[test]
fn shadow_mode_does_not_relax_other_rules() {
    let free = "modes: {NORMAL: {}, RECOVERY: {}}\n";
    machine(TOOLS).write(".git/config", "path_forbidden built_in");
    machine(TOOLS).write("$ROOT/sinew/x", "control_plane built_in");
    machine(TOOLS).write("/etc/x", "path_not_allowed outside_workspaces");
    machine(TOOLS).mode(Mode::Lockdown).write("a.txt", "mode_denied category");
    machine(TOOLS).modes(free).mode(Mode::Recovery).write("a.txt", "ask");
    let confined = TOOLS.replace("    max_file", "    requires_sandbox: true\n    max_file");
    machine(&confined).write("a.txt", "sandbox_unavailable not_confinable");
}
