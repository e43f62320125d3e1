//! Tests of two policies that both must permit a call.

use std::path::Path;

use serde_json::json;
use tool::Mode;

use super::*;
use crate::Verdict;
use crate::judge_tests::{definition, machine, valid_call};

fn folders(list: &[(&str, &str)]) -> Workspaces {
    let folder = |(root, access): &(&str, &str)| {
        let access = if *access == "rw" { WorkspaceAccess::ReadWrite } else { WorkspaceAccess::ReadOnly };
        Workspace::hypothetical(root, access)
    };
    Workspaces::new(list.iter().map(folder).collect())
}

#[test]
fn workspaces_in_both_lists_remain_with_the_lower_access() {
    let check = |own: &[(&str, &str)], other: &[(&str, &str)], expect: &[(&str, &str)]| {
        let found = folders(own).intersection(&folders(other));
        let found: Vec<_> = found.iter().cloned().collect();
        assert_eq!(found, folders(expect).iter().cloned().collect::<Vec<_>>(), "{own:?} {other:?}");
    };
    check(&[("/a", "rw"), ("/b", "rw")], &[("/b", "rw"), ("/c", "rw")], &[("/b", "rw")]);
    check(&[("/a", "rw")], &[("/a", "ro")], &[("/a", "ro")]);
    check(&[("/a", "rw")], &[("/a/b", "rw")], &[("/a/b", "rw")]);
    check(&[("/a/b", "rw")], &[("/a", "ro")], &[("/a/b", "ro")]);
    // A read-only folder inside stays read-only, whichever list has it.
    check(&[("/a", "rw"), ("/a/b", "ro")], &[("/a", "rw")], &[("/a", "rw"), ("/a/b", "ro")]);
    check(&[("/a", "rw")], &[("/ab", "rw")], &[]);
    let both = folders(&[("/a", "rw"), ("/b", "rw")]);
    assert_eq!(both.intersection(&folders(&[("/b", "rw")])).base(), Some(Path::new("/b")));
    let inside = both.with_base(Some(Path::new("/b/sub")));
    assert_eq!(inside.intersection(&folders(&[("/b", "rw")])).base(), Some(Path::new("/b/sub")));
}

#[test]
fn permitted_call_stays_within_the_limits_of_both() {
    let strict =
        "fetch: {timeout_seconds: 9, max_output_bytes: 10, allowed_domains: [a.org], rate_limit_per_hour: 3}";
    let lax = "fetch: {timeout_seconds: 5, max_output_bytes: 50, rate_limit_per_hour: 8}";
    let safety = "outbound_gateway: {allowed_domains: [\"*\"], max_response_kb: 7}\n";
    let (one, two) =
        (machine(&format!("tools: {{{lax}}}\n")), machine(&format!("tools: {{{strict}}}\n")).safety(safety));
    let one = one.safety("outbound_gateway: {allowed_domains: [\"*\"]}\n");
    for both in [one.policy().tightened_by(two.policy()), two.policy().tightened_by(one.policy())] {
        let situation =
            crate::Situation { mode: Mode::Normal, workspaces: &one.workspaces, counts: one.counts };
        let call = valid_call("fetch", json!({"url": "https://a.org/"}));
        let checked = crate::precheck(&both, &situation, call).unwrap();
        assert_eq!(checked.timeout().as_secs(), 5);
        let opened = file_access::open(checked).unwrap();
        let Verdict::Permit(permit) = crate::judge(&both, &situation, opened) else {
            panic!("not permitted")
        };
        assert_eq!((permit.timeout().as_secs(), permit.max_output_bytes()), (5, 10));
        assert_eq!(permit.max_response_bytes(), Some(7 * 1024));
        assert!(permit.may_reach("https://a.org/x").is_ok(), "a redirect");
        assert!(permit.may_reach("https://b.org/x").is_err(), "the redirect is in one list only");
        assert_eq!(both.rate_limits(&definition("fetch"), Mode::Normal).tool_per_hour, Some(3));
    }
}

#[test]
fn stricter_transitions_apply_and_dropped_loosening_ones_do_not() {
    let modes = |rules: &str| {
        let text = format!("modes: {{NORMAL: {{}}}}\ntransition_rules: {{{rules}}}\n");
        machine("tools: {}\n").modes(&text).policy()
    };
    let cpu =
        |most: u32| format!("conditions: [{{metric: cpu_load_percent, operator: \">\", value: {most}}}]");
    let (alert, calm) = (
        format!("NORMAL_to_ALERT: {{{}}}", cpu(90)),
        format!("ALERT_to_NORMAL: {{{}, requires_human_approval: true}}", cpu(1)),
    );
    let lax = modes(&format!("{alert}, {calm}"));
    let strict = modes(&format!("NORMAL_to_ALERT: {{{}}}", cpu(50)));
    let found: Vec<String> =
        lax.tightened_by(strict).transitions().rules().iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        ["NORMAL to ALERT when cpu_load_percent > 90", "NORMAL to ALERT when cpu_load_percent > 50"]
    );
}
