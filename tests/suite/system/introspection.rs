//! `runtime_status` and `self_check` in every mode that permits them.

use serde_json::{Value, json};
use tests::Daemon;

fn tool<'a>(status: &'a Value, name: &str) -> &'a Value {
    let tools = status["output"]["tools"].as_array().unwrap();
    tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{name}: {status}"))
}

#[test]
fn status_shows_what_may_run_in_this_mode() {
    let daemon = Daemon::start();
    daemon.home().file("README.md", "x");
    let mut agent = daemon.agent();
    agent.execute("read_file", &json!({"path": "README.md"}));
    agent.execute("read_file", &json!({"path": "/etc/shadow"}));
    let status = agent.execute("runtime_status", &json!({}));
    assert_eq!(status["success"], true, "{status}");
    let seen = &status["output"];
    assert_eq!(
        (&seen["mode"], &seen["done_calls"], &seen["refused_calls"]),
        (&json!("NORMAL"), &json!(1), &json!(1))
    );
    assert!(seen["running_calls"].as_u64().unwrap() >= 1, "this one runs: {seen}");
    assert_eq!(seen["ledger"]["state"], "ready");
    assert_eq!(seen["workspaces"][0], daemon.home().workspace().to_str().unwrap());
    assert!(seen["remaining"]["mode_per_minute"].is_u64(), "{seen}");
    assert_eq!(seen["policy_hash"], status["metadata"]["policy_hash"]);
    assert_eq!(tool(&status, "write_file")["verdict"], "allow");

    daemon.home().run(&["mode", "set", "ALERT", "--reason", "a test"]).must_exit(0);
    let alert = agent.execute("runtime_status", &json!({}));
    assert_eq!(tool(&alert, "write_file")["verdict"], "ask", "{alert}");
    daemon.home().run(&["mode", "set", "LOCKDOWN", "--reason", "a test"]).must_exit(0);
    let locked = agent.execute("runtime_status", &json!({}));
    assert_eq!(locked["output"]["mode"], "LOCKDOWN", "{locked}");
    assert_eq!(tool(&locked, "write_file")["verdict"], "deny");
    assert!(tool(&locked, "write_file")["reason"].as_str().unwrap().contains("LOCKDOWN"), "{locked}");
    assert_eq!(tool(&locked, "read_file")["verdict"], "allow");
}

#[test]
fn self_check_works_in_lockdown_and_recovery_too() {
    let daemon = Daemon::start();
    for mode in ["NORMAL", "ALERT", "LOCKDOWN", "RECOVERY"] {
        if mode != "NORMAL" {
            daemon.home().run(&["mode", "set", mode, "--reason", "a test"]).must_exit(0);
        }
        let result = daemon.agent().execute("self_check", &json!({}));
        assert_eq!(result["success"], true, "{mode}: {result}");
        assert_eq!(result["output"]["ok"], true, "{mode}: {result}");
        let checks = result["output"]["checks"].as_array().unwrap();
        let text = result["output"].to_string();
        assert!(checks.len() > 5 && text.contains("a confined program cannot"), "{result}");
        assert!(text.contains("recorded") && text.contains("disk"), "{result}");
    }
    let left: Vec<_> = std::fs::read_dir(daemon.home().root().join("state")).unwrap().flatten().collect();
    assert!(left.iter().all(|entry| !entry.file_name().to_string_lossy().starts_with(".tmp")), "{left:?}");
}

#[test]
fn status_works_without_a_daemon() {
    let home = tests::Home::initialised();
    let status = home.run(&["call", "runtime_status", "--json"]);
    assert!(status.stdout().contains("NORMAL"), "{status}");
}
