//! Known attacks on path rules that fit none of the other test files, and an index of the tests for the
//! others.
//!
//! | attack | tests |
//! |---|---|
//! | alias bombs, duplicate or misspelt keys, empty files | `strict_yaml`, `policy::tests`, suite `reload` |
//! | policy files that other users can write | `strict_yaml::trust`, `policy::tests` |
//! | tools that write or create their own policy | `path`, suite `calls` |
//! | forbidden and allowed rules in any order; explanations | `differential` |
//! | calls that no rule matches | `path`, `call` |
//! | `/**` in an allowing list | `policy::tests`, suite `policy` |
//! | sibling prefixes, `*` across `/` | `path` |
//! | `..`, `//`, `/.`: every spelling of one object | `path` |
//! | links out, dangling links, rules that name a link | `path`, `file_access::resolve` |
//! | names exchanged during use | `file_access::races` |
//! | `/proc/self/root` and similar links | `path`, here |
//! | hard links | `path`, `file_access::links` |
//! | case and Unicode normalisation | `path`, here, `name` |
//! | NUL bytes, long names, misleading texts | `file_access::request` |
//! | files and roots that appear later, nested rules | here, `file_access::resolve` |
//! | a mount in a workspace | suite `calls` |
//! | a program that renames a forbidden file or its folder | suite `sandbox::cases` |
//! | the caller's working directory | `path` |
//! | information in the text and timing of a denial | `path`, suite `calls` |
//! | hosts and private addresses in every notation | `host_rules`, `address` |
//! | another spelling of a tool name | here, suite `limits` |
//! | concurrency, clock changes, window edges and lost counts | `execution::limits`, suite `limits` |

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use super::fixture::{definition, machine};
use crate::policy_environment::NameComparison;

#[test]
fn links_through_proc_do_not_leave_the_workspace() {
    let machine =
        machine("tools: {read_file: {allowed_paths: [\"/proc/**\", \"/dev/**\", \"$ROOT/ws/**\"]}}\n");
    symlink("/proc/self/root/etc", machine.path("ws/way")).unwrap();
    symlink("/proc/self/cwd", machine.path("ws/here")).unwrap();
    let own = format!("/proc/{}/root/etc/passwd", std::process::id());
    for path in [
        own.as_str(),
        "/proc/self/root",
        "/proc/thread-self/root/etc/passwd",
        "/proc/self/task/1/cwd",
        "/dev/fd/0",
    ] {
        machine.read(path, "path_forbidden built_in");
    }
    machine.read("way/passwd", "path_forbidden built_in");
    machine.read("here", "path_forbidden built_in");
}

#[test]
fn case_and_unicode_variants_do_not_bypass_rules() {
    let tools =
        "tools: {read_file: {forbidden_paths: [\"**/geh\u{e9}im\", \"$ROOT/ws/Sub\", \"**/\u{ac00}\"]}}\n";
    let folding = machine(tools).with(|m| m.file_names = NameComparison::CaseInsensitive);
    for name in [
        "geh\u{e9}im",
        "gehe\u{301}im",
        "GEH\u{c9}IM",
        "GEHE\u{301}IM/x",
        "sub/b.txt",
        "SUB",
        "\u{1100}\u{1161}",
    ] {
        folding.read(name, "path_forbidden forbidden_path");
    }
    folding.read("geheim", "permit");
    // On a case-sensitive file system these are different files, and only the named one is forbidden.
    let exact = machine(tools);
    exact.read("geh\u{e9}im", "path_forbidden forbidden_path");
    for name in ["gehe\u{301}im", "sub/b.txt"] {
        exact.read(name, "permit");
    }
    // Built-in denials ignore case on every system, because a case-insensitive volume can be mounted
    // anywhere.
    for name in [".GIT/config", ".g\u{200c}it/config", ".BashRC", ".\u{17f}sh/x"] {
        exact.write(name, "path_forbidden built_in");
    }
    // An allowing list always compares exactly.
    let allowed = machine("tools: {read_file: {allowed_paths: [\"$ROOT/ws/A.TXT\"]}}\n");
    allowed
        .with(|m| m.file_names = NameComparison::CaseInsensitive)
        .read("a.txt", "path_not_allowed not_listed");
}

#[test]
fn file_created_after_policy_load_is_forbidden() {
    let machine = machine("tools: {read_file: {forbidden_paths: [\"$ROOT/ws/later/*.key\"]}}\n");
    let policy = machine.policy();
    assert!(policy.warnings().is_empty());
    machine.read("later/a.key", "path_forbidden forbidden_path");
    fs::create_dir(machine.path("ws/later")).unwrap();
    fs::write(machine.path("ws/later/a.key"), "x").unwrap();
    machine.read("later/a.key", "path_forbidden forbidden_path");
    symlink("later/a.key", machine.path("ws/alias")).unwrap();
    machine.read("alias", "path_forbidden forbidden_path");
}

#[test]
fn replacement_of_a_workspace_folder_is_not_a_workspace() {
    let machine = machine("tools: {}\n");
    machine.read("a.txt", "permit");
    fs::rename(machine.path("ws"), machine.path("moved")).unwrap();
    symlink(machine.path("other"), machine.path("ws")).unwrap();
    machine.read("o.txt", "path_not_allowed outside_workspaces");
    machine.write("new.txt", "path_not_allowed outside_workspaces");
    machine.read("$ROOT/moved/a.txt", "path_not_allowed outside_workspaces");
    assert!(!machine.path("other/new.txt").exists());
}

#[test]
fn forbidden_takes_precedence_at_every_depth() {
    let tools = "tools:
  read_file:
    allowed_paths: [\"$ROOT/ws/**\", \"$ROOT/ws/sub/pub/**\"]
    forbidden_paths: [\"$ROOT/ws/sub\"]
";
    let machine = machine(tools);
    machine.read("a.txt", "permit");
    machine.read("sub/b.txt", "path_forbidden forbidden_path");
    machine.read("sub/pub/x", "path_forbidden forbidden_path");
}

#[test]
fn tool_rules_apply_to_every_spelling_of_its_name() {
    let machine = machine("tools: {READ_FILE: {rate_limit_per_hour: 1}}\n").counts(1, 0);
    machine.expect("read_file", &json!({"path": "a.txt"}), "rate_limited tool_per_hour");
    let twice = "tools: {read_file: {}, Read_File: {}}\n";
    let document = strict_yaml::Document::from_text("tools.yaml", twice).unwrap();
    let file: crate::files::ToolsFile = document.parse().unwrap();
    assert_eq!(file.tools.iter().count(), 2, "the parser sees two keys");
    let policy = self::machine("tools: {read: {}}\n").policy();
    let error = policy.check_tools([&definition("read_file")]);
    assert!(error.is_ok(), "an entry without a tool is accepted: {error:?}");
}
