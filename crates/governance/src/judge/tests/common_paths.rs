//! Paths that are forbidden to every tool, and exceptions from them by name.

use crate::judge_tests::machine;

#[test]
fn paths_forbidden_to_every_tool_hold_for_unlisted_ones() {
    let list = "forbidden_paths: [\"**/.env\", $HOME/.ssh]\n";
    for tools in [
        "tools: {}\n",
        "tools: {read_file: {forbidden_paths: [/x]}}\n",
        "tools: {read_file: {shadow: true}}\n",
    ] {
        let machine = machine(&[tools, list].concat());
        for path in [".env", "sub/.env/x", "$ROOT/home/.ssh/id"] {
            let path = path.replace("$ROOT", &machine.root.display().to_string());
            machine.read(&path, "path_forbidden forbidden_path").decided_by(
                "tools.yaml",
                2,
                "forbidden_paths",
            );
        }
        machine.read("a.txt", "permit");
    }
}

#[test]
fn an_exception_holds_for_its_tool_and_its_pattern_alone() {
    let list = "forbidden_paths: [\"**/.env\", \"**/key\"]\n";
    let machine = machine(&["tools: {read_file: {forbidden_paths_except: [\"**/.env\"]}}\n", list].concat());
    machine.read(".env", "permit");
    machine.read("key", "path_forbidden forbidden_path");
    machine.write(".env", "path_forbidden forbidden_path");
}

#[test]
fn a_file_without_the_list_is_held_to_the_built_in_one() {
    let machine = machine("tools: {}\n").with(|m| m.files[1].1 = "tools: {}\n".to_owned());
    machine.read(".env", "path_forbidden forbidden_path");
    machine.read("a.txt", "permit");
}
