//! Wider forms of an edit that adds one item to a list, for an operator who wants fewer refusals of the same kind.

use std::path::Path;

use governance::rules::{is_read_only_program, quote_yaml};
use governance::suggested_change::{EditAction, PolicyEdit};
use serde_json::Value;
use strict_yaml::Document;

/// Subcommands whose further arguments name no program to run, and those of build tools, which run the code of the
/// project with any arguments. Not on the list: `git push`, `git fetch` and `git ls-remote` (`--upload-pack`), `git grep`
/// (`-O`), `git rebase` (`--exec`), `npm run` and `cargo run` (any program of the project). A list of programs that run
/// code was tried first: there was always one more, such as `uv run` or `ssh`.
const SUBCOMMANDS: [(&str, &[&str]); 6] = [
    ("cargo", &["bench", "build", "check", "clippy", "doc", "fmt", "test"]),
    (
        "git",
        &[
            "add",
            "blame",
            "branch",
            "commit",
            "describe",
            "diff",
            "log",
            "ls-files",
            "restore",
            "rev-parse",
            "show",
            "status",
            "switch",
        ],
    ),
    ("go", &["build", "test", "vet"]),
    ("npm", &["test"]),
    ("pnpm", &["test"]),
    ("yarn", &["test"]),
];
/// Fewest folders above a pattern with wildcards: `/home/user/folder/*`, and never the home of a user.
const MIN_FOLDERS: usize = 3;

/// Returns the edit, and up to two wider ones. The folder of a file is the widest folder: never one above it, and
/// never the home of a user. A command is shortened to its subcommand or its program only if those are known.
pub fn wider_edits(edit: &PolicyEdit, is_folder: &dyn Fn(&Path) -> bool) -> Vec<PolicyEdit> {
    let with = |value: String| PolicyEdit { action: EditAction::Add(value), ..edit.clone() };
    let wider = match (edit.keys.last().map(String::as_str), &edit.action) {
        (Some("allowed_paths" | "unattended_paths"), EditAction::Add(value)) => wider_paths(value, is_folder),
        (Some("allowed_commands"), EditAction::Add(value)) => wider_commands(value),
        _ => Vec::new(),
    };
    [edit.clone()].into_iter().chain(wider.into_iter().map(with)).collect()
}

/// Returns the YAML value as JSON.
pub(super) fn parse(value: &str) -> Option<Value> {
    let document = Document::from_text("edit", &format!("value: {value}\n")).ok()?;
    let tree = document.tree().ok()?;
    tree.entries().first().map(|(_, value)| value.to_json())
}

fn wider_paths(value: &str, is_folder: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let Some(Value::String(pattern)) = parse(value) else { return Vec::new() };
    let folders = |pattern: &str| pattern.split('/').filter(|part| !part.is_empty()).count();
    // The pattern is the literal path, in which `[[]` stands for `[`.
    let path = pattern.replace("[[]", "[").replace("[]]", "]");
    if is_folder(Path::new(&path)) {
        let whole = (folders(&pattern) >= MIN_FOLDERS).then(|| quote_yaml(&format!("{pattern}/**")));
        return whole.into_iter().collect();
    }
    match pattern.rsplit_once('/') {
        Some((folder, _)) if folders(folder) >= MIN_FOLDERS => {
            ["*", "**"].map(|rest| quote_yaml(&format!("{folder}/{rest}"))).to_vec()
        }
        _ => Vec::new(),
    }
}

fn wider_commands(value: &str) -> Vec<String> {
    let Some(Value::Array(words)) = parse(value).and_then(|entry| entry.get("argv").cloned()) else {
        return Vec::new();
    };
    let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
    let Some([program, rest @ ..]) = words.as_deref() else { return Vec::new() };
    if is_read_only_program(program) {
        return vec![quote_yaml(program)];
    }
    let name = program.rsplit('/').next().unwrap_or(program);
    let known = SUBCOMMANDS.iter().find(|(known, _)| *known == name).map(|(_, words)| *words);
    match (known, rest) {
        (Some(words), [word, ..]) if words.contains(word) => {
            vec![format!("{{argv: [{}, {}]}}", quote_yaml(program), quote_yaml(word))]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use governance::suggested_change::PolicyFile;

    use super::*;

    #[test]
    fn wider_edits_never_leave_the_folder_asked_for() {
        let check = |key: &str, value: &str, is_folder: bool, expect: &[&str]| {
            let keys = ["tools", "t", key].map(str::to_owned).to_vec();
            let edit =
                PolicyEdit { file: PolicyFile::Tools, keys, action: EditAction::Add(value.to_owned()) };
            let found = wider_edits(&edit, &|_| is_folder);
            let values: Vec<String> = found
                .into_iter()
                .map(|edit| match edit.action {
                    EditAction::Add(value) => value,
                    action => panic!("{action:?}"),
                })
                .collect();
            assert_eq!(values[0], value);
            assert_eq!(&values[1..], expect, "{value}");
        };
        check(
            "allowed_paths",
            "/home/ada/site/a.md",
            false,
            &["\"/home/ada/site/*\"", "\"/home/ada/site/**\""],
        );
        check(
            "allowed_paths",
            "\"/home/ada/b [[]1[]].d/x\"",
            false,
            &["\"/home/ada/b [[]1[]].d/*\"", "\"/home/ada/b [[]1[]].d/**\""],
        );
        check("allowed_paths", "/home/ada/site", true, &["\"/home/ada/site/**\""]);
        for narrow in ["/home/ada/a.md", "/home/a.md", "/etc/hosts", "/a"] {
            check("allowed_paths", narrow, false, &[]);
        }
        check("allowed_paths", "/home/ada", true, &[]);
        check("forbidden_paths_except", "/home/ada/site/a.md", false, &[]);
        let check_command = |words: &str, expect: &[&str]| {
            check("allowed_commands", &format!("{{argv: [{words}], exact: true}}"), false, expect);
        };
        check_command("git, log, x", &["{argv: [git, log]}"]);
        check_command("/usr/bin/git, log", &["{argv: [/usr/bin/git, log]}"]);
        check_command("cargo, test", &["{argv: [cargo, test]}"]);
        check_command("ls, -l, x", &["ls"]);
        check_command("ls", &["ls"]);
        for runs_code in [
            "bash, -c, x",
            "node",
            "/usr/bin/python3, a.py",
            "python3.11, a.py",
            "busybox, ls",
            "\"*\", a",
            "awk, x",
            "ssh, host",
            "docker, run",
            "make, all",
            "uv, run",
            "git, push, origin",
            "git, -c, log",
            "cargo, run",
            "npm, run, x",
            "unknown",
            "diff, a, b",
        ] {
            check_command(runs_code, &[]);
        }
        check("allowed_domains", "docs.python.org", false, &[]);
    }
}
