//! Path checks: workspaces, patterns, links, built-in denials, hard links, sizes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::{Value, json};
use tool::Mode;

use super::fixture::{NO_TOOL_ENTRIES, VerdictSummary, machine, valid_call};
use crate::policy_environment::NameComparison;
use crate::{RateCounts, Situation, Workspace, WorkspaceAccess, Workspaces, judge, precheck};

#[test]
fn missing_list_means_workspaces_and_empty_list_means_none() {
    let machine = machine(NO_TOOL_ENTRIES);
    for inside in [
        "a.txt",
        "$ROOT/ws/a.txt",
        "./a.txt",
        "sub/../a.txt",
        ".",
        "$ROOT/ws",
        "$ROOT/ws//sub/./b.txt",
        "new",
    ] {
        machine.read(inside, "permit").decided_by("workspaces", 0, "workspaces");
    }
    for outside in
        ["$ROOT/ws-evil/x", "$ROOT/other/o.txt", "../other/o.txt", "/", "$ROOT", "sub/../../ws-evil/x"]
    {
        machine.read(outside, "path_not_allowed outside_workspaces").has_hint("sinew workspace add");
    }
    machine
        .read("/nowhere/x", "path_not_allowed outside_workspaces")
        .has_reason("Permission denied: Path /nowhere/x not in allowed paths");
    let none = self::machine("tools:\n  read_file:\n    allowed_paths: []\n");
    none.read("a.txt", "path_not_allowed not_listed").decided_by("tools.yaml", 3, "read_file.allowed_paths");
    let listed = self::machine("tools: {read_file: {allowed_paths: [\"$ROOT/other/**\"]}}\n");
    listed.read("a.txt", "path_not_allowed not_listed");
    listed.read("$ROOT/other/o.txt", "permit").decided_by("tools.yaml", 1, "read_file.allowed_paths");
}

#[test]
fn sibling_prefixes_and_nested_names_do_not_match() {
    for pattern in ["$ROOT/ws", "$ROOT/ws/", "$ROOT/ws/**"] {
        let machine = machine(&format!("tools: {{read_file: {{allowed_paths: [\"{pattern}\"]}}}}\n"));
        machine.read("$ROOT/ws-evil/x", "path_not_allowed not_listed");
        machine.read("$ROOT/ws", "permit");
    }
    let star = machine("tools: {read_file: {allowed_paths: [\"$ROOT/ws/*.txt\"]}}\n");
    star.read("a.txt", "permit");
    star.read("sub/b.txt", "path_not_allowed not_listed");
    let bare = machine("tools: {read_file: {allowed_paths: [\"$ROOT/ws\"]}}\n");
    bare.read("a.txt", "path_not_allowed not_listed").has_hint("/ws/**` would include them");
    let two = machine("tools: {read_file: {allowed_paths: [\"$ROOT/other\", \"$ROOT/ws\"]}}\n");
    two.read("a.txt", "path_not_allowed not_listed").has_hint("/ws/**` would include them");
    two.read("$ROOT/ws-evil/x", "path_not_allowed not_listed").has_hint("add a pattern there");
}

#[test]
fn path_with_too_many_parent_steps_is_refused() {
    let machine = machine(NO_TOOL_ENTRIES);
    machine.read(&"sub/../".repeat(64), "permit");
    machine.read(&"sub/../".repeat(65), "too_large too_many_detours").has_hint("without `..`");
    machine.read(&"a/".repeat(5_000), "too_large path_too_long").has_hint("8192 bytes");
}

#[test]
fn deepest_workspace_decides() {
    let machine = machine(NO_TOOL_ENTRIES).with(|m| {
        let at = |name: &str, access| Workspace::open(&m.path(name), access).unwrap();
        fs::create_dir_all(m.path("ws/sub/deep")).unwrap();
        m.workspaces = Workspaces::new(vec![
            at("ws", WorkspaceAccess::ReadWrite),
            at("ws/sub/deep", WorkspaceAccess::ReadWrite),
            at("ws/sub", WorkspaceAccess::ReadOnly),
        ]);
    });
    machine.write("a.txt", "permit");
    machine.read("sub/b.txt", "permit");
    machine.write("sub/b.txt", "path_not_allowed read_only_workspace").has_hint("ws/sub is read-only");
    machine.write("sub/deep/new.txt", "permit");
}

#[test]
fn narrower_of_two_workspaces_in_one_folder_decides() {
    for order in [[0, 1], [1, 0]] {
        let machine = machine(NO_TOOL_ENTRIES).with(|m| {
            let accesses = [WorkspaceAccess::ReadWrite, WorkspaceAccess::ReadOnly];
            let at = |access: usize| Workspace::open(&m.path("ws"), accesses[access]).unwrap();
            m.workspaces = Workspaces::new(order.map(at).to_vec());
        });
        machine.read("a.txt", "permit");
        machine.write("a.txt", "path_not_allowed read_only_workspace");
    }
}

#[test]
fn workspace_root_cannot_be_removed() {
    let everything = "tools: {remove_file: {allowed_paths: [\"$ROOT\", \"$ROOT/**\"]}}\n";
    for tools in [NO_TOOL_ENTRIES, everything] {
        let machine = machine(tools);
        let gone = |path: &str, expect: &str| machine.expect("remove_file", &json!({"path": path}), expect);
        for root in [".", "$ROOT/ws", "sub/.."] {
            gone(root, "path_not_allowed workspace_root").has_hint("name the entries to remove inside it");
        }
        gone("sub", "permit");
        gone("a.txt", "permit");
    }
    let machine = machine(everything);
    machine.expect("remove_file", &json!({"path": "$ROOT"}), "path_not_allowed workspace_root");
    machine.expect("remove_file", &json!({"path": "$ROOT/other"}), "permit");
    machine.read("$ROOT/ws", "permit");
}

#[test]
fn read_only_workspace_allows_only_reads() {
    let machine = machine(NO_TOOL_ENTRIES).with(|m| {
        let read_only = Workspace::open(&m.path("other"), WorkspaceAccess::ReadOnly).unwrap();
        m.workspaces = Workspaces::new(vec![
            read_only,
            Workspace::open(&m.path("ws"), WorkspaceAccess::ReadWrite).unwrap(),
        ]);
    });
    machine.read("o.txt", "permit");
    machine
        .write("o.txt", "path_not_allowed read_only_workspace")
        .has_reason("Permission denied: Path o.txt not in allowed paths")
        .has_hint("read-only");
    machine.write("new.txt", "path_not_allowed read_only_workspace");
    machine.write("$ROOT/ws/a.txt", "permit");
    machine.expect("copy_file", &json!({"from": "o.txt", "to": "$ROOT/ws/o.txt"}), "permit");
    machine.expect(
        "copy_file",
        &json!({"from": "$ROOT/ws/a.txt", "to": "a.txt"}),
        "path_not_allowed read_only_workspace",
    );
}

#[test]
fn relative_path_without_a_workspace_is_refused() {
    let machine = machine("tools: {read_file: {allowed_paths: [\"$ROOT/other/**\"]}}\n")
        .with(|m| m.workspaces = Workspaces::default());
    machine.read("o.txt", "path_not_allowed no_workspace").has_hint("sinew workspace add");
    machine.read("$ROOT/other/o.txt", "permit");
    machine.write("$ROOT/other/o.txt", "path_not_allowed outside_workspaces");
}

#[test]
fn working_directory_never_widens_access() {
    let machine = machine(NO_TOOL_ENTRIES);
    let base = |cwd: Option<PathBuf>| machine.workspaces.with_base(cwd.as_deref()).base().unwrap().to_owned();
    assert_eq!(base(None), machine.path("ws"));
    assert_eq!(base(Some(machine.path("ws/sub"))), machine.path("ws/sub"));
    assert_eq!(base(Some(PathBuf::from("sub"))), machine.path("ws"), "a relative folder is ignored");
    for outside in ["/", "other", "ws-evil", "ws/../other", "."] {
        let cwd = machine.root.join(outside);
        let mut machine = self::machine(NO_TOOL_ENTRIES);
        machine.workspaces = machine.workspaces.with_base(Some(&cwd));
        machine.read("o.txt", "path_not_allowed outside_workspaces");
        machine.read("$ROOT/ws/a.txt", "permit");
    }
}

#[test]
fn forbidden_beats_allowed_in_every_spelling() {
    let tools = "tools:
  read_file:
    allowed_paths: [\"/**\"]
    allow_every_path: true
    forbidden_paths:
      - \"$ROOT/other\"
      - \"**/sub/**\"
      - ~/.ssh
";
    let machine = machine(tools);
    machine
        .read("$ROOT/other/o.txt", "path_forbidden forbidden_path")
        .has_reason(&format!("Permission denied: Path {}/other/o.txt is forbidden", machine.root.display()))
        .decided_by("tools.yaml", 6, "read_file.forbidden_paths");
    for spelling in
        ["$ROOT/other", "$ROOT/other/", "$ROOT//other/./", "$ROOT/ws/../other/o.txt", "../other/new"]
    {
        machine.read(spelling, "path_forbidden forbidden_path").decided_by(
            "tools.yaml",
            6,
            "read_file.forbidden_paths",
        );
    }
    for spelling in ["sub", "sub/b.txt", "sub/deep/er", "$ROOT/ws/sub/.", "nothing/sub/x"] {
        machine.read(spelling, "path_forbidden forbidden_path").decided_by(
            "tools.yaml",
            7,
            "read_file.forbidden_paths",
        );
    }
    machine.read("$ROOT/home/.ssh/id", "path_forbidden forbidden_path");
    machine.read("$ROOT/others", "permit");
    machine.read("subject", "permit");
    machine.read("~/.ssh", "permit"); // taken literally: a name in the workspace
}

#[test]
fn forbidden_name_is_not_opened() {
    let machine = machine(
        "tools: {write_file: {forbidden_paths: [\"$ROOT/other\"], forbidden_in_modes: [LOCKDOWN]}}\n",
    );
    let policy = machine.policy();
    let prechecked = |path: &str, mode| {
        let situation = Situation { mode, workspaces: &machine.workspaces, counts: RateCounts::default() };
        precheck(&policy, &situation, valid_call("write_file", json!({"path": path, "content": ""})))
            .map(|_| ())
    };
    let code = |path: &str, mode| prechecked(path, mode).unwrap_err().refusal().code;
    assert_eq!(code("../other/o.txt", Mode::Normal), tool::RefusalCode::PathForbidden);
    assert_eq!(code(".git/config", Mode::Normal), tool::RefusalCode::PathForbidden);
    assert_eq!(code("../sinew/x", Mode::Normal), tool::RefusalCode::ControlPlane);
    assert_eq!(code("a.txt", Mode::Lockdown), tool::RefusalCode::ModeDenied);
    // Only the canonical name decides whether a path is allowed, so the pre-check passes.
    prechecked("/etc/hosts", Mode::Normal).unwrap();
}

/// The match of a typed name is reused only for the same lists. The name here leads to a file that may be
/// read, so only the typed name can cause a denial.
#[test]
fn typed_name_is_matched_again_after_a_policy_change() {
    let listed = |pattern: &str| format!("tools: {{read_file: {{forbidden_paths: ['{pattern}']}}}}\n");
    let (none, elsewhere, here) = (NO_TOOL_ENTRIES.to_owned(), listed("**/else"), listed("**/link"));
    let check = |[before, after]: [&str; 2], sinews_own: &str, expect: &str| {
        let mut machine = machine(before);
        symlink(machine.path("ws/a.txt"), machine.path("ws/sub/link")).unwrap();
        let situation =
            Situation { mode: machine.mode, workspaces: &machine.workspaces.clone(), counts: machine.counts };
        let call = valid_call("read_file", json!({"path": "sub/link"}));
        let prechecked = precheck(&machine.policy(), &situation, call).unwrap();
        machine.files[1].1 = after.to_owned();
        let policy = machine.policy_with_own_folder(sinews_own);
        let outcome = VerdictSummary::of(judge(&policy, &situation, file_access::open(prechecked).unwrap()));
        assert_eq!(outcome.verdict, expect, "{before}{after}{sinews_own}");
    };
    check([&here.replace("link", "other"), &elsewhere], "sinew", "permit");
    check([&elsewhere, &here], "sinew", "path_forbidden forbidden_path");
    check([&none, &here], "sinew", "path_forbidden forbidden_path");
    check([&none, &none], "sinew", "permit");
    check([&none, &none], "ws/sub", "control_plane built_in");
    check([&elsewhere, &elsewhere], "ws/sub", "control_plane built_in");
}

#[test]
fn existing_and_missing_paths_are_refused_alike() {
    let machine = machine("tools: {read_file: {forbidden_paths: [\"$ROOT/ws/sub\"]}}\n");
    let same = |a: &str, b: &str| {
        let texts = [a, b].map(|path| {
            let outcome = VerdictSummary::of(machine.verdict(valid_call("read_file", json!({"path": path}))));
            (outcome.verdict, outcome.reason.replace(path, "…"), outcome.hint, outcome.rules)
        });
        assert_eq!(texts[0], texts[1]);
    };
    same("sub/b.txt", "sub/missing.txt");
    same("/etc/passwd", "/etc/missing-entirely");
    same("/etc/passwd", "/missing-entirely/passwd");
    same("/etc/passwd", "/etc/passwd/below-a-file");
    machine.read("missing.txt", "permit");
    machine.read("a.txt/below", "permit");
}

#[test]
fn links_are_judged_by_both_names() {
    let tools = "tools:\n  read_file:\n    forbidden_paths: [\"$ROOT/ws/link\", \"$ROOT/ws/target2\"]\n";
    let machine = machine(tools);
    fs::write(machine.path("ws/target"), "x").unwrap();
    fs::write(machine.path("ws/target2"), "x").unwrap();
    symlink("target", machine.path("ws/link")).unwrap();
    symlink("target2", machine.path("ws/link2")).unwrap();
    symlink(machine.path("other"), machine.path("ws/out")).unwrap();
    symlink(machine.path("other/new"), machine.path("ws/dangling")).unwrap();
    machine.read("link", "path_forbidden forbidden_path"); // the rule names the link, and so does the call
    machine.read("target", "path_forbidden forbidden_path"); // the rule names the link, the call its target
    machine.read("link2", "path_forbidden forbidden_path"); // the rule names the target, the call a link
    machine.read("target2", "path_forbidden forbidden_path");
    machine.read("out/o.txt", "path_not_allowed outside_workspaces");
    machine.read("out", "path_not_allowed outside_workspaces");
    machine.write("out/new.txt", "path_not_allowed outside_workspaces");
    machine.write("dangling", "path_not_allowed outside_workspaces");
    // The refusal does not reveal the target of a link.
    let reported = machine.read("out/o.txt", "path_not_allowed outside_workspaces");
    assert!(!format!("{reported:?}").contains("other"), "{reported:?}");
}

#[test]
fn link_made_by_the_agent_does_not_widen_allowed_paths() {
    let tools = "tools: {read_file: {allowed_paths: [\"$ROOT/ws/out/**\"]}}\n";
    let machine = machine(tools);
    symlink(machine.path("other"), machine.path("ws/out")).unwrap();
    let owner = |uid| std::os::unix::fs::lchown(machine.path("ws/out"), Some(uid), None);
    if owner(12345).is_err() {
        return ::tests::left_out("only root can change the owner of a link");
    }
    machine.read("$ROOT/other/o.txt", "path_not_allowed not_listed");
    let warning = machine.policy().warnings()[0].to_string();
    assert!(warning.contains("goes through a symbolic link") && warning.contains("/other"), "{warning}");
    owner(0).unwrap();
    machine.read("$ROOT/other/o.txt", "permit");
    assert!(machine.policy().warnings().is_empty());
}

#[test]
fn no_policy_file_overrides_built_in_denials() {
    let all = "{allowed_paths: [\"/**\"], allow_every_path: true}";
    let tools = format!("tools: {{read_file: {all}, write_file: {all}}}\n");
    let tools = tools.as_str();
    let machine = machine(tools);
    for own in
        ["$ROOT/sinew/config/f", "$ROOT/sinew", "$ROOT/sinew/state/not/there", "../sinew/x", "$ROOT/SINEW/x"]
    {
        machine.read(own, "control_plane built_in").decided_by("built-in denials", 0, "built_in.sinew");
        machine.write(own, "control_plane built_in").has_hint("no policy can allow this");
    }
    for path in [
        ".git/hooks/pre-commit",
        ".git/config",
        "deep/er/.git/config",
        ".bashrc",
        ".ZSHRC",
        ".mcp.json",
        ".vscode/settings.json",
    ] {
        machine.write(path, "path_forbidden built_in");
        machine.read(path, "permit");
    }
    symlink(machine.path("sinew/config"), machine.path("ws/conf")).unwrap();
    symlink(machine.path("home/.ssh"), machine.path("ws/keys")).unwrap();
    machine.read("conf/f", "control_plane built_in");
    machine.write("keys/authorized_keys", "path_forbidden built_in");
    for secret in [
        "/proc/self/environ",
        "/proc/1/mem",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd",
        "/proc/self/fd/0",
        "/dev/fd/0",
    ] {
        machine.read(secret, "path_forbidden built_in").decided_by(
            "built-in denials",
            0,
            "built_in.processes",
        );
    }
    machine.read("/proc/loadavg", "permit");
}

#[test]
fn case_does_not_bypass_rules_on_case_insensitive_systems() {
    let tools = "tools: {read_file: {forbidden_paths: [\"**/.env\"]}}\n";
    let strict = machine(tools);
    strict.read(".ENV", "permit");
    strict.read(".env", "path_forbidden forbidden_path");
    let folding = machine(tools).with(|m| m.file_names = NameComparison::CaseInsensitive);
    folding.read(".ENV", "path_forbidden forbidden_path");
    folding.read("sub/.Env/x", "path_forbidden forbidden_path");
    folding.read(".envy", "permit");
    let folding = machine("tools: {read_file: {forbidden_paths: [\"**/.ssh\"]}}\n")
        .with(|m| m.file_names = NameComparison::CaseInsensitive);
    folding.read(".\u{df}h/id", "path_forbidden forbidden_path");
    folding.write(".\u{df}h/id", "path_forbidden built_in");
}

#[test]
fn hard_link_is_judged_by_its_other_names() {
    let tools = "tools: {read_file: {forbidden_paths: [\"$ROOT/home/.ssh\", \"$ROOT/gone\"]}}\n";
    let machine = machine(tools);
    fs::hard_link(machine.path("home/.ssh/id"), machine.path("ws/innocent")).unwrap();
    machine
        .read("innocent", "path_forbidden hardlink")
        .has_reason("Permission denied: Path innocent is forbidden")
        .has_hint("one of them is forbidden");
    fs::hard_link(machine.path("ws/a.txt"), machine.path("ws/sub/twin")).unwrap();
    machine.read("a.txt", "permit"); // both names are in the workspace
    fs::hard_link(machine.path("sinew/config/f"), machine.path("ws/own")).unwrap();
    machine.read("own", "path_forbidden hardlink");
    machine.write("own", "path_forbidden hardlink");
    fs::hard_link(machine.path("other/o.txt"), machine.path("ws/stray")).unwrap();
    machine.read("stray", "permit"); // its other name is not forbidden
    machine.read("sub", "permit"); // the link count of a directory does not matter
    let anywhere = self::machine("tools: {read_file: {forbidden_paths: [\"**/secret\"]}}\n");
    fs::hard_link(anywhere.path("other/o.txt"), anywhere.path("ws/stray")).unwrap();
    anywhere.read("stray", "path_forbidden hardlink").has_hint("another may be forbidden");
    fs::hard_link(anywhere.path("ws/a.txt"), anywhere.path("ws/sub/secret")).unwrap();
    anywhere.read("a.txt", "path_forbidden hardlink").has_hint("one of them is forbidden");
    let allowed = self::machine(&tools.replace("forbidden", "hard_links: allow, forbidden"));
    fs::hard_link(allowed.path("home/.ssh/id"), allowed.path("ws/innocent")).unwrap();
    allowed.read("innocent", "permit");
}

/// Applies to files that a call finds in a folder it may read.
#[test]
fn forbidden_hard_link_hides_content_during_a_walk() {
    let check = |rules: &str, other: &str, expect: bool| {
        let machine = machine(&format!("tools: {{read_file: {{{rules}}}}}\n"));
        fs::hard_link(machine.path(other), machine.path("ws/sub/found")).unwrap();
        let verdict = machine.verdict(valid_call("read_file", json!({"path": "sub"})));
        let crate::Verdict::Permit(permit) = verdict else { panic!("{verdict:?}") };
        let folder = permit.path("path").unwrap();
        let mut shown = None;
        let mut look = |found: &file_access::TreeEntry<'_>| {
            let path = folder.canonical().join(found.relative);
            if path.ends_with("found") {
                shown = Some(permit.is_content_visible(&path, &found.reader().unwrap()));
            }
            file_access::VisitAction::Enter
        };
        folder.visit(&mut look).unwrap();
        assert_eq!(shown, Some(expect), "{rules} {other}");
    };
    check("forbidden_paths: [\"$ROOT/home/.ssh\"]", "home/.ssh/id", false);
    check("forbidden_paths: [\"$ROOT/home/.ssh\"]", "other/o.txt", true);
    check("forbidden_paths: [\"**/secret\"]", "other/o.txt", false);
    check("forbidden_paths: [\"**/secret\"]", "ws/a.txt", true);
    check("hard_links: allow, forbidden_paths: [\"$ROOT/home/.ssh\"]", "home/.ssh/id", true);
}

#[test]
fn size_limit_applies_to_reads_and_writes() {
    let tools = "tools:\n  read_file: {max_file_size_mb: 1}\n  write_file:\n    max_file_size_mb: 1\n";
    let machine = machine(tools);
    let file = fs::File::create(machine.path("ws/big")).unwrap();
    file.set_len(1024 * 1024).unwrap();
    machine.read("big", "permit");
    file.set_len(1024 * 1024 + 1).unwrap();
    machine.read("big", "too_large max_file_size").decided_by("tools.yaml", 2, "read_file.max_file_size_mb");
    let write = |bytes: usize, expect: &str| {
        machine.expect("write_file", &json!({"path": "w", "content": "x".repeat(bytes)}), expect)
    };
    write(1024 * 1024, "permit");
    write(1024 * 1024 + 1, "too_large max_file_size").decided_by(
        "tools.yaml",
        4,
        "write_file.max_file_size_mb",
    );
    machine.write("big", "permit"); // the size of the replaced file does not matter
    let words = json!({"path": "a.txt", "content": "x".repeat(1024 * 1024 + 1)});
    machine.expect("read_file", &words, "permit"); // content counts only for a tool that writes
}

#[test]
fn every_path_of_a_call_is_judged() {
    let machine = machine(NO_TOOL_ENTRIES);
    let many = |paths: Value, expect: &str| machine.expect("read_many", &json!({"paths": paths}), expect);
    many(json!(["a.txt", "sub/b.txt"]), "permit");
    many(json!([]), "permit");
    many(json!(["a.txt", "$ROOT/ws-evil/x", "sub/b.txt"]), "path_not_allowed outside_workspaces");
    machine.expect("copy_file", &json!({"from": "a.txt", "to": "/x"}), "path_not_allowed outside_workspaces");
    machine.expect("copy_file", &json!({"from": "a.txt", "to": ".git/config"}), "path_forbidden built_in");
    machine.expect("copy_file", &json!({"from": ".git/config", "to": "a.txt"}), "permit");
}

#[test]
fn long_names_are_shortened_in_messages() {
    let machine = machine(NO_TOOL_ENTRIES).with(|m| m.workspaces = Workspaces::default());
    for (bytes, verdict) in [(8_000, "path_not_allowed no_workspace"), (100_000, "too_large path_too_long")] {
        let outcome = machine.read(&"x".repeat(bytes), verdict);
        assert!(outcome.reason.len() < 400);
    }
}
