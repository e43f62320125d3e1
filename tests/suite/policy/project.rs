//! Policy of a project (`.sinew/policy.yaml`): what a changed one permits, over reloads and restarts.

use std::fs;
use std::path::Path;

use serde_json::json;
use tests::{Daemon, Home};

/// Replaces the policy of the project in the workspace.
fn write_policy(home: &Home, text: &str) {
    let folder = home.workspace().join(".sinew");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("policy.yaml"), text).unwrap();
}

fn remove_policy(home: &Home) {
    fs::remove_file(home.workspace().join(".sinew/policy.yaml")).unwrap();
}

fn home_with(policy: &str) -> Home {
    let home = Home::initialised().without_automatic_modes();
    for folder in ["src", "docs"] {
        fs::create_dir(home.workspace().join(folder)).unwrap();
    }
    home.file("docs/k", "x");
    write_policy(&home, policy);
    home
}

const SCOPE: &str = "  write_file: {allowed_paths: [src/**]}\n";

#[test]
fn own_list_outside_the_write_scope_waits() {
    let daemon = Daemon::start_in(home_with(&format!("tools:\n{SCOPE}")));
    let deletes = || daemon.agent().execute("delete_file", &json!({"path": "docs/k"}))["success"] == true;
    assert!(!deletes());
    for tool in ["delete_file", "run_command"] {
        let wide = format!("tools:\n{SCOPE}  {tool}: {{allowed_paths: [\"**\"]}}\n");
        write_policy(daemon.home(), &wide);
        let shown = daemon.home().run(&["reload"]).must_exit(4).stdout();
        assert!(shown.contains("loosens") && shown.contains(tool), "{shown}");
        assert!(!deletes(), "{tool}");
    }
    let narrow = format!("tools:\n{SCOPE}  delete_file: {{allowed_paths: [src/a/**]}}\n");
    write_policy(daemon.home(), &narrow);
    let shown = daemon.home().run(&["reload"]).must_exit(0).stdout();
    assert!(shown.contains("tightens") && !shown.contains("loosens"), "{shown}");
}

/// Returns true if a file outside of `src` can be written.
fn writes_docs(daemon: &Daemon) -> bool {
    let arguments = json!({"path": "docs/new", "content": "x"});
    daemon.agent().execute("write_file", &arguments)["success"] == true
}

#[test]
fn waiting_project_loosening_waits_over_a_restart() {
    let narrow = format!("tools:\n{SCOPE}");
    let daemon = Daemon::start_in(home_with(&narrow));
    assert!(!writes_docs(&daemon));
    write_policy(daemon.home(), "tools: {write_file: {allowed_paths: [\"**\"]}}\n");
    daemon.home().run(&["reload"]).must_exit(4);
    let daemon = Daemon::start_in(daemon.stop());
    assert!(!writes_docs(&daemon), "a widened policy, after a restart");
    let shown = daemon.home().run(&["reload"]).must_exit(4).stdout();
    assert!(shown.contains("loosens") && shown.contains("write_file"), "{shown}");
    remove_policy(daemon.home());
    let daemon = Daemon::start_in(daemon.stop());
    assert!(!writes_docs(&daemon), "a removed policy, after a restart");
    let shown = daemon.home().run(&["reload"]).must_exit(4).stdout();
    assert!(shown.contains("its policy no longer applies"), "{shown}");
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert!(writes_docs(&daemon));
    let daemon = Daemon::start_in(daemon.stop());
    assert!(writes_docs(&daemon), "what was accepted stays accepted");
    write_policy(daemon.home(), &narrow);
    let daemon = Daemon::start_in(daemon.stop());
    assert!(!writes_docs(&daemon), "a tightening needs no question");
}

#[test]
fn commands_without_a_daemon_judge_by_accepted_projects() {
    let home = Daemon::start_in(home_with(&format!("tools:\n{SCOPE}"))).stop();
    let call = |home: &Home, exit: i32| {
        home.run(&["call", "write_file", "path=docs/new", "content=x"]).must_exit(exit);
    };
    let explain = |home: &Home, exit: i32| {
        home.run(&["explain", "write_file", "path=docs/new", "content=x"]).must_exit(exit);
    };
    remove_policy(&home);
    call(&home, 3);
    explain(&home, 3);
    let input =
        json!({"file_path": home.workspace().join("docs/new"), "content": "some text that is long enough"});
    let hook = crate::hook::run_pre_tool_use(&home, "Write", &input);
    assert_eq!(hook.decision(), "deny", "{}", hook.reason());
    let daemon = Daemon::start_in(home);
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    let home = daemon.stop();
    call(&home, 0);
}

/// A repository can bring a broken policy. It closes its project, and nothing else.
#[test]
fn project_with_a_broken_policy_is_denied_alone() {
    let home = home_with("tools:\n  write_file: {allowed_paths: [src/**]}\n");
    let other = home.user_home().canonicalize().unwrap().join("other");
    let third = home.user_home().canonicalize().unwrap().join("third");
    for folder in [&other, &third] {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("a.txt"), "x").unwrap();
        home.run(&["workspace", "add", folder.to_str().unwrap()]).must_exit(0);
    }
    let daemon = Daemon::start_in(home);
    let read = |daemon: &Daemon, path: &Path| daemon.agent().execute("read_file", &json!({"path": path}));
    let reads = |daemon: &Daemon, path: &Path| read(daemon, path)["success"] == true;
    let inside = daemon.home().workspace().join("docs/k");
    let list = json!({"path": daemon.home().workspace()});
    let check_denied = |daemon: &Daemon, line: &str, message: &str| {
        let refusal = read(daemon, &inside)["metadata"]["refusal"].clone();
        let shown = format!("{} {} {}", refusal["reason"], refusal["hint"], refusal["rule"]);
        assert!(shown.contains(".sinew/policy.yaml") && shown.contains(message), "{refusal:#}");
        assert_eq!(refusal["rule"]["line"].to_string(), line, "{refusal:#}");
        assert_eq!(daemon.agent().execute("list_directory", &list)["success"], false);
        let program = json!({"command": ["cat", inside], "cwd": other});
        assert_eq!(daemon.agent().execute("run_command", &program)["success"], false);
        assert!(reads(daemon, &other.join("a.txt")), "the other workspace");
        for command in ["status", "doctor", "check"] {
            let run = daemon.home().run(&[command]);
            assert!(run.stdout().contains(message), "{command}: {run}");
        }
    };
    assert!(reads(&daemon, &inside) && reads(&daemon, &third.join("a.txt")));
    write_policy(daemon.home(), "tools: {}\njunk: 1\n");
    daemon.home().run(&["workspace", "remove", third.to_str().unwrap()]).must_exit(0);
    assert!(!reads(&daemon, &third.join("a.txt")), "an unrelated tightening");
    check_denied(&daemon, "2", "junk");
    let daemon = Daemon::start_in(daemon.crash());
    check_denied(&daemon, "2", "junk");
    // A wrong example, and a file that others can write.
    let example = "{arguments: {path: docs/k}, mode: NORMAL, expect: deny}";
    write_policy(daemon.home(), &format!("tools:\n  read_file:\n    examples:\n      - {example}\n"));
    daemon.home().run(&["reload"]).must_exit(0);
    check_denied(&daemon, "4", "the example expects");
    let hook = crate::hook::run_pre_tool_use(daemon.home(), "Read", &json!({"file_path": inside}));
    assert_eq!(hook.decision(), "deny");
    write_policy(daemon.home(), "tools: {}\n");
    daemon.home().run(&["reload"]).must_exit(4);
    assert!(!reads(&daemon, &inside), "what it permits again waits");
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert!(reads(&daemon, &inside));
}
