//! Wider forms of an edit that adds one item to a list, for an operator who wants fewer refusals of the same kind.

use std::path::Path;

use governance::rules::quote_yaml;
use governance::suggested_change::{EditAction, PolicyEdit};
use serde_json::Value;
use strict_yaml::Document;

/// Programs that run other programs or code: an entry that does not end with their arguments permits anything.
const INTERPRETERS: [&str; 21] = [
    "sh", "bash", "zsh", "dash", "fish", "python", "node", "deno", "perl", "ruby", "php", "lua", "env",
    "xargs", "sudo", "find", "busybox", "nice", "nohup", "timeout", "npx",
];
/// Fewest folders above a pattern with wildcards: `/home/user/folder/*`, and never the home of a user.
const MIN_FOLDERS: usize = 3;

/// Returns the edit, and up to two wider ones. The folder of a file is the widest folder: never one above it, and
/// never the home of a user. A command is shortened to its subcommand and to its program, unless it runs code.
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
    let name = program.rsplit('/').next().unwrap_or(program);
    // `python3.11` is `python`.
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    if INTERPRETERS.contains(&stem) || program.contains('*') {
        return Vec::new();
    }
    let subcommand = match rest {
        [word, ..] if !word.starts_with('-') => {
            Some(format!("{{argv: [{}, {}]}}", quote_yaml(program), quote_yaml(word)))
        }
        _ => None,
    };
    subcommand.into_iter().chain([quote_yaml(program)]).collect()
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
        check_command("git, push, origin", &["{argv: [git, push]}", "git"]);
        check_command("cargo, test", &["{argv: [cargo, test]}", "cargo"]);
        check_command("ls, -l, x", &["ls"]);
        check_command("ls", &["ls"]);
        check_command("bash, -c, x", &[]);
        check_command("node", &[]);
        for runs_anything in ["/usr/bin/python3", "python3.11", "busybox", "\"*\""] {
            check_command(&format!("{runs_anything}, a.py"), &[]);
        }
        check("allowed_domains", "docs.python.org", false, &[]);
    }
}
