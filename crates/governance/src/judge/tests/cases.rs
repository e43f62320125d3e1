//! Known attacks on path rules that have no place of their own in the other files, and where the rest are held.
//!
//! | case | what is tried | test |
//! |---|---|---|
//! | T024–T027 | alias bombs, a key twice, an empty file, a misspelt key | `document`; `policy::tests`; the suite's `reload::t024_…` |
//! | T028 | policy files that others can write | `document`'s `trust`; `policy::tests` |
//! | T029 | tools that write or create what governs them | `path::t029_…`; the suite's `calls::t029_…` |
//! | T030, T045, T073 | forbidden and allowed in any order; explanations | `differential` |
//! | T031 | what nothing matches | `path::t031_…`, `call::*` |
//! | T041 | `/**` in what is allowed | `policy::tests`; the suite's `policy::t041_…` |
//! | T046, T060 | sibling prefixes, stars across `/` | `path::t046_…` |
//! | T047, T061 | `..`, `//`, `/.`: every spelling of one object | `path::t047_…` |
//! | T048, T049, T053 | links out, dangling links, rules that name a link | `path::t048_…`, `resources::resolve` |
//! | T050 | names exchanged while they are used | `resources::races` |
//! | T051 | `/proc/self/root` and its kin | `path::t029_…`, here |
//! | T052 | hard links | `path::t052_…`, `resources::links` |
//! | T054, T055 | case and normal form | `path::t054_…`, here, `name` |
//! | T056, T057, T059 | NUL, long names, texts that look like something else | `resources::request` |
//! | T063, T064, T067 | files and roots that appear later, nested rules | here, `resources::resolve` |
//! | T065 | a mount in a workspace | the suite's `calls::t065_…` |
//! | T068 | a program that renames what is forbidden, or the way to it | the suite's `sandbox::cases::t068_…` |
//! | T069 | a caller's folder | `path::t069_…` |
//! | T071 | what a denial and its time tell | `path::existing_and_missing_…`; the suite's `calls::t071_…` |
//! | T138, T139, T143 | hosts and private addresses in every spelling | `host_rules`, `address` |
//! | T175 | a tool by another name | here; the suite's `limits::t175_…` |
//! | T176, T179, T181, T183 | crowds, clocks, edges and lost counts | `execution::limits`; the suite's `limits` |

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use super::machine::{definition, machine};
use crate::FileNames;

#[test]
fn t051_no_link_into_a_process_is_a_way_out() {
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
        machine.read(path, "path_forbidden floor");
    }
    machine.read("way/passwd", "path_forbidden floor");
    machine.read("here", "path_forbidden floor");
}

#[test]
fn t054_t055_no_spelling_that_a_volume_takes_for_the_same_gets_past() {
    let tools =
        "tools: {read_file: {forbidden_paths: [\"**/geh\u{e9}im\", \"$ROOT/ws/Sub\", \"**/\u{ac00}\"]}}\n";
    let folding = machine(tools).with(|m| m.names = FileNames::CaseInsensitive);
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
    // Where names are exact these are different files, and only the one that is named is forbidden.
    let exact = machine(tools);
    exact.read("geh\u{e9}im", "path_forbidden forbidden_path");
    for name in ["gehe\u{301}im", "sub/b.txt"] {
        exact.read(name, "permit");
    }
    // The floor holds everywhere: a volume that folds can be mounted anywhere.
    for name in [".GIT/config", ".g\u{200c}it/config", ".BashRC", ".\u{17f}sh/x"] {
        exact.write(name, "path_forbidden floor");
    }
    // No spelling widens what is allowed.
    let allowed = machine("tools: {read_file: {allowed_paths: [\"$ROOT/ws/A.TXT\"]}}\n");
    allowed.with(|m| m.names = FileNames::CaseInsensitive).read("a.txt", "path_not_allowed not_listed");
}

#[test]
fn t063_what_appears_later_is_forbidden_from_its_first_moment() {
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
fn t064_what_takes_the_place_of_a_workspace_is_not_one() {
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
fn t067_forbidden_wins_at_every_depth() {
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
fn t175_rules_belong_to_the_tool_and_not_to_a_spelling_of_its_name() {
    let machine = machine("tools: {READ_FILE: {rate_limit_per_hour: 1}}\n").counts(1, 0);
    machine.expect("read_file", &json!({"path": "a.txt"}), "rate_limited tool_per_hour");
    let twice = "tools: {read_file: {}, Read_File: {}}\n";
    let document = document::Document::from_text("tools.yaml", twice).unwrap();
    let file: crate::files::ToolsFile = document.parse().unwrap();
    assert_eq!(file.tools.iter().count(), 2, "the reader sees two keys");
    let policy = self::machine("tools: {read: {}}\n").policy();
    let error = policy.check_tools([&definition("read_file")]);
    assert!(error.is_ok(), "a name nobody has waits for its tool: {error:?}");
}
