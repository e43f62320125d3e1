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

/// What becomes of the whole when the entry of one tool changes.
#[track_caller]
fn check_entry(tool: &str, old: &str, new: &str, effect: Option<Effect>, words: &str) {
    let load = |entry: &str| {
        machine(&format!("tools: {{{tool}: {{{entry}}}}}\n")).modes(FREE).safety(SAFETY).policy()
    };
    let found = compare(&load(old), &load(new), &[definition(tool)]);
    assert_eq!(found.iter().map(|one| one.effect).max(), effect, "{old} → {new}: {found:#?}");
    assert!(found.iter().any(|one| one.what.contains(words)), "{old} → {new}: {found:#?}");
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
    loosens("  run: {allowed", "  run: {program_folders: [/p/x], allowed", "program folder added: /p/x");
}

#[test]
fn commands_are_compared_by_their_words_and_not_by_how_they_read() {
    for (old, new) in
        [("[ls, -la]", "[\"ls -la\"]"), ("[[a, b]]", "[\"a|b\"]"), ("[ls, [a, b]]", "[ls, a|b]")]
    {
        for list in ["allowed_commands", "forbidden_commands"] {
            let entry = |argv: &str| format!("{list}: [{{argv: {argv}}}]");
            check_entry("run", &entry(old), &entry(new), Some(Effect::Loosens), "");
            check_entry("run", &entry(new), &entry(old), Some(Effect::Loosens), "");
        }
    }
}

#[test]
fn limits_are_compared_as_they_hold() {
    // The definition of `slow_read` says 7 seconds and 2 calls an hour.
    for (less, more, words) in [
        ("", "timeout_seconds: 8", "time to run: 7 becomes 8"),
        ("", "rate_limit_per_hour: 3", "calls an hour: 2 becomes 3"),
        ("", "max_output_bytes: 1048577", "largest answer: 1048576 becomes 1048577"),
        ("max_file_size_mb: 1", "", "largest file: 1048576 becomes no limit"),
        ("", "memory_mb: 4096", "memory: 2048 becomes 4096"),
        ("memory_mb: 1024", "", "memory: 1024 becomes 2048"),
        ("", "max_processes: 1000", "processes: 256 becomes 1000"),
        ("cpu_seconds: 5", "", "processor time: 5 becomes no limit"),
        ("cpu_seconds: 5", "cpu_seconds: 0", "processor time: 5 becomes no limit"),
        ("min_isolation: full", "min_isolation: reduced", "walls with parts missing"),
        ("requires_sandbox: true", "", "runs by itself, where it is denied before"),
        ("max_processes: 256", "", "runs without walls"),
        ("", "network: loopback", "network"),
        ("", "hard_links: allow", "several names"),
        ("", "shadow: true", "only record"),
        ("", "unattended_paths: [/a/**]", "unattended path added"),
        ("cost_per_call: 0.5", "cost_per_call: 0.25", "cost of a call: 0.5 becomes 0.25"),
    ] {
        check_entry("slow_read", less, more, Some(Effect::Loosens), words);
    }
    for (more, less, words) in [
        ("", "timeout_seconds: 6", "time to run: 7 becomes 6"),
        ("", "rate_limit_per_hour: 1", "calls an hour: 2 becomes 1"),
        ("", "max_output_bytes: 5", "largest answer: 1048576 becomes 5"),
        ("min_isolation: reduced", "min_isolation: full", "walls with parts missing"),
        ("", "cost_per_call: 0.5", "cost of a call: 0 becomes 0.5"),
    ] {
        check_entry("slow_read", more, less, Some(Effect::Tightens), words);
    }
    check_entry("slow_read", "timeout_seconds: 7", "", Some(Effect::Neutral), "change nothing");
    check_entry("slow_read", "", "max_output_bytes: 1048576", Some(Effect::Neutral), "change nothing");
}

#[test]
fn a_question_that_is_no_longer_asked_on_unattended_paths_loosens() {
    let entry = "requires_approval: true, unattended_paths: [/a/**]";
    let modes = FREE.replace("NORMAL: {}", "NORMAL: {require_approval_for: [write_file]}");
    let load = |modes: &str| machine(&format!("tools: {{write_file: {{{entry}}}}}\n")).modes(modes).policy();
    let found = compare(&load(&modes), &load(FREE), &[definition("write_file")]);
    let what = "write_file in NORMAL on unattended paths: runs by itself";
    assert!(
        found.iter().any(|one| one.effect == Effect::Loosens && one.what.starts_with(what)),
        "{found:#?}"
    );
}

#[test]
fn whoever_no_longer_passes_the_gateway_loosens() {
    check_entry("search", "", "category: read_only", Some(Effect::Loosens), "past the gateway");
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
