//! Direction of each change between two policies.

use super::*;
use crate::judge_tests::{definition, machine};
use crate::{Workspace, WorkspaceAccess, Workspaces, files, policy_environment};

const OLD_TOOLS: &str = "tools:
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
const OPEN_MODES: &str = "modes: {NORMAL: {}, ALERT: {}, DEGRADED: {}, LOCKDOWN: {}, RECOVERY: {}}\n";
const SAFETY: &str = "outbound_gateway: {allowed_domains: [\"*.org\"], blocked_domains: [evil.org]}\n";

/// Compares two policies on a machine with a workspace, a read-only folder in it and a read-only one.
fn compare(old: &Policy, new: &Policy, definitions: &[ToolDefinition]) -> Vec<PolicyDifference> {
    use WorkspaceAccess::{ReadOnly, ReadWrite};
    let folders = [("/w", ReadWrite), ("/w/ro", ReadOnly), ("/r", ReadOnly)];
    let folders = folders.map(|(root, access)| Workspace::hypothetical(root, access));
    compare_policies((old, new), &Workspaces::new(folders.to_vec()), definitions)
}

/// Checks the strongest effect of replacing one part of the old files.
#[track_caller]
fn check(part: &str, by: &str, effect: Option<PolicyEffect>, words: &str) {
    let all = [OLD_TOOLS, OPEN_MODES, SAFETY];
    assert_eq!(all.iter().filter(|text| text.contains(part)).count(), 1, "{part}");
    let load = |text: [String; 3]| machine(&text[0]).modes(&text[1]).safety(&text[2]).policy();
    let old = load(all.map(str::to_owned));
    let new = load(all.map(|text| text.replace(part, by)));
    let definitions = ["write_file", "run", "fetch", "read_file"].map(definition);
    let found = compare(&old, &new, &definitions);
    assert_eq!(found.iter().map(|difference| difference.effect).max(), effect, "{part} → {by}: {found:#?}");
    assert!(
        found.is_empty() || found.iter().any(|difference| difference.description.contains(words)),
        "{found:#?}"
    );
}

/// Checks the strongest effect of changing the entry of one tool.
#[track_caller]
fn check_entry(tool: &str, old: &str, new: &str, effect: Option<PolicyEffect>, words: &str) {
    let load = |entry: &str| {
        machine(&format!("tools: {{{tool}: {{{entry}}}}}\n")).modes(OPEN_MODES).safety(SAFETY).policy()
    };
    let found = compare(&load(old), &load(new), &[definition(tool)]);
    assert_eq!(found.iter().map(|one| one.effect).max(), effect, "{old} → {new}: {found:#?}");
    assert!(found.iter().any(|one| one.description.contains(words)), "{old} → {new}: {found:#?}");
}

#[test]
fn wider_rules_loosen() {
    let loosens = |part: &str, by: &str, words: &str| check(part, by, Some(PolicyEffect::Loosens), words);
    loosens(
        "allowed_in_modes: [NORMAL]",
        "allowed_in_modes: [NORMAL, RECOVERY]",
        "write_file in RECOVERY: runs",
    );
    loosens(
        "requires_approval_in_modes: [ALERT]",
        "requires_approval_in_modes: [ALERT, DEGRADED]",
        "DEGRADED: requires approval",
    );
    loosens("[/a/**]", "[/a/**, /b]", "allowed path added: /b");
    loosens("    allowed_paths: [/a/**]\n", "", "all workspaces");
    loosens("[/a/secret]", "[]", "forbidden path removed: /a/secret");
    loosens("max_file_size_mb: 10", "max_file_size_mb: 11", "largest file");
    loosens("    rate_limit_per_hour: 5\n", "", "calls per hour: 5 becomes no limit");
    loosens("allowed_commands: [ls]", "allowed_commands: [ls, rm]", "allowed command added: rm");
    loosens(", forbidden_commands: [sudo]", "", "forbidden command removed: sudo");
    loosens("[a.org]", "[a.org, b.org]", "allowed host added: b.org");
    loosens("  fetch: {allowed_domains: [a.org]}\n", "", "every host that the gateway allows");
    loosens("blocked_domains: [evil.org]", "blocked_domains: []", "blocked host removed");
    loosens(
        "blocked_domains",
        "allow_private_addresses: true, blocked_domains",
        "the local network is open (before: is closed)",
    );
    loosens("max_file", "hard_links: allow\n    max_file", "several hard links");
    loosens("max_file", "shadow: true\n    max_file", "only record");
    loosens("  run: {allowed", "  run: {network: full, allowed", "network");
    loosens("  run: {allowed", "  run: {program_folders: [/p/x], allowed", "program folder added: /p/x");
}

#[test]
fn commands_are_compared_by_words_not_by_text() {
    for (old, new) in
        [("[ls, -la]", "[\"ls -la\"]"), ("[[a, b]]", "[\"a|b\"]"), ("[ls, [a, b]]", "[ls, a|b]")]
    {
        for list in ["allowed_commands", "forbidden_commands"] {
            let entry = |argv: &str| format!("{list}: [{{argv: {argv}}}]");
            check_entry("run", &entry(old), &entry(new), Some(PolicyEffect::Loosens), "");
            check_entry("run", &entry(new), &entry(old), Some(PolicyEffect::Loosens), "");
        }
    }
}

#[test]
fn limits_are_compared_by_effective_value() {
    // The definition of `slow_read` sets a timeout of 7 seconds and 2 calls per hour.
    for (less, more, words) in [
        ("", "timeout_seconds: 8", "timeout in seconds: 7 becomes 8"),
        ("", "rate_limit_per_hour: 3", "calls per hour: 2 becomes 3"),
        ("", "max_output_bytes: 1048577", "largest output: 1048576 becomes 1048577"),
        ("max_file_size_mb: 1", "", "largest file: 1048576 becomes no limit"),
        ("", "memory_mb: 4096", "memory: 2048 becomes 4096"),
        ("memory_mb: 1024", "", "memory: 1024 becomes 2048"),
        ("", "max_processes: 1000", "processes: 256 becomes 1000"),
        ("cpu_seconds: 5", "", "processor time: 5 becomes no limit"),
        ("cpu_seconds: 5", "cpu_seconds: 0", "processor time: 5 becomes no limit"),
        ("min_isolation: full", "min_isolation: reduced", "reduced isolation"),
        ("requires_sandbox: true", "", "runs without approval (before: is denied)"),
        ("max_processes: 256", "", "runs without a sandbox"),
        ("", "network: loopback", "network"),
        ("", "hard_links: allow", "several hard links"),
        ("", "shadow: true", "only record"),
        ("", "unattended_paths: [/a/**]", "unattended path added"),
        ("cost_per_call: 0.5", "cost_per_call: 0.25", "cost of a call: 0.5 becomes 0.25"),
    ] {
        check_entry("slow_read", less, more, Some(PolicyEffect::Loosens), words);
    }
    for (more, less, words) in [
        ("", "timeout_seconds: 6", "timeout in seconds: 7 becomes 6"),
        ("", "rate_limit_per_hour: 1", "calls per hour: 2 becomes 1"),
        ("", "max_output_bytes: 5", "largest output: 1048576 becomes 5"),
        ("min_isolation: reduced", "min_isolation: full", "reduced isolation"),
        ("", "cost_per_call: 0.5", "cost of a call: 0 becomes 0.5"),
    ] {
        check_entry("slow_read", more, less, Some(PolicyEffect::Tightens), words);
    }
    check_entry("slow_read", "timeout_seconds: 7", "", Some(PolicyEffect::Neutral), "change nothing");
    check_entry("slow_read", "", "max_output_bytes: 1048576", Some(PolicyEffect::Neutral), "change nothing");
}

#[test]
fn dropped_approval_on_unattended_paths_loosens() {
    let entry = "requires_approval: true, unattended_paths: [/a/**]";
    let modes = OPEN_MODES.replace("NORMAL: {}", "NORMAL: {require_approval_for: [write_file]}");
    let load = |modes: &str| machine(&format!("tools: {{write_file: {{{entry}}}}}\n")).modes(modes).policy();
    let found = compare(&load(&modes), &load(OPEN_MODES), &[definition("write_file")]);
    let what = "write_file in NORMAL on unattended paths: runs without approval";
    assert!(
        found.iter().any(|one| one.effect == PolicyEffect::Loosens && one.description.starts_with(what)),
        "{found:#?}"
    );
}

#[test]
fn leaving_the_gateway_loosens() {
    check_entry(
        "search",
        "",
        "category: read_only",
        Some(PolicyEffect::Loosens),
        "bypasses the outbound gateway",
    );
}

#[test]
fn narrower_rules_tighten() {
    let tightens = |part: &str, by: &str, words: &str| check(part, by, Some(PolicyEffect::Tightens), words);
    tightens("allowed_in_modes: [NORMAL]", "allowed_in_modes: []", "write_file in NORMAL: is denied");
    tightens("NORMAL: {}", "NORMAL: {require_approval_for: [write_file]}", "NORMAL: requires approval");
    tightens("[/a/**]", "[]", "allowed path removed");
    tightens("[/a/secret]", "[/a/secret, /a/x]", "forbidden path added");
    tightens("max_file_size_mb: 10", "max_file_size_mb: 1", "largest file");
    tightens("allowed_commands: [ls]", "allowed_commands: []", "allowed command removed");
    tightens("[sudo]", "[sudo, su]", "forbidden command added");
    tightens("ALERT: {}", "ALERT: {max_concurrent_tasks: 3}", "concurrent calls");
    tightens("blocked_domains: [evil.org]", "blocked_domains: [evil.org, x.org]", "blocked host added");
}

/// Each pair loosens in one direction and tightens in the other.
#[test]
fn settings_outside_tools_are_compared_both_ways() {
    let check = |file: usize, narrow: &str, wide: &str, words: &str| {
        let load = |text: &str| {
            let mut all = ["tools: {}\n", OPEN_MODES, SAFETY].map(str::to_owned);
            all[file] = text.to_owned();
            machine(&all[0]).modes(&all[1]).safety(&all[2]).policy()
        };
        for (old, new, effect) in
            [(narrow, wide, PolicyEffect::Loosens), (wide, narrow, PolicyEffect::Tightens)]
        {
            let found = compare(&load(old), &load(new), &[definition("read_file")]);
            let found: Vec<_> =
                found.iter().map(|one| (one.effect, one.description.contains(words))).collect();
            assert_eq!(found, [(effect, true)], "{old} → {new}");
        }
    };
    let mode = |rules: &str| OPEN_MODES.replace("ALERT: {}", &format!("ALERT: {{{rules}}}"));
    check(1, &mode("max_concurrent_tasks: 3"), &mode(""), "ALERT: concurrent calls: ");
    let running = |word: &str| mode(&format!("on_transition: {{running: {word}}}"));
    check(1, &running("cancel"), &running("finish"), "ALERT: running calls on entry");
    let watched = |flag: bool| mode(&format!("background_monitoring_enabled: {flag}"));
    check(1, &watched(true), &watched(false), "ALERT: system monitoring is");
    let cpu = "conditions: [{metric: cpu_load_percent, operator: \">\", value: 90}]";
    let ways = |more: &str| format!("{OPEN_MODES}transition_rules: {{NORMAL_to_ALERT: {{{cpu}}}{more}}}\n");
    let stricter = format!(", NORMAL_to_DEGRADED: {{{cpu}}}");
    check(1, &ways(&stricter), &ways(""), "transition to a stricter mode");
    let milder = format!(", ALERT_to_NORMAL: {{{cpu}, requires_human_approval: true}}");
    check(1, &ways(""), &ways(&milder), "transition to a less strict mode");

    let rates = |rules: &str| format!("{SAFETY}rate_limits: {{ALERT: {{{rules}}}}}\n");
    check(2, &rates("tool_calls_per_minute: 3"), &rates(""), "ALERT: calls per minute");
    check(
        2,
        &rates("outbound_calls_per_hour: 3"),
        &rates("outbound_calls_per_hour: 4"),
        "outbound calls per hour",
    );
    let secret = |action: &str| {
        let list = format!("[{{name: key, pattern: \"sk-[a-z]+\", action: {action}}}]");
        format!("{SAFETY}content_filtering: {{secret_patterns: {list}}}\n")
    };
    check(2, &secret("redact"), SAFETY, "secret ");
    let gateway = |rest: &str| format!("outbound_gateway: {{{rest}}}\n");
    check(
        2,
        &gateway("allowed_domains: [a.org]"),
        &gateway("allowed_domains: [a.org, b.org]"),
        "allowed host",
    );
    check(2, &gateway("max_response_kb: 1"), &gateway("max_response_kb: 2"), "largest response");
    let human = |seconds: u32| format!("{SAFETY}human_approval: {{timeout_seconds: {seconds}}}\n");
    check(2, &human(60), &human(61), "approval timeout in seconds");
    let sessions = |rules: &str| format!("{SAFETY}sessions: {{{rules}}}\n");
    check(2, &sessions("hop_budget: 2"), &sessions("hop_budget: 3"), "hop budget of a worker");
}

#[test]
fn changed_secret_action_and_cost_cap_loosen() {
    let load = |safety: &str| machine("tools: {}\n").safety(&format!("{SAFETY}{safety}")).policy();
    let secret = |action: &str| {
        format!("content_filtering: {{secret_patterns: [{{name: key, pattern: x, action: {action}}}]}}\n")
    };
    let cap = |rules: &str| format!("sessions: {{cost_cap: {{{rules}}}}}\n");
    for (old, new, words) in [
        (secret("block"), secret("warn"), "secret key `x`: it is only logged (before: is blocked)"),
        (cap("mode: enforce, amount: 5"), cap("mode: enforce, amount: 6"), "the cost cap of a turn"),
        (cap("mode: warn, amount: 5"), cap("mode: enforce, amount: 5"), "the cost cap of a turn"),
    ] {
        let found = compare(&load(&old), &load(&new), &[definition("read_file")]);
        let loosens =
            |one: &PolicyDifference| one.effect == PolicyEffect::Loosens && one.description.contains(words);
        assert!(found.iter().any(loosens), "{old} → {new}: {found:#?}");
    }
}

#[test]
fn stricter_secret_action_tightens() {
    let load = |action: &str| {
        let list = format!("[{{name: key, pattern: x, action: {action}}}]");
        let safety = format!("{SAFETY}content_filtering: {{secret_patterns: {list}}}\n");
        machine("tools: {}\n").safety(&safety).policy()
    };
    let found = compare(&load("warn"), &load("block"), &[definition("read_file")]);
    let found: Vec<_> = found.iter().map(|one| (one.effect, one.description.as_str())).collect();
    assert_eq!(found, [(PolicyEffect::Tightens, "secret key `x`: it is blocked (before: is only logged)")]);
}

/// Lists are compared by what they match, whatever the text of the entries.
#[test]
fn lists_are_compared_by_what_can_happen() {
    use PolicyEffect::{Loosens, Neutral, Tightens};
    for (tool, old, new, effect) in [
        ("write_file", "allowed_paths: [/a/**]", "allowed_paths: [/a/b/**, /a/c]", Tightens),
        ("write_file", "allowed_paths: [/a/b/**]", "allowed_paths: [/a/**]", Loosens),
        ("write_file", "allowed_paths: [/a/**]", "allowed_paths: [/ab/**]", Loosens),
        ("write_file", "allowed_paths: [/a/**, /a/b]", "allowed_paths: [/a/**]", Neutral),
        ("write_file", "forbidden_paths: [/a/secret]", "forbidden_paths: [/a]", Tightens),
        ("write_file", "forbidden_paths: [/a]", "forbidden_paths: [/a/secret]", Loosens),
        ("write_file", "forbidden_paths: [\"**/.env\"]", "forbidden_paths: [/x/.env]", Loosens),
        ("write_file", "unattended_paths: [/a/**]", "unattended_paths: [/a/b]", Tightens),
        ("run", "allowed_commands: [git]", "allowed_commands: [{argv: [git, [status, diff]]}]", Tightens),
        ("run", "allowed_commands: [{argv: [git, status]}]", "allowed_commands: [git]", Loosens),
        ("run", "allowed_commands: [\"*\"]", "allowed_commands: [ls]", Tightens),
        ("run", "forbidden_commands: [{argv: [git, push]}]", "forbidden_commands: [git]", Tightens),
        ("run", "forbidden_commands: [git]", "forbidden_commands: [{argv: [git, push]}]", Loosens),
        ("fetch", "allowed_domains: [\"*\"]", "allowed_domains: [docs.python.org]", Tightens),
    ] {
        let load = |entry: &str| machine(&format!("tools: {{{tool}: {{{entry}}}}}\n")).policy();
        let found = compare(&load(old), &load(new), &[definition(tool)]);
        let effects: Vec<_> = found.iter().map(|one| one.effect).collect();
        assert_eq!(effects.iter().max(), Some(&effect), "{old} → {new}: {found:#?}");
        assert!(effect == Loosens || !effects.contains(&Loosens), "{old} → {new}: {found:#?}");
    }
}

#[test]
fn project_policies_are_compared_rule_by_rule() {
    use PolicyEffect::{Loosens, Neutral, Tightens};
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let here = Workspaces::new(vec![Workspace::open(&root, WorkspaceAccess::ReadWrite).unwrap()]);
    let around = policy_environment::PolicyEnvironment {
        variables: policy_environment::PathVariables::with_home(&root),
        protected: policy_environment::ProtectedFolders::default(),
        name_comparison: policy_environment::NameComparison::CaseSensitive,
    };
    let load = |project: &str, home: &str| {
        let file = root.join(files::PROJECT_POLICY);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        match project {
            "" => drop(std::fs::remove_file(&file)),
            text => strict_yaml::replace_private_file(&file, text.as_bytes()).unwrap(),
        }
        machine(home).policy().with_projects(&here, &around).unwrap()
    };
    let tools = ["write_file", "run", "read_file", "copy_file", "remove_file"].map(definition);
    let tools: Vec<&ToolDefinition> = tools.iter().collect();
    let (none, home) = (Workspaces::default(), "tools: {}\n");
    let check = |old: &str, new: &str, workspaces: &Workspaces, home: &str, effect: PolicyEffect| {
        let found = compare_projects(&load(old, home), &load(new, home), workspaces, &tools);
        let strongest = found.iter().map(|one| one.effect).max();
        assert_eq!(strongest, Some(effect), "{old} → {new}: {found:#?}");
    };
    let entry = |tool: &str, text: &str| format!("tools: {{{tool}: {{{text}}}}}\n");
    let write = |text: &str| entry("write_file", text);
    check("", &write("allowed_paths: [src/**]"), &here, home, Tightens);
    check(&write("allowed_paths: [src/**]"), "", &here, home, Loosens);
    // The folder is no workspace any more: nothing of the policy is missed, unless a tool lists paths there.
    check(&write("allowed_paths: [src/**]"), "", &none, home, Neutral);
    let listed = format!("tools: {{read_file: {{allowed_paths: [\"{}/**\"]}}}}\n", root.display());
    check(&write("allowed_paths: [src/**]"), "", &none, &listed, Loosens);
    check(&write("allowed_paths: [src/**]"), &write("allowed_paths: [src/a/**]"), &here, home, Tightens);
    check(&write("allowed_paths: [src/a/**]"), &write("allowed_paths: [src/**]"), &here, home, Loosens);
    check(
        &write("forbidden_paths: [x]"),
        &write("allowed_paths: [], forbidden_paths: [x]"),
        &here,
        home,
        Tightens,
    );
    check(&write("max_file_size_mb: 1"), &write("max_file_size_mb: 2"), &here, home, Loosens);
    check(&write("requires_approval: true"), &write("requires_approval: false"), &here, home, Loosens);
    check(&write("forbidden_in_modes: [ALERT]"), &write("forbidden_in_modes: []"), &here, home, Loosens);
    check(
        &entry("run", "allowed_commands: [ls]"),
        &entry("run", "allowed_commands: [ls, rm]"),
        &here,
        home,
        Loosens,
    );
    check(
        &entry("run", "allowed_commands: [ls, rm]"),
        &entry("run", "allowed_commands: [ls]"),
        &here,
        home,
        Tightens,
    );
    check(
        &entry("run", "allowed_commands: [ls]"),
        &entry("run", "forbidden_commands: [rm]"),
        &here,
        home,
        Loosens,
    );
    // A list of its own replaces the write scope for a tool that writes, and restricts what another one reads.
    let scope = "write_file: {allowed_paths: [src/**]}";
    let with = |entry: &str| format!("tools: {{{scope}, {entry}}}\n");
    let alone = write("allowed_paths: [src/**]");
    check(&alone, &with("remove_file: {allowed_paths: [\"**\"]}"), &here, home, Loosens);
    check(&alone, &with("run: {allowed_paths: [\"**\"]}"), &here, home, Loosens);
    check(&alone, &with("remove_file: {allowed_paths: [src/a/**]}"), &here, home, Tightens);
    check(&with("remove_file: {allowed_paths: [\"**\"]}"), &alone, &here, home, Tightens);
    check(&with("remove_file: {allowed_paths: [src/a/**]}"), &alone, &here, home, Loosens);
    check(&with("copy_file: {allowed_paths: [src/**]}"), &alone, &here, home, Loosens);
    check(&alone, &with("copy_file: {allowed_paths: [src/**]}"), &here, home, Tightens);
    check(&alone, &with("read_file: {allowed_paths: [\"**\"]}"), &here, home, Tightens);
    let forbids = |path: &str| format!("forbidden_paths: [{path}]\ntools: {{}}\n");
    check(&forbids("a"), &forbids("b"), &here, home, Loosens);
    let (plain, commented) = (load(&forbids("a"), home), load(&format!("# why\n{}", forbids("a")), home));
    assert!(compare_projects(&plain, &commented, &here, &tools).is_empty(), "a comment is no difference");
}

#[test]
fn root_folder_is_not_everything_in_an_allowlist() {
    let list = |pattern: &str| format!("allowed_paths: [\"{pattern}\"], allow_every_path: true");
    let loosens = |old: &str, new: &str| {
        check_entry("write_file", &list(old), &list(new), Some(PolicyEffect::Loosens), "allowed path");
    };
    loosens("/", "/**");
    loosens("/", "/a/**");
    loosens("/**/*", "/**");
    check_entry("write_file", &list("/**"), &list("/"), Some(PolicyEffect::Tightens), "allowed path");
    check_entry("write_file", &list("/**/*"), &list("/a/**"), Some(PolicyEffect::Tightens), "allowed path");
    let forbids = |pattern: &str| format!("forbidden_paths: [\"{pattern}\"]");
    check_entry("write_file", &forbids("/"), &forbids("/**"), Some(PolicyEffect::Neutral), "change nothing");
}

/// A list in place of the workspaces tightens if every path on it is in one of them.
#[test]
fn path_list_is_compared_with_the_workspaces() {
    let check = |tool: &str, list: &str, effect: PolicyEffect, words: &str| {
        check_entry(tool, "", &format!("allowed_paths: {list}"), Some(effect), words);
    };
    let tightens = |tool: &str, list: &str| {
        check(tool, list, PolicyEffect::Tightens, "only the listed paths of the workspaces");
    };
    let loosens = |tool: &str, list: &str| {
        check(tool, list, PolicyEffect::Loosens, "a list of paths instead of the workspaces");
    };
    check("write_file", "[]", PolicyEffect::Tightens, "may access no path");
    for tool in ["read_file", "write_file"] {
        tightens(tool, "[/w/src/**, \"/w/src/[ab]\", /w/notes.txt]");
        for list in ["[/a]", "[/w/src/**, /a]", "[/**/src]", "[/wx/**]", "[\"/{w,a}/x\"]"] {
            loosens(tool, list);
        }
    }
    tightens("read_file", "[/w/**, /r/**]");
    for list in ["[/w/**]", "[/w/ro/x]", "[/r/**]"] {
        loosens("write_file", list);
    }
}

#[test]
fn unattended_paths_are_reported_only_if_listed() {
    let load = |tools: &str| machine(tools).modes(OPEN_MODES).policy();
    let asks = "tools: {write_file: {requires_approval: true}}\n";
    let found = compare(&load(asks), &load("tools: {}\n"), &[definition("write_file")]);
    assert!(
        !found.is_empty() && !found.iter().any(|one| one.description.contains("unattended")),
        "{found:#?}"
    );
}

#[test]
fn changes_without_effect_are_neutral() {
    check("tools:\n", "# a word\ntools:\n", Some(PolicyEffect::Neutral), "change nothing");
    check(
        "  run:",
        "  read_file: {requires_approval: false}\n  run:",
        Some(PolicyEffect::Neutral),
        "change nothing",
    );
    check("tools:\n", "tools:\n", None, "");
}

/// A symbolic link changes its target between two loads of the same list.
#[test]
fn path_lists_are_compared_by_resolved_links() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (link, shown) = (root.join("link"), root.display());
    let load = |target: &str, size: u32| {
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(target, &link).unwrap();
        let list = format!("forbidden_paths: [\"{shown}/link/**\"], max_file_size_mb: {size}");
        machine(&format!("tools: {{write_file: {{{list}}}}}\n")).policy()
    };
    let old = load("real", 10);
    let gone = format!("forbidden path removed: {shown}/real/** (resolved from {shown}/link/**)");
    for size in [10, 9] {
        let found = compare(&old, &load("other", size), &[definition("write_file")]);
        let loosens =
            |one: &PolicyDifference| one.effect == PolicyEffect::Loosens && one.description.contains(&gone);
        assert!(found.iter().any(loosens), "{size}: {found:#?}");
    }
    assert_eq!(compare(&old, &load("real", 10), &[definition("write_file")]), []);
}

#[test]
fn transition_changes_are_described_in_full() {
    let load = |rules: &str| {
        machine("tools: {}\n").modes(&format!("{OPEN_MODES}transition_rules: {{{rules}}}\n")).policy()
    };
    let stricter = "NORMAL_to_ALERT: {conditions: [
        {metric: cpu_load_percent, operator: \">\", value: 85, duration_seconds: 30},
        {metric: policy_violations, operator: \">=\", value: 5, window_seconds: 60}]}";
    let milder = "ALERT_to_NORMAL: {logic: all, requires_human_approval: true, conditions: [
        {metric: cpu_load_percent, operator: \"<\", value: 40.5},
        {metric: memory_used_percent, operator: \"<\", value: 50}]}";
    let found = compare(&load(stricter), &load(milder), &[definition("read_file")]);
    let texts: Vec<&str> = found.iter().map(|one| one.description.as_str()).collect();
    assert_eq!(
        texts,
        [
            "transition to a less strict mode added: ALERT to NORMAL when cpu_load_percent < 40.5 and \
             memory_used_percent < 50, with human approval",
            "transition to a stricter mode removed: NORMAL to ALERT when cpu_load_percent > 85 for 30 s or \
             policy_violations >= 5 in 60 s",
        ]
    );
}

#[test]
fn narrower_hosts_tighten_and_wider_ones_loosen() {
    let list = |hosts: &[&str]| hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
    for (old, new, effect) in [
        (&["*"][..], &["docs.python.org"][..], Some(PolicyEffect::Tightens)),
        (&["docs.python.org"], &["*"], Some(PolicyEffect::Loosens)),
        (&["*.python.org"], &["docs.python.org", "*.wiki.python.org"], Some(PolicyEffect::Tightens)),
        (&["*.python.org"], &["python.org"], Some(PolicyEffect::Loosens)),
        (&["a.org"], &["*.a.org"], Some(PolicyEffect::Loosens)),
        (&["*.a.org"], &["*.ba.org"], Some(PolicyEffect::Loosens)),
        (&["a.org", "*"], &["*"], None),
    ] {
        let rule = RuleRef { file: "f".into(), line: 1, id: "x".into() };
        let texts = |hosts: &[&str]| {
            let rows = list(hosts).into_iter().map(|host| (host.clone(), (host, rule.clone())));
            rows.collect::<RuleTexts<String>>()
        };
        let mut found = Vec::new();
        compare_allowed_hosts("host", &texts(old), &texts(new), &mut found);
        assert_eq!(found.iter().map(|one| one.effect).max(), effect, "{old:?} {new:?}: {found:?}");
    }
}
