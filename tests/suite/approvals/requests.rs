//! Content of an approval request: it shows the effect of the call, completely.

use serde_json::json;

use super::*;

fn approval_request(control: &mut Client, id: &str) -> Value {
    control.request("control/approvals.show", &json!({"id": id}))["result"].clone()
}

#[test]
fn request_shows_the_effect_and_not_the_arguments() {
    let daemon = daemon_requiring_approval();
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    daemon.home().file("real.txt", "one\ntwo\nthree\n");
    std::os::unix::fs::symlink("real.txt", daemon.home().workspace().join("link.txt")).unwrap();
    let id = request_approval(&mut agent, &json!({"path": "./link.txt", "content": "one\n2\nthree\n"}));
    let shown = approval_request(&mut control, &id);
    let real = daemon.home().workspace().join("real.txt").display().to_string();
    assert_eq!(shown["changes"][0]["path"], real, "the file, not the link: {shown}");
    let lines: Vec<String> = shown["changes"][0]["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| format!("{} {}", line[0].as_str().unwrap(), line[1].as_str().unwrap()))
        .collect();
    assert_eq!(lines[1..], ["both one", "old two", "new 2", "both three"]);
    assert_eq!((&shown["risk"], &shown["mode"]), (&json!("high"), &json!("NORMAL")));
    assert_eq!(shown["asked_by"][0]["id"], "write_file.requires_approval", "{shown}");
    assert!(shown["asked_by"][0]["line"].as_u64().unwrap() > 0);
    for key in ["trace_id", "call_id", "caller", "requested_at", "expires_at"] {
        assert!(shown[key].is_string(), "{key}: {shown}");
    }
    let text = daemon.home().run(&["approvals", "show", &id]).must_exit(0).stdout();
    for part in
        ["-two", "+2", real.as_str(), "write_file.requires_approval", "tools.yaml:2", "risk      high"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn effect_too_large_to_show_is_refused() {
    let daemon = daemon_requiring_approval();
    let mut agent = daemon.agent();
    let lines = (0..1200).map(|n| format!("{n}\n")).collect::<String>();
    for content in [lines, "x".repeat(5000), format!("{}\n", "y".repeat(3000)).repeat(30)] {
        let refused = agent.execute("write_file", &json!({"path": "a.txt", "content": content}));
        assert_eq!((code(&refused), detail(&refused)), ("too_large", "too_much_to_show"), "{refused}");
    }
    pending_approvals(&mut daemon.control(), 0);
    // Unchanged lines do not count towards the size of the diff.
    let long: String = (0..5000).map(|n| format!("line {n}\n")).collect();
    daemon.home().file("long.txt", &long);
    request_approval(
        &mut agent,
        &json!({"path": "long.txt", "content": long.replace("line 77\n", "line 77!\n")}),
    );
}

#[test]
fn secret_is_masked_and_still_binds_the_approval() {
    let daemon = daemon_requiring_approval();
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0".repeat(2));
    let arguments = json!({"path": "a.txt", "content": format!("token = {secret}\n")});
    let id = request_approval(&mut agent, &arguments);
    let shown = approval_request(&mut control, &id);
    assert!(!shown.to_string().contains(&secret), "{shown}");
    assert!(shown["masked"].as_u64().unwrap() > 0 && shown["editable"] == Value::Null, "{shown}");
    let file =
        std::fs::read_to_string(daemon.home().root().join(format!("state/approvals/{id}.json"))).unwrap();
    assert!(!file.contains(&secret));
    assert!(daemon.home().run(&["approvals", "show", &id]).must_exit(0).stdout().contains("masked"));
    decide(&mut control, &id, "approve");
    let other = json!({"path": "a.txt", "content": format!("token = {}\n", secret.replace('B', "X"))});
    assert_eq!(detail(&write_with_approval(&mut agent, &other, &id)), "approval_mismatch");
    assert_eq!(write_with_approval(&mut agent, &arguments, &id)["success"], true);
}

#[test]
#[cfg(target_os = "linux")]
fn command_approval_is_bound_to_program_folder_and_script() {
    let home = home_requiring_approval(300);
    home.configure(
        "governance/tools.yaml",
        "tools:\n  run_command: {requires_approval: true, allowed_commands: [sh, cat]}\n",
    );
    let daemon = Daemon::start_in(home);
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    daemon.home().file("script.sh", "echo harmless\n");
    let command = json!({"command": ["sh", "script.sh"]});
    let asked = agent.execute_with("run_command", &command, &json!({"approval": "async"}));
    let id =
        asked["metadata"]["refusal"]["approval_id"].as_str().unwrap_or_else(|| panic!("{asked}")).to_owned();
    let shown = approval_request(&mut control, &id);
    let facts = shown["effect"].to_string();
    for part in ["script.sh (sha256 ", "runs in", "program", "network off"] {
        assert!(facts.contains(part), "{part}: {facts}");
    }
    decide(&mut control, &id, "approve");
    daemon.home().file("script.sh", "echo other\n");
    let more = json!({"approval": "async", "approval_id": id});
    let refused = agent.execute_with("run_command", &command, &more);
    assert_eq!(detail(&refused), "approval_mismatch", "{refused}");
    daemon.home().file("script.sh", "echo harmless\n");
    let ran = agent.execute_with("run_command", &command, &more);
    assert_eq!(ran["output"]["stdout"], "harmless\n", "{ran}");
}

/// Fake pytest: prints a version, and reports that it found no tests.
#[cfg(target_os = "linux")]
const PYTEST: &str = "#!/bin/sh\ncase $1 in --version) echo 'pytest 1';; *) exit 5;; esac\n";

#[test]
#[cfg(target_os = "linux")]
fn test_run_approval_is_bound_to_runner_and_project_program() {
    use std::os::unix::fs::PermissionsExt;
    let home = home_requiring_approval(300);
    home.configure("governance/tools.yaml", "tools:\n  run_tests: {requires_approval: true}\n");
    let daemon = Daemon::start_in(home);
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    let install = |text: &str| {
        let path = daemon.home().file(".venv/bin/pytest", text);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    std::fs::create_dir_all(daemon.home().workspace().join(".venv/bin")).unwrap();
    daemon.home().file(".venv/pyvenv.cfg", "");
    install(PYTEST);
    let mut run = |more: Value| agent.execute_with("run_tests", &json!({}), &more);
    let asked = run(json!({"approval": "async"}));
    let id =
        asked["metadata"]["refusal"]["approval_id"].as_str().unwrap_or_else(|| panic!("{asked}")).to_owned();
    let facts = approval_request(&mut control, &id)["effect"].to_string();
    for part in [".venv/bin/pytest (sha256 ", "\\\"pytest\\\",\\\"-q\\\"", "runs in", "pyvenv.cfg (sha256 "] {
        assert!(facts.contains(part), "{part}: {facts}");
    }
    decide(&mut control, &id, "approve");
    let with_yes = json!({"approval": "async", "approval_id": id});
    install(&PYTEST.replace("exit 5", "exit 0"));
    assert_eq!(detail(&run(with_yes.clone())), "approval_mismatch", "another program");
    install(PYTEST);
    let manifest = daemon.home().file("package.json", "{}");
    assert_eq!(detail(&run(with_yes.clone())), "approval_mismatch", "another runner");
    std::fs::remove_file(manifest).unwrap();
    let ran = run(with_yes);
    assert_eq!(ran["output"]["outcome"], "no_tests", "{ran}");
}
