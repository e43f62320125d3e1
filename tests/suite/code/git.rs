//! `git_status`, `git_diff` and `git_log` on ordinary repositories: their output agrees with git's.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tests::{Daemon, Home};

/// Runs git directly, as the owner of the repository would.
pub(crate) fn git(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main"])
        .args(["-c", "protocol.file.allow=always"])
        .args(words)
        .current_dir(folder)
        .env("HOME", "/nowhere")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    let output = command.output().expect("run git");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {words:?}: {text}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Creates a repository in the workspace with one commit of two files.
pub(crate) fn repository(home: &Home, name: &str) -> std::path::PathBuf {
    let folder = home.workspace().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    git(&folder, &["init", "-q"]);
    std::fs::write(folder.join("a.txt"), "one\ntwo\n").unwrap();
    std::fs::write(folder.join("b.txt"), "b\n").unwrap();
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "-qm", "First\n\nWith a body."]);
    folder
}

/// The shipped policy allows no git command: a repository's configuration would choose programs to run.
#[test]
fn git_needs_an_allowing_rule_and_forbidding_takes_precedence() {
    let rules = "tools:\n  run_command:\n    allowed_commands: [git, env]\n    \
                 forbidden_commands: [sudo, {argv: [git, push]}]\n";
    for (tools, detail) in [(Some(rules), "forbidden_command"), (None, "not_listed")] {
        let home = Home::initialised().without_automatic_modes();
        if let Some(tools) = tools {
            home.configure("governance/tools.yaml", tools);
        }
        let folder = repository(&home, "r");
        let daemon = Daemon::start_in(home);
        let run =
            |words: &[&str]| daemon.agent().execute("run_command", &json!({"command": words, "cwd": folder}));
        for words in [&["git", "push"][..], &["/usr/bin/git", "push", "origin"], &["/usr/bin/sudo", "id"]] {
            let refusal = run(words)["metadata"]["refusal"].clone();
            let text = (&refusal["code"], &refusal["detail"]);
            assert_eq!(text, (&json!("command_not_allowed"), &json!(detail)), "{words:?}: {refusal}");
        }
        let status = run(&["git", "status", "--short"]);
        match tools {
            Some(_) => assert_eq!(status["output"]["exit_code"], 0, "{status}"),
            None => assert_eq!(status["metadata"]["refusal"]["detail"], "not_listed", "{status}"),
        }
        assert_eq!(run(&[if tools.is_some() { "env" } else { "ls" }])["output"]["exit_code"], 0);
    }
}

pub(super) fn call_tool(daemon: &Daemon, tool: &str, arguments: &Value) -> Value {
    daemon.agent().execute(tool, arguments)
}

/// Returns path, staged state and unstaged state of every entry.
fn status_entries(result: &Value) -> Vec<(String, String, String)> {
    assert_eq!(result["success"], true, "{result}");
    let word = |entry: &Value, key: &str| entry[key].as_str().unwrap().to_owned();
    let entries = result["output"]["entries"].as_array().unwrap();
    entries.iter().map(|e| (word(e, "path"), word(e, "staged"), word(e, "unstaged"))).collect()
}

fn entry(path: &str, staged: &str, unstaged: &str) -> (String, String, String) {
    (path.to_owned(), staged.to_owned(), unstaged.to_owned())
}

#[test]
fn status_reports_differences_and_changes_nothing() {
    let home = Home::initialised();
    let repo = repository(&home, "repo");
    let daemon = Daemon::start_in(home);
    let clean = call_tool(&daemon, "git_status", &json!({"path": "repo"}));
    assert_eq!((&clean["output"]["clean"], status_entries(&clean)), (&json!(true), vec![]), "{clean}");
    assert_eq!(clean["output"]["branch"]["head"], "main");
    assert_eq!(clean["output"]["branch"]["commit"], git(&repo, &["rev-parse", "HEAD"]).trim());
    assert_eq!(clean["metadata"]["sandbox"]["tier"], "full");
    let version = clean["output"]["git"]["version"].as_str().unwrap();
    assert!(git(&repo, &["--version"]).contains(version));
    assert_eq!(clean["output"]["git"]["sha256"].as_str().unwrap().len(), 64);

    std::fs::write(repo.join("a.txt"), "one\n2\n").unwrap();
    std::fs::rename(repo.join("b.txt"), repo.join("c d.txt")).unwrap();
    git(&repo, &["add", "-A", "."]);
    std::fs::write(repo.join("a.txt"), "one\n2\nthree\n").unwrap();
    std::fs::write(repo.join("new"), "").unwrap();
    let index = std::fs::read(repo.join(".git/index")).unwrap();
    let status = call_tool(&daemon, "git_status", &json!({"path": "repo"}));
    let expect = [
        entry("a.txt", "modified", "modified"),
        entry("c d.txt", "renamed", "unmodified"),
        entry("new", "unmodified", "added"),
    ];
    assert_eq!(status_entries(&status), expect, "{status}");
    assert_eq!(status["output"]["entries"][1]["original_path"], "b.txt");
    assert_eq!(std::fs::read(repo.join(".git/index")).unwrap(), index, "the index stays as it is");
    assert!(!repo.join(".git/index.lock").exists());

    let seen = daemon.home().run(&["call", "git_status", "path=repo"]).must_exit(0).stdout();
    assert!(seen.contains("c d.txt") && seen.contains("renamed"), "a person sees them too: {seen}");
    let one = call_tool(&daemon, "git_status", &json!({"path": "repo", "max_entries": 1}));
    assert_eq!((status_entries(&one).len(), &one["output"]["total"]), (1, &json!(3)));
    assert_eq!(one["metadata"]["truncated"]["total"], 3, "{one}");
}

#[test]
fn diff_matches_its_arguments() {
    let home = Home::initialised();
    let repo = repository(&home, "repo");
    std::fs::write(repo.join("a.txt"), "one\n2\n").unwrap();
    git(&repo, &["add", "a.txt"]);
    std::fs::write(repo.join("b.txt"), "B\n").unwrap();
    let daemon = Daemon::start_in(home);
    let diff = |arguments: Value| {
        let result = call_tool(&daemon, "git_diff", &arguments);
        assert_eq!(result["success"], true, "{result}");
        let files = result["output"]["files"].as_array().unwrap();
        let names: Vec<String> = files.iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect();
        (names.join(" "), result["output"]["patch"].as_str().unwrap().to_owned())
    };
    let (names, patch) = diff(json!({"path": "repo"}));
    assert_eq!(names, "b.txt");
    assert!(patch.contains("diff --git a/b.txt b/b.txt") && patch.contains("-b\n+B\n"), "{patch}");
    let (names, patch) = diff(json!({"path": "repo", "staged": true}));
    assert_eq!(names, "a.txt");
    assert!(patch.contains("-two\n+2\n"), "{patch}");
    assert_eq!(diff(json!({"path": "repo", "from": "HEAD"})).0, "a.txt b.txt");
    assert_eq!(diff(json!({"path": "repo", "from": "HEAD", "files": ["b.txt"]})).0, "b.txt");
    assert_eq!(diff(json!({"path": "repo", "from": "HEAD", "files": ["*.txt"]})).0, "", "by exact names");
    git(&repo, &["commit", "-qam", "Second"]);
    assert_eq!(diff(json!({"path": "repo", "from": "HEAD~1", "to": "HEAD"})).0, "a.txt b.txt");
    let none = call_tool(&daemon, "git_diff", &json!({"path": "repo", "from": "no-such-branch"}));
    assert_eq!(none["output"]["outcome"], "unknown_revision", "{none}");
}

#[test]
fn forbidden_file_is_in_no_diff_and_no_status() {
    let home = Home::initialised();
    let repo = repository(&home, "repo");
    std::fs::write(repo.join(".env"), "TOKEN=canary-before\n").unwrap();
    git(&repo, &["add", "-f", ".env"]);
    git(&repo, &["commit", "-qm", "A mistake"]);
    std::fs::write(repo.join(".env"), "TOKEN=canary-after\n").unwrap();
    let daemon = Daemon::start_in(home);
    for (tool, arguments) in [
        ("git_status", json!({"path": "repo"})),
        ("git_diff", json!({"path": "repo"})),
        ("git_diff", json!({"path": "repo", "from": "HEAD~1", "to": "HEAD"})),
        ("git_diff", json!({"path": "repo", "from": "HEAD~1", "files": [".env"]})),
    ] {
        let result = call_tool(&daemon, tool, &arguments);
        assert_eq!(result["success"], true, "{result}");
        let text = result.to_string();
        assert!(!text.contains("canary") && !text.contains(".env"), "{result}");
    }
}

#[test]
fn log_is_read_in_pages() {
    let home = Home::initialised();
    let repo = repository(&home, "repo");
    std::fs::write(repo.join("b.txt"), "B\n").unwrap();
    git(&repo, &["commit", "-qam", "Second"]);
    git(&repo, &["tag", "v1"]);
    let daemon = Daemon::start_in(home);
    let log = call_tool(&daemon, "git_log", &json!({"path": "repo"}));
    let commits = log["output"]["commits"].as_array().unwrap();
    assert_eq!(commits.len(), 2, "{log}");
    assert_eq!((&commits[0]["subject"], &commits[1]["subject"]), (&json!("Second"), &json!("First")));
    assert_eq!((&commits[1]["body"], &commits[1]["author"]), (&json!("With a body."), &json!("Ada")));
    assert_eq!(commits[0]["parents"][0], commits[1]["commit"]);
    assert!(commits[0]["refs"].as_array().unwrap().contains(&json!("tag: v1")), "{log}");
    let first = call_tool(&daemon, "git_log", &json!({"path": "repo", "max_count": 1}));
    let hint = first["metadata"]["truncated"]["how_to_continue"].as_str().unwrap();
    assert_eq!(hint, "call again with skip=1");
    let rest = call_tool(&daemon, "git_log", &json!({"path": "repo", "skip": 1}));
    assert_eq!(rest["output"]["commits"][0]["subject"], "First");
    assert_eq!(rest["metadata"]["truncated"], Value::Null);
    let of_a = call_tool(&daemon, "git_log", &json!({"path": "repo", "files": ["a.txt"]}));
    assert_eq!(of_a["output"]["commits"].as_array().unwrap().len(), 1, "{of_a}");
}

#[test]
fn folder_without_a_repository_is_reported() {
    let home = Home::initialised();
    home.file("file", "x");
    std::fs::create_dir(home.workspace().join("plain")).unwrap();
    let daemon = Daemon::start_in(home);
    let plain = call_tool(&daemon, "git_status", &json!({"path": "plain"}));
    assert_eq!(plain["output"]["outcome"], "not_a_repository", "{plain}");
    assert_eq!(plain["metadata"]["failure"]["kind"], "not_found");
    let file = call_tool(&daemon, "git_status", &json!({"path": "file"}));
    assert_eq!(file["metadata"]["failure"]["kind"], "wrong_kind", "{file}");
    let missing = call_tool(&daemon, "git_log", &json!({"path": "missing"}));
    assert_eq!(missing["metadata"]["failure"]["kind"], "not_found", "{missing}");
    let empty = daemon.home().workspace().join("empty");
    std::fs::create_dir(&empty).unwrap();
    git(&empty, &["init", "-q"]);
    let status = call_tool(&daemon, "git_status", &json!({"path": "empty"}));
    assert_eq!(status["output"]["branch"]["commit"], Value::Null, "{status}");
    let log = call_tool(&daemon, "git_log", &json!({"path": "empty"}));
    assert_eq!(log["output"]["outcome"], "unknown_revision", "{log}");
}
