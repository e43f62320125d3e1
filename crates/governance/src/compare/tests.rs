//! Two policies, and which way each change between them goes.

use super::*;
use crate::judge_tests::{definition, machine};

const OLD: &str = "tools:
  write_file:
    allowed_in_modes: [NORMAL]
    requires_approval_in_modes: [ALERT]
    forbidden_in_modes: [LOCKDOWN]
    allowed_paths: [/a/**]
    forbidden_paths: [/a/secret]
    max_file_size_mb: 10
    rate_limit_per_hour: 5
  run: {allowed_commands: [ls], forbidden_commands: [sudo]}
  fetch: {allowed_domains: [a.org]}
";
const FREE: &str = "modes: {NORMAL: {}, ALERT: {}, DEGRADED: {}, LOCKDOWN: {}, RECOVERY: {}}\n";
const SAFETY: &str = "outbound_gateway: {allowed_domains: [\"*.org\"], blocked_domains: [evil.org]}\n";

/// What becomes of the whole when one part of the old files is replaced.
#[track_caller]
fn check(part: &str, by: &str, effect: Option<Effect>, words: &str) {
    let all = [OLD, FREE, SAFETY];
    assert_eq!(all.iter().filter(|text| text.contains(part)).count(), 1, "{part}");
    let load = |text: [String; 3]| machine(&text[0]).modes(&text[1]).safety(&text[2]).policy();
    let old = load(all.map(str::to_owned));
    let new = load(all.map(|text| text.replace(part, by)));
    let definitions = ["write_file", "run", "fetch", "read_file"].map(definition);
    let found = compare(&old, &new, &definitions);
    assert_eq!(found.iter().map(|difference| difference.effect).max(), effect, "{part} → {by}: {found:#?}");
    assert!(found.is_empty() || found.iter().any(|difference| difference.what.contains(words)), "{found:#?}");
}

#[test]
fn what_makes_more_possible_loosens() {
    let loosens = |part: &str, by: &str, words: &str| check(part, by, Some(Effect::Loosens), words);
    loosens(
        "allowed_in_modes: [NORMAL]",
        "allowed_in_modes: [NORMAL, RECOVERY]",
        "write_file in RECOVERY: runs",
    );
    loosens(
        "requires_approval_in_modes: [ALERT]",
        "requires_approval_in_modes: [ALERT, DEGRADED]",
        "DEGRADED: asks",
    );
    loosens("[/a/**]", "[/a/**, /b]", "allowed path added: /b");
    loosens("    allowed_paths: [/a/**]\n", "", "all workspaces");
    loosens("[/a/secret]", "[]", "forbidden path removed: /a/secret");
    loosens("max_file_size_mb: 10", "max_file_size_mb: 11", "largest file");
    loosens("    rate_limit_per_hour: 5\n", "", "calls an hour: 5 becomes no limit");
    loosens("allowed_commands: [ls]", "allowed_commands: [ls, rm]", "allowed command added: rm");
    loosens(", forbidden_commands: [sudo]", "", "forbidden command removed: sudo");
    loosens("[a.org]", "[a.org, b.org]", "allowed host added: b.org");
    loosens("  fetch: {allowed_domains: [a.org]}\n", "", "wherever the gateway lets");
    loosens("blocked_domains: [evil.org]", "blocked_domains: []", "blocked host removed");
    loosens("blocked_domains", "allow_private_addresses: true, blocked_domains", "the local network");
    loosens("max_file", "hard_links: allow\n    max_file", "several names");
    loosens("max_file", "shadow: true\n    max_file", "only record");
    loosens("  run: {allowed", "  run: {network: full, allowed", "network");
}

#[test]
fn what_makes_less_possible_tightens() {
    let tightens = |part: &str, by: &str, words: &str| check(part, by, Some(Effect::Tightens), words);
    tightens("allowed_in_modes: [NORMAL]", "allowed_in_modes: []", "write_file in NORMAL: is denied");
    tightens("NORMAL: {}", "NORMAL: {require_approval_for: [write_file]}", "NORMAL: asks a human");
    tightens("[/a/**]", "[]", "allowed path removed");
    tightens("[/a/secret]", "[/a/secret, /a/x]", "forbidden path added");
    tightens("max_file_size_mb: 10", "max_file_size_mb: 1", "largest file");
    tightens("allowed_commands: [ls]", "allowed_commands: []", "allowed command removed");
    tightens("[sudo]", "[sudo, su]", "forbidden command added");
    tightens("ALERT: {}", "ALERT: {max_concurrent_tasks: 3}", "calls at once");
    tightens("blocked_domains: [evil.org]", "blocked_domains: [evil.org, x.org]", "blocked host added");
}

#[test]
fn what_changes_nothing_is_neutral() {
    check("tools:\n", "# a word\ntools:\n", Some(Effect::Neutral), "change nothing");
    check(
        "  run:",
        "  read_file: {requires_approval: false}\n  run:",
        Some(Effect::Neutral),
        "change nothing",
    );
    check("tools:\n", "tools:\n", None, "");
}
