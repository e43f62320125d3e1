//! Commands that predict verdicts (`policy test`, `policy replay`, `tools list --mode`) and those that change them at once
//! (`lockdown`): the statement is read, and then the call is made.

use std::fs;

use serde_json::{Value, json};
use tests::{Daemon, Home};

fn home_with(tools: &str) -> Home {
    let home = Home::initialised().without_automatic_modes();
    for folder in ["src", "docs"] {
        fs::create_dir(home.workspace().join(folder)).unwrap();
    }
    let root = home.workspace().canonicalize().unwrap().display().to_string();
    home.configure_layer("governance/tools.yaml", &tools.replace("$WS", &root));
    home
}

fn call(home: &Home, words: &[&str]) -> Option<i32> {
    home.run(&[&["call"], words].concat()).output.status.code()
}

/// The verdict of each case is that of the call.
#[test]
fn verdicts_of_policy_test_are_those_of_the_calls() {
    let home = home_with(
        "tools:\n  write_file: {allowed_paths: [$WS/src/**], requires_approval: true, unattended_paths: [$WS/src/*]}\n",
    );
    let root = home.workspace().canonicalize().unwrap().display().to_string();
    for (path, exit) in [("src/a", 0), ("src/deep/b", 4), ("docs/c", 3)] {
        let full = format!("{root}/{path}");
        let found = |expect: &str| {
            let case = format!(
                "workspaces: [{root}]\ncases:\n  - {{tool: write_file, arguments: {{path: {full}, content: x}}, mode: NORMAL, expect: {expect}}}\n"
            );
            let file = home.file("cases.yaml", &case).display().to_string();
            home.run(&["policy", "test", &file]).output.status.code() == Some(0)
        };
        let expected =
            ["allow", "deny", "ask"].into_iter().filter(|expect| found(expect)).collect::<Vec<_>>();
        let verdict = match exit {
            0 => "allow",
            3 => "deny",
            _ => "ask",
        };
        assert_eq!(expected, [verdict], "{path}");
        fs::create_dir_all(home.workspace().join(path).parent().unwrap()).unwrap();
        let made = home.run(&["call", "write_file", &format!("path={path}"), "content=x"]);
        assert_eq!(made.output.status.code(), Some(exit), "{path}: {made}");
    }
}

/// `policy replay` states which recorded calls another policy decides differently. Under that policy they are.
#[test]
fn calls_that_replay_names_are_decided_so() {
    let home = home_with("tools: {}\n");
    fs::create_dir(home.workspace().join(".sinew")).unwrap();
    home.file(".sinew/policy.yaml", "tools: {delete_file: {forbidden_in_modes: [NORMAL]}}\n");
    for name in ["src/a", "docs/b", "docs/k"] {
        home.file(name, "x");
    }
    let root = home.workspace().canonicalize().unwrap().display().to_string();
    let (read, write) = (["read_file", "path=docs/b"], ["write_file", "path=src/a", "content=y"]);
    assert_eq!((call(&home, &read), call(&home, &write)), (Some(0), Some(0)));
    assert_eq!(call(&home, &["delete_file", "path=docs/k"]), Some(3), "the project refuses it");
    let candidate = format!("tools: {{read_file: {{allowed_paths: [{root}/src/**]}}}}\n");
    let file = home.user_home().join("tools.yaml");
    fs::write(&file, &candidate).unwrap();
    let replay = |against: &str| -> Value {
        home.run(&["policy", "replay", "--against", against, "--json"]).must_exit(0).json()
    };
    let found = replay(file.to_str().unwrap());
    let changed: Vec<_> =
        found["changed"].as_array().unwrap().iter().map(|one| (&one["tool"], &one["becomes"])).collect();
    assert_eq!(changed, [(&json!("read_file"), &json!("deny"))], "{found:#}");
    assert_eq!(found["same"], 2, "the call that the project refuses stays refused: {found:#}");
    home.configure_layer("governance/tools.yaml", &candidate);
    assert_eq!((call(&home, &read), call(&home, &write)), (Some(3), Some(0)));
    assert_eq!(call(&home, &["delete_file", "path=docs/k"]), Some(3));
    // Against the policy of today: what was recorded under the one before.
    let found = replay("effective");
    assert_eq!(found["changed"][0]["tool"], "read_file", "{found:#}");
}

/// A recorded call is judged again in the folder that it was made in, because the policy of a project applies there.
#[test]
fn recorded_calls_are_judged_in_their_own_folder() {
    let home = home_with("tools: {}\n");
    let other = home.user_home().canonicalize().unwrap().join("other");
    fs::create_dir_all(other.join(".sinew")).unwrap();
    fs::write(other.join(".sinew/policy.yaml"), "tools: {run_command: {allowed_commands: [nl]}}\n").unwrap();
    home.run(&["workspace", "add", other.to_str().unwrap()]).must_exit(0);
    let run = ["call", "run_command", "command:=[\"ls\"]", "--json"];
    home.run(&run).must_exit(0);
    let refused = home.run_in(&other, &run).must_exit(3).json();
    let found = home.run(&["policy", "replay", "--against", "effective", "--json"]).must_exit(0).json();
    assert_eq!((&found["changed"], &found["same"]), (&json!([]), &json!(2)), "{found:#}");
    let id = refused["metadata"]["call_id"].as_str().unwrap();
    let proposed = home.run(&["allow", id]).must_exit(3);
    assert!(proposed.stderr().contains("other/.sinew/policy.yaml"), "{proposed}");
}

/// A tool that `tools list --mode` does not list is refused in that mode, and one that it lists can run.
#[test]
fn listed_tools_run_in_the_mode_and_others_are_refused() {
    let home = home_with("tools: {}\n");
    home.file("docs/b", "x");
    let daemon = Daemon::start_in(home);
    let listed = daemon.home().run(&["tools", "list", "--mode", "LOCKDOWN", "--json"]).must_exit(0).json();
    let listed: Vec<&str> =
        listed["tools"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    let stated = daemon.home().run(&["lockdown"]).must_exit(0).stdout();
    assert!(stated.contains("LOCKDOWN"), "{stated}");
    for (tool, arguments) in [
        ("read_file", json!({"path": "docs/b"})),
        ("list_directory", json!({"path": "."})),
        ("write_file", json!({"path": "docs/c", "content": "x"})),
        ("delete_file", json!({"path": "docs/b"})),
        ("run_command", json!({"command": ["ls"]})),
        ("fetch_url", json!({"url": "https://example.org/"})),
    ] {
        let result = daemon.agent().execute(tool, &arguments);
        let is_refused = result["metadata"]["refusal"]["code"] == "mode_denied";
        assert_eq!(listed.contains(&tool), !is_refused, "{tool}: {result}");
    }
    assert!(daemon.home().workspace().join("docs/b").exists() && listed.contains(&"read_file"));
}

/// The mode rules react to the replayed records as they reacted to the calls, and a rule with a higher limit does not.
#[test]
fn mode_rules_react_to_the_replay_as_to_the_calls() {
    let daemon = Daemon::start();
    let folder = daemon.home().user_home().join(".ssh");
    let mut other = tests::Bridge::start(daemon.home(), &[]);
    other.handshake();
    for number in 0..10 {
        let arguments = json!({"path": folder.join(format!("key{number}")), "content": "x"});
        match number % 2 {
            0 => daemon.agent().execute("write_file", &arguments),
            _ => {
                let params = json!({"tool_name": "write_file", "arguments": arguments});
                other.request("sinew/execute", &params)["result"].clone()
            }
        };
    }
    let mode = || daemon.home().run(&["mode", "get"]).must_exit(0).stdout();
    tests::wait_for("the mode changes", || mode().contains("ALERT").then_some(()));
    let history = daemon.home().run(&["mode", "history", "--json"]).must_exit(0).json();
    let reason = history["changes"][0]["reason"].as_str().unwrap().to_owned();
    let home = daemon.stop();
    let replay = |against: &str| -> Value {
        home.run(&["policy", "replay", "--against", against, "--json"]).must_exit(0).json()["mode_rules"]
            .clone()
    };
    let same = replay("effective");
    assert_eq!(same["reactions"][0]["response"], json!({"change": "ALERT"}), "{same:#}");
    assert_eq!(same["reactions"][0]["reason"], reason, "{same:#}");
    assert_eq!(same["reactions"].as_array().unwrap().len(), 1, "{same:#}");
    let lenient = home.user_home().join("modes.yaml");
    let rule = "{metric: refused_high_risk_calls, operator: \">\", value: 10, window_seconds: 60}";
    fs::write(&lenient, format!("transition_rules: {{NORMAL_to_ALERT: {{conditions: [{rule}]}}}}\n"))
        .unwrap();
    let lenient = replay(lenient.to_str().unwrap());
    assert_eq!(lenient["reactions"], json!([]), "{lenient:#}");
    assert_eq!(lenient["peaks"][0]["highest"], 10.0, "{lenient:#}");
    let shown = home.run(&["policy", "replay", "--against", "effective"]).must_exit(0).stdout();
    assert!(shown.contains("1 reaction") && shown.contains("refused_high_risk_calls > 9 in 60 s"), "{shown}");
}
