//! Git directories under any name: file tools do not make them, and do not change what git acts on in one. A file tool
//! may not write what a sandboxed run may not leave behind.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tests::{Daemon, Home};

use super::{FileToolFixture, call_id};

/// Protected names as they are written, which the two sides are compared by.
const NAMES: &str = include_str!("../../../crates/governance/src/built_in_denials/lists.rs");

/// A scene in which any program may run.
fn scene() -> FileToolFixture {
    let home = Home::initialised().without_automatic_modes();
    let rules = "tools:\n  run_command: {allowed_in_modes: [NORMAL], allowed_commands: [\"*\"]}\n";
    home.configure("governance/tools.yaml", rules);
    let daemon = Daemon::start_in(home);
    let agent = daemon.agent();
    FileToolFixture { daemon, agent }
}

fn write(path: &str, content: &str) -> Value {
    json!({"path": path, "content": content, "create_dirs": true})
}

/// Entries of a git directory whose configuration runs a program, and their contents.
fn planted(program: &Path) -> [(&'static str, String); 4] {
    let config = format!(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = \"touch {}\"\n",
        program.display()
    );
    [
        ("HEAD", "ref: refs/heads/main\n".to_owned()),
        ("config", config),
        ("objects/x", String::new()),
        ("refs/x", String::new()),
    ]
}

/// Runs `git status` as the user does, without settings of this machine.
fn git_status(folder: &Path) {
    let mut git = Command::new("git");
    git.args(["status"])
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    git.output().unwrap();
}

fn orders(entries: &[usize]) -> Vec<Vec<usize>> {
    if entries.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for first in entries {
        let rest: Vec<usize> = entries.iter().copied().filter(|other| other != first).collect();
        all.extend(orders(&rest).into_iter().map(|order| [&[*first], &order[..]].concat()));
    }
    all
}

#[test]
fn a_planted_git_directory_runs_nothing_in_any_order() {
    let mut scene = scene();
    let work = scene.daemon.home().workspace();
    let marker = work.join("executed");
    let entries = planted(&marker);
    // The layout works: made by hand, it runs the program.
    for (name, content) in &entries {
        scene.file(&format!("by-hand/{name}"), content);
    }
    git_status(&work.join("by-hand"));
    assert!(marker.exists(), "this git does not run what the test plants");
    std::fs::remove_file(&marker).unwrap();
    for (number, order) in orders(&[0, 1, 2, 3]).into_iter().enumerate() {
        let folder = format!("docs{number}");
        let mut refused = Vec::new();
        for (name, content) in order.iter().map(|index| &entries[*index]) {
            let result = scene.agent.execute("write_file", &write(&format!("{folder}/{name}"), content));
            if result["success"] != true {
                assert_eq!(result["metadata"]["refusal"]["code"], "path_forbidden", "{result}");
                assert_eq!(result["metadata"]["refusal"]["detail"], "git_directory", "{result}");
                refused.push(*name);
            }
        }
        let last = order.iter().rev().map(|index| entries[*index].0).find(|name| *name != "config");
        assert_eq!(refused, last.into_iter().collect::<Vec<_>>(), "{order:?}");
        git_status(&work.join(&folder));
        assert!(!marker.exists(), "{order:?}");
    }
}

#[test]
fn the_configuration_of_a_git_directory_is_read_and_not_changed() {
    let mut scene = scene();
    for file in
        ["a/m/HEAD", "a/m/objects/x", "a/m/refs/x", "a/m/config", "a/m/README", "w/HEAD", "w/commondir"]
    {
        scene.file(file, "old");
    }
    for path in [
        "a/m/config",
        "a/m/CONFIG",
        "a/m/hooks/pre-commit",
        "a/m/info/x",
        "a/m/commondir",
        "a/m/HEAD",
        "w/config",
    ] {
        let (code, detail) = scene.refusal_of("write_file", write(path, "new"));
        assert_eq!((code.as_str(), detail.as_str()), ("path_forbidden", "git_directory"), "{path}");
    }
    let edit = json!({"path": "a/m/config", "edits": [{"old_text": "old", "new_text": "new"}]});
    assert_eq!(scene.refusal_of("edit_file", edit).1, "git_directory");
    assert_eq!(scene.refusal_of("create_directory", json!({"path": "a/m/hooks"})).1, "git_directory");
    for path in ["a/m/config", "a/m/HEAD", "w/commondir"] {
        assert_eq!(scene.refusal_of("delete_file", json!({"path": path})).1, "git_directory", "{path}");
    }
    for path in ["a/m/config", "a/m/HEAD"] {
        assert_eq!(scene.output_of("read_file", json!({"path": path}))["content"], "old", "{path}");
    }
    scene.output_of("write_file", write("a/m/README", "new"));
    // By a link too: the name that it leads to is judged.
    std::os::unix::fs::symlink("m", scene.daemon.home().workspace().join("a/link")).unwrap();
    assert_eq!(scene.refusal_of("write_file", write("a/link/config", "new")).1, "git_directory");
}

#[test]
fn objects_of_a_repository_are_not_read_by_file_tools() {
    let mut scene = scene();
    scene.file("repo/.env", "SECRET=swordfish\n");
    let repo = scene.daemon.home().workspace().join("repo");
    for words in [
        vec!["init", "-q"],
        vec!["add", "-f", ".env"],
        vec!["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ] {
        assert!(Command::new("git").args(words).current_dir(&repo).status().unwrap().success());
    }
    let found = Command::new("git").args(["rev-parse", "HEAD:.env"]).current_dir(&repo).output().unwrap();
    let id = String::from_utf8(found.stdout).unwrap().trim().to_owned();
    let object = format!("repo/.git/objects/{}/{}", &id[..2], &id[2..]);
    assert!(scene.daemon.home().workspace().join(&object).exists());
    assert_eq!(scene.refusal_of("read_file", json!({"path": object})).0, "path_forbidden");
    assert_eq!(scene.refusal_of("list_directory", json!({"path": "repo/.git/objects"})).0, "path_forbidden");
    scene.output_of("read_file", json!({"path": "repo/.git/HEAD"}));
    let ran = scene.output_of("run_command", json!({"command": ["git", "-C", "repo", "log", "--oneline"]}));
    assert_eq!(ran["exit_code"], 0, "{ran}");
}

#[test]
fn ordinary_files_with_names_of_git_stay_writable() {
    let mut scene = scene();
    for path in [
        "HEAD",
        "config",
        "hooks/x",
        "info/x",
        "refs/heads/x",
        "p/refs/x",
        "p/objects/x",
        "p/config",
        "q/commondir",
    ] {
        scene.output_of("write_file", write(path, "text"));
    }
    scene.output_of(
        "edit_file",
        json!({"path": "p/config", "edits": [{"old_text": "text", "new_text": "more"}]}),
    );
    scene.output_of("delete_file", json!({"path": "HEAD"}));
    scene.output_of("create_directory", json!({"path": "refs/tags"}));
}

#[test]
fn an_undo_does_not_complete_a_git_directory() {
    let mut scene = scene();
    for (name, content) in
        [("docs/HEAD", "ref: refs/heads/main\n"), ("docs/config", "x"), ("docs/objects/x", "")]
    {
        scene.output_of("write_file", write(name, content));
    }
    let removed = scene.result_of("delete_file", json!({"path": "docs/HEAD"}));
    scene.output_of("write_file", write("docs/refs/x", ""));
    let reported = scene.daemon.home().run(&["undo", &call_id(&removed)]);
    assert!(reported.stderr().contains("git repository"), "{}{}", reported.stdout(), reported.stderr());
    assert_eq!(scene.content("docs/HEAD"), None);
    scene.output_of("delete_file", json!({"path": "docs/refs", "recursive": true}));
    scene.daemon.home().run(&["undo", &call_id(&removed)]).must_exit(0);
    assert!(scene.content("docs/HEAD").is_some());
}

/// A pattern as paths in a workspace: each text in its braces, something for each wildcard.
fn examples(pattern: &str) -> Vec<String> {
    if let Some((before, rest)) = pattern.split_once('{') {
        let (inside, after) = rest.split_once('}').unwrap();
        return inside.split(',').flat_map(|one| examples(&format!("{before}{one}{after}"))).collect();
    }
    let below = pattern.trim_start_matches("/**/").replace("/**", "/below/f").replace('*', "x");
    vec![below]
}

/// Every protected name that can be in a workspace.
fn protected_names() -> Vec<String> {
    let list = NAMES.split_once("WRITE_DENIED").unwrap().1.split_once("const GIT_REASON:").unwrap().0;
    let quoted =
        list.split('"').skip(1).step_by(2).filter(|text| {
            text.starts_with("/**/") && text.matches('{').count() == text.matches('}').count()
        });
    let git = concat!("/**/*.git/{", tool::git_acts_on!(), "}/**");
    quoted.chain([git]).flat_map(examples).collect()
}

#[test]
fn file_tools_and_sandboxed_runs_agree_on_protected_names() {
    let mut scene = scene();
    let names = protected_names();
    assert!(names.len() > 100, "{names:?}");
    // One folder for each name: what is set aside takes nothing of another with it.
    let line = names.iter().enumerate().fold(String::from("set -e\n"), |line, (number, name)| {
        format!("{line}mkdir -p \"$(dirname 'run/{number}/{name}')\"; echo evil > 'run/{number}/{name}'\n")
    });
    let ran = scene.output_of("run_command", json!({"command": ["sh", "-c", line]}));
    assert_eq!(ran["exit_code"], 0, "{ran}");
    for (number, name) in names.iter().enumerate() {
        assert_eq!(scene.content(&format!("run/{number}/{name}")), None, "a run left {name}");
        let (code, _) = scene.refusal_of("write_file", write(&format!("tool/{number}/{name}"), "evil"));
        assert_eq!(code, "path_forbidden", "{name}");
    }
    let notes = "each written by a file tool and by a sandboxed program";
    tests::Campaign::start(1).finish(names.len() as u64, notes);
}

/// Existing paths, the added path, and true if neither a run nor a tool may add it.
const LAYOUTS: &[(&[&str], &str, bool)] = &[
    (&["config", "objects/x", "refs/x"], "HEAD", true),
    (&["config", "HEAD", "refs/x"], "objects/x", true),
    (&["config", "HEAD", "objects/x"], "refs/x", true),
    (&["HEAD", "objects/x"], "refs/heads/main", true),
    (&["config", "HEAD"], "commondir", true),
    (&["config", "commondir"], "HEAD", true),
    (&["HEAD", "objects/x", "refs/x"], "config", true),
    (&["HEAD", "objects/x", "refs/x"], "config.worktree", true),
    (&["HEAD", "objects/x", "refs/x"], "commondir", true),
    (&["HEAD", "objects/x", "refs/x"], "hooks/pre-commit", true),
    (&["HEAD", "objects/x", "refs/x"], "info/exclude", true),
    (&["HEAD", "objects/x", "refs/x"], "modules/m/config", true),
    (&["HEAD", "objects/x", "refs/x"], "worktrees/w/commondir", true),
    (&["HEAD", "objects/x", "refs/x"], "remotes/origin", true),
    (&["HEAD", "objects/x", "refs/x"], "branches/main", true),
    (&["HEAD", "objects/x", "refs/x"], "rebase-merge/git-rebase-todo", true),
    (&["HEAD", "commondir"], "config", true),
    (&["HEAD", "commondir"], "hooks/pre-commit", true),
    (&["HEAD", "objects/x", "refs/x"], "README", false),
    (&["HEAD", "objects/x"], "config", false),
    (&["objects/x", "refs/x"], "config", false),
    (&["HEAD"], "objects/x", false),
    (&["HEAD"], "hooks/pre-commit", false),
    (&["commondir"], "refs/x", false),
];

#[test]
fn file_tools_and_sandboxed_runs_agree_on_git_layouts() {
    let mut scene = scene();
    for (number, (before, added, closed)) in LAYOUTS.iter().enumerate() {
        for side in ["run", "tool"] {
            before.iter().for_each(|name| scene.file(&format!("{side}/{number}/deep/{name}"), "before"));
        }
        let path = format!("run/{number}/deep/{added}");
        let line = format!("mkdir -p \"$(dirname '{path}')\"; echo evil > '{path}'");
        let ran = scene.output_of("run_command", json!({"command": ["sh", "-c", line]}));
        let set_aside = ran["sandbox"]["quarantined"].as_array().unwrap().len();
        assert_eq!(set_aside, usize::from(*closed), "a run that adds {added} to {before:?}: {ran}");
        let result =
            scene.agent.execute("write_file", &write(&format!("tool/{number}/deep/{added}"), "evil"));
        assert_eq!(result["success"], !closed, "a tool that adds {added} to {before:?}: {result}");
    }
}
