//! Repositories that try to run a program or to read files outside. The attacks that plain git performs are
//! first shown to work with it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tests::{Daemon, Home};

use super::git::{call_tool, git, repository};

/// Creates a program that writes a mark beside itself and kills the git process that started it. In a sandbox
/// without write access, the killed git is the mark.
fn marker(home: &Home) -> (PathBuf, PathBuf) {
    let mark = home.workspace().join("mark");
    let program =
        home.file("evil.sh", &format!("#!/bin/sh\necho ran >> '{}'\nkill -9 $PPID\ncat\n", mark.display()));
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    (program, mark)
}

/// Keeps the size and changes the modification time, so that git has to read the file, through its filter.
fn touch(file: &Path) {
    let content = std::fs::read(file).unwrap();
    std::fs::remove_file(file).unwrap();
    std::fs::write(file, content).unwrap();
}

/// Plants one of the settings by which a repository makes git run a program.
fn plant(repo: &Path, way: &str, program: &str) {
    let set = |key: &str, value: &str| drop(git(repo, &["config", key, value]));
    let hook = |name: &str| {
        let path = repo.join(".git/hooks").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::copy(program, &path).unwrap();
    };
    match way {
        "fsmonitor" => set("core.fsmonitor", program),
        "hook" => hook("post-index-change"),
        "clean filter" | "filter in info/attributes" | "filter with = in its name" | "process filter" => {
            let name = if way == "filter with = in its name" { "a=b.c" } else { "evil" };
            let kind = if way == "process filter" { "process" } else { "clean" };
            set(&format!("filter.{name}.{kind}"), program);
            set(&format!("filter.{name}.required"), "true");
            let file = if way == "clean filter" { ".gitattributes" } else { ".git/info/attributes" };
            std::fs::create_dir_all(repo.join(".git/info")).unwrap();
            std::fs::write(repo.join(file), format!("*.txt filter={name}\n")).unwrap();
        }
        "filter by include" => {
            std::fs::write(repo.join("more.cfg"), format!("[filter \"evil\"]\n\tclean = {program}\n"))
                .unwrap();
            set("include.path", "../more.cfg");
            std::fs::write(repo.join(".git/info/attributes"), "*.txt filter=evil\n").unwrap();
        }
        "textconv" => {
            set("diff.evil.textconv", program);
            std::fs::write(repo.join(".git/info/attributes"), "*.txt diff=evil\n").unwrap();
        }
        "diff driver" => {
            set("diff.evil.command", program);
            std::fs::write(repo.join(".git/info/attributes"), "*.txt diff=evil\n").unwrap();
        }
        "external diff" => set("diff.external", program),
        "pager" => set("core.pager", program),
        "alias" => ["status", "diff", "log"]
            .iter()
            .for_each(|name| set(&format!("alias.{name}"), &format!("!{program}"))),
        "ssh command" => set("core.sshCommand", program),
        "signature" => {
            set("gpg.program", program);
            set("log.showSignature", "true");
        }
        _ => panic!("{way}"),
    }
}

#[test]
fn no_repository_program_runs_while_files_are_read() {
    check_nothing_runs(
        &["fsmonitor", "hook", "clean filter", "process filter"],
        &["fsmonitor", "hook", "clean filter"],
    );
}

#[test]
fn no_filter_runs_however_it_is_configured() {
    let ways = ["filter in info/attributes", "filter with = in its name", "filter by include"];
    check_nothing_runs(&ways, &ways);
}

#[test]
fn no_repository_program_runs_for_a_diff() {
    check_nothing_runs(
        &["textconv", "diff driver", "external diff"],
        &["textconv", "diff driver", "external diff"],
    );
}

#[test]
fn no_repository_setting_starts_a_program() {
    check_nothing_runs(&["pager", "alias", "ssh command", "signature"], &[]);
}

/// Calls all three tools on a repository of each kind. The kinds in `work` are first shown to run the program
/// with plain git.
fn check_nothing_runs(ways: &[&str], work: &[&str]) {
    let home = Home::initialised();
    let (program, mark) = marker(&home);
    for (number, way) in ways.iter().enumerate() {
        let repo = repository(&home, &format!("repo{number}"));
        plant(&repo, way, program.to_str().unwrap());
        touch(&repo.join("a.txt"));
        std::fs::write(repo.join("b.txt"), "B\n").unwrap();
        let copy = home.workspace().with_file_name(format!("copy{number}"));
        assert!(std::process::Command::new("cp").arg("-a").args([&repo, &copy]).status().unwrap().success());
        for words in [["status", "-s"], ["diff", "-p"], ["log", "-p"]] {
            let mut manual = std::process::Command::new("git");
            let _ = manual.args(words).current_dir(&copy).env("HOME", "/nowhere").output();
        }
        assert!(mark.exists() || !work.contains(way), "{way} does nothing by hand");
        let _ = std::fs::remove_file(&mark);
    }
    let daemon = Daemon::start_in(home);
    for (number, way) in ways.iter().enumerate() {
        for tool in ["git_status", "git_diff", "git_log"] {
            let result = call_tool(&daemon, tool, &json!({"path": format!("repo{number}")}));
            assert_eq!(result["success"], true, "{way}, {tool}: {result}");
            assert!(!mark.exists(), "{way}: {tool} ran it");
            if tool == "git_status" {
                let entries = result["output"]["entries"].to_string();
                assert!(entries.contains("b.txt") && !entries.contains("a.txt"), "{way}: {entries}");
            }
        }
    }
}

#[test]
fn required_filter_that_always_fails_is_not_run() {
    let home = Home::initialised();
    let repo = repository(&home, "repo");
    git(&repo, &["config", "filter.no.clean", "false"]);
    git(&repo, &["config", "filter.no.required", "true"]);
    std::fs::create_dir_all(repo.join(".git/info")).unwrap();
    std::fs::write(repo.join(".git/info/attributes"), "*.txt filter=no\n").unwrap();
    touch(&repo.join("a.txt"));
    let daemon = Daemon::start_in(home);
    let status = call_tool(&daemon, "git_status", &json!({"path": "repo"}));
    assert_eq!((&status["success"], &status["output"]["clean"]), (&json!(true), &json!(true)), "{status}");
    let diff = call_tool(&daemon, "git_diff", &json!({"path": "repo"}));
    assert_eq!((&diff["success"], &diff["output"]["patch"]), (&json!(true), &json!("")), "{diff}");
}

#[test]
fn submodule_starts_no_program() {
    let home = Home::initialised();
    let (program, mark) = marker(&home);
    let inner = repository(&home, "inner");
    let repo = repository(&home, "outer");
    git(&repo, &["submodule", "add", "-q", inner.to_str().unwrap(), "sub"]);
    git(&repo, &["commit", "-qm", "With a submodule"]);
    git(&repo.join("sub"), &["config", "core.fsmonitor", program.to_str().unwrap()]);
    std::fs::write(repo.join("sub/a.txt"), "changed\n").unwrap();
    let _ = std::fs::remove_file(&mark);
    let _ = std::process::Command::new("git")
        .args(["status", "-s"])
        .current_dir(&repo)
        .env("HOME", "/nowhere")
        .output();
    assert!(mark.exists(), "by hand it runs");
    std::fs::remove_file(&mark).unwrap();
    let daemon = Daemon::start_in(home);
    for tool in ["git_status", "git_diff", "git_log"] {
        let result = call_tool(&daemon, tool, &json!({"path": "outer"}));
        assert_eq!(result["success"], true, "{result}");
        assert!(!mark.exists(), "{tool}");
    }
}

#[test]
fn repository_with_parts_outside_is_refused() {
    let home = Home::initialised();
    let outside = home.user_home().canonicalize().unwrap().join("outside");
    std::fs::create_dir(&outside).unwrap();
    git(&outside, &["init", "-q"]);
    std::fs::write(outside.join("canary.txt"), "canary\n").unwrap();
    git(&outside, &["add", "."]);
    git(&outside, &["commit", "-qm", "canary"]);
    let workspace = home.workspace();

    let pointing = workspace.join("pointing");
    std::fs::create_dir(&pointing).unwrap();
    std::fs::write(pointing.join(".git"), format!("gitdir: {}/.git\n", outside.display())).unwrap();
    let linked = workspace.join("linked");
    std::fs::create_dir(&linked).unwrap();
    std::os::unix::fs::symlink(outside.join(".git"), linked.join(".git")).unwrap();
    let wide = repository(&home, "wide");
    git(&wide, &["config", "core.worktree", "/"]);
    let beside = repository(&home, "beside");
    git(&beside, &["config", "core.worktree", outside.to_str().unwrap()]);
    let borrowing = repository(&home, "borrowing");
    let alternates = borrowing.join(".git/objects/info/alternates");
    std::fs::create_dir_all(alternates.parent().unwrap()).unwrap();
    std::fs::write(&alternates, format!("{}/.git/objects\n", outside.display())).unwrap();
    repository(&home, "host");
    git(&workspace, &["clone", "-q", "--bare", "host", "host/embedded"]);
    let common = repository(&home, "common");
    std::fs::write(common.join(".git/commondir"), format!("{}/.git\n", outside.display())).unwrap();

    let daemon = Daemon::start_with(home, &[("GIT_DIR", outside.join(".git").to_str().unwrap())]);
    for path in ["pointing", "linked", "wide", "beside", "borrowing", "host/embedded", "common"] {
        for tool in ["git_status", "git_diff", "git_log"] {
            let result = call_tool(&daemon, tool, &json!({"path": path}));
            assert_eq!(result["output"]["outcome"], "repo_not_allowed", "{path}: {result}");
            assert_eq!(result["success"], false);
            assert!(!result.to_string().contains("canary"), "{path}: {result}");
        }
    }
    let host = call_tool(&daemon, "git_status", &json!({"path": "host"}));
    assert_eq!(host["success"], true, "the one around it may be read: {host}");
    assert!(host["output"]["repository"].as_str().unwrap().ends_with("/host"), "GIT_DIR is not ours: {host}");
}

#[test]
fn caller_argument_is_never_an_option_or_a_pattern() {
    let home = Home::initialised();
    let repo = repository(&home, "repo");
    std::fs::write(repo.join("a.txt"), "changed\n").unwrap();
    let daemon = Daemon::start_in(home);
    let written = daemon.home().workspace().join("written");
    let option = format!("--output={}", written.display());
    let refused = |result: &Value| {
        assert_eq!(result["success"], false, "{result}");
        assert_eq!(result["metadata"]["refusal"]["code"], "invalid_arguments", "{result}");
    };
    for word in [
        "-p",
        option.as_str(),
        "--no-index",
        "HEAD..other",
        "HEAD...x",
        ":/fix",
        "^HEAD",
        "a b",
        "",
        "@{-1} x",
    ] {
        refused(&call_tool(&daemon, "git_diff", &json!({"path": "repo", "from": word})));
        refused(&call_tool(&daemon, "git_log", &json!({"path": "repo", "revision": word})));
    }
    for word in ["-p", option.as_str(), ":(top)a.txt", ":!a.txt", "/etc/passwd", ""] {
        refused(&call_tool(&daemon, "git_diff", &json!({"path": "repo", "files": [word]})));
        refused(&call_tool(&daemon, "git_log", &json!({"path": "repo", "files": [word]})));
    }
    for word in ["..", "../a.txt", "x/../../y"] {
        let result = call_tool(&daemon, "git_diff", &json!({"path": "repo", "files": [word]}));
        assert_eq!(result["metadata"]["failure"]["kind"], "wrong_kind", "{result}");
    }
    assert!(!written.exists());
    let path = call_tool(&daemon, "git_status", &json!({"path": "--help"}));
    assert_eq!(path["metadata"]["failure"]["kind"], "not_found", "a name like any other: {path}");
    let outside = call_tool(&daemon, "git_status", &json!({"path": "/etc"}));
    assert_eq!(outside["metadata"]["refusal"]["code"], "path_not_allowed", "{outside}");
}
