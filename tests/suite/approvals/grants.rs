//! Grants, which approve later calls: they cover exactly what was displayed, expire, and can be revoked.

use serde_json::json;
use tests::Bridge;

use super::*;

fn write(agent: &mut Client, path: &str) -> Value {
    agent.execute_with("write_file", &json!({"path": path, "content": "x"}), &json!({"approval": "async"}))
}

#[test]
fn grant_is_displayed_first_and_covers_what_it_shows() {
    let daemon = daemon_requiring_approval();
    let home = daemon.home();
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    std::fs::create_dir(home.workspace().join("src")).unwrap();
    let id = request_approval(&mut agent, &json!({"path": "src/a.txt", "content": "x"}));
    let pattern = format!("path={}/src/*.txt", home.workspace().display());
    let unseen = control.request(
        "control/approvals.decide",
        &json!({"id": id, "answer": "approve", "for_seconds": 600, "patterns": [pattern]}),
    );
    assert_eq!(unseen["error"]["data"]["code"], "rule_not_displayed", "{unseen}");
    let rule = unseen["error"]["data"]["rule"].to_string();
    for part in ["src/*.txt", "write_file", "NORMAL", "600 s", "write_file.requires_approval"] {
        assert!(rule.contains(part), "{part}: {rule}");
    }
    home.run(&["approve", &id, "--for", "10m", "--pattern", &pattern]).must_exit(2);
    let made = home.run(&["approve", &id, "--for", "10m", "--pattern", &pattern, "--yes"]).must_exit(0);
    assert!(made.stderr().contains("path matches"), "it is displayed: {made}");

    for covered in ["src/a.txt", "src/b.txt"] {
        assert_eq!(write(&mut agent, covered)["success"], true, "{covered}");
    }
    for asked in ["src/c.md", "a.txt"] {
        assert_eq!(code(&write(&mut agent, asked)), "approval_pending", "{asked}");
    }
    let grants = home.run(&["approvals", "grants", "--json"]).must_exit(0).json();
    let grant = grants["grants"][0]["id"].as_str().unwrap().to_owned();
    assert!(home.run(&["approvals", "grants"]).must_exit(0).stdout().contains("src/*.txt"));

    // A grant survives a restart, and does not apply in a stricter mode.
    let daemon = Daemon::start_in(daemon.crash());
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    assert_eq!(write(&mut agent, "src/d.txt")["success"], true);
    control.request("control/mode.set", &json!({"mode": "ALERT", "reason": "test"}));
    assert_eq!(code(&write(&mut agent, "src/d.txt")), "approval_pending", "another mode");
    control.request("control/mode.set", &json!({"mode": "NORMAL", "reason": "test"}));
    daemon.home().run(&["approvals", "revoke", &grant]).must_exit(0);
    assert_eq!(code(&write(&mut agent, "src/d.txt")), "approval_pending", "revoked");
    let records = daemon.stop().records();
    let used =
        records.iter().filter(|r| tests::holds(r, "decision") && r["approval_id"] == grant.as_str()).count();
    assert_eq!(used, 3, "each use is on record");
    for event in ["standing", "revoked"] {
        assert!(records.iter().any(|r| r["event"] == event && r["id"] == grant.as_str()), "{event}");
    }
}

#[test]
fn session_grant_ends_with_the_connection() {
    let daemon = daemon_requiring_approval();
    let mut agent = daemon.agent();
    let id = request_approval(&mut agent, &json!({"path": "a.txt", "content": "x"}));
    daemon.home().run(&["approve", &id, "--for", "session", "--yes"]).must_exit(0);
    assert_eq!(write(&mut agent, "a.txt")["success"], true);
    assert_eq!(code(&write(&mut agent, "b.txt")), "approval_pending", "another file");
    assert_eq!(code(&write(&mut daemon.agent(), "a.txt")), "approval_pending", "another connection");
    let daemon = Daemon::start_in(daemon.crash());
    assert_eq!(code(&write(&mut daemon.agent(), "a.txt")), "approval_pending", "another life");
}

#[test]
fn grant_belongs_to_the_process_that_asked() {
    let daemon = daemon_requiring_approval();
    let start = || {
        let mut bridge = Bridge::start(daemon.home(), &[]);
        bridge.handshake_as("agent");
        bridge
    };
    let write = |bridge: &mut Bridge| {
        let arguments = json!({"path": "a.txt", "content": "x"});
        let params = json!({"tool_name": "write_file", "arguments": arguments, "approval": "async"});
        bridge.request("sinew/execute", &params)["result"].clone()
    };
    let (mut first, mut copy) = (start(), start());
    let asked = write(&mut first);
    let id = asked["metadata"]["refusal"]["approval_id"].as_str().unwrap_or_else(|| panic!("{asked}"));
    let made = daemon.home().run(&["approve", id, "--for", "10m", "--yes"]).must_exit(0);
    assert!(made.stderr().contains(", process "), "it is displayed: {made}");
    for _ in 0..2 {
        assert_eq!(write(&mut first)["success"], true);
    }
    assert_eq!(code(&write(&mut copy)), "approval_pending", "another process with the same name");
    drop(first);
    assert_eq!(code(&write(&mut start())), "approval_pending", "the client was restarted");
}

#[test]
fn grant_expires() {
    let daemon = daemon_requiring_approval();
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    let id = request_approval(&mut agent, &json!({"path": "a.txt", "content": "x"}));
    let before = Instant::now();
    daemon.home().run(&["approve", &id, "--for", "5s", "--yes"]).must_exit(0);
    let mut held = false;
    while write(&mut agent, "a.txt")["success"] == true {
        held = true;
        assert!(before.elapsed() < Duration::from_secs(18), "it does not run out");
        std::thread::sleep(Duration::from_millis(50));
    }
    // On a busy machine the grant can expire before the first write, so that case is accepted as well.
    assert!(held || before.elapsed() >= Duration::from_secs(5), "it never held");
    let grants = control.request("control/grants.list", &json!({}));
    assert_eq!(grants["result"]["grants"], json!([]));
}

#[test]
#[cfg(target_os = "linux")]
fn only_read_only_commands_can_be_granted_by_prefix() {
    let home = home_requiring_approval(300);
    home.configure(
        "governance/tools.yaml",
        "tools:\n  run_command: {requires_approval: true, allowed_commands: [sh, echo]}\n",
    );
    let daemon = Daemon::start_in(home);
    let mut agent = daemon.agent();
    let async_ = json!({"approval": "async"});
    let mut run = |words: &[&str]| agent.execute_with("run_command", &json!({"command": words}), &async_);
    let asked = run(&["sh", "-c", "true"]);
    let id =
        asked["metadata"]["refusal"]["approval_id"].as_str().unwrap_or_else(|| panic!("{asked}")).to_owned();
    let refused = daemon
        .home()
        .run(&["approve", &id, "--for", "10m", "--pattern", "command=sh -c", "--yes"])
        .must_exit(1);
    assert!(refused.stderr().contains("may run or write what its further words say"), "{refused}");
    daemon.home().run(&["approve", &id, "--for", "10m", "--yes"]).must_exit(0);
    assert_eq!(run(&["sh", "-c", "true"])["success"], true);
    assert_eq!(code(&run(&["sh", "-c", "false"])), "approval_pending");
    let reported = json!({"command": ["sh", "-c", "true"], "stdin": "echo other words"});
    assert_eq!(code(&daemon.agent().execute_with("run_command", &reported, &async_)), "approval_pending");
    let asked = run(&["echo", "one"]);
    let id = asked["metadata"]["refusal"]["approval_id"].as_str().expect("an id").to_owned();
    let opened = ["approve", &id, "--for", "10m", "--pattern", "command=echo", "--yes"];
    // If the program is a multi-call binary such as busybox, its effect cannot be known from the file, and no
    // prefix grant is created.
    if daemon.home().run(&opened).stdout().contains("was created") {
        assert_eq!(run(&["echo", "two", "-n"])["success"], true);
    }
}

#[test]
fn grant_for_a_dry_run_does_not_cover_the_call() {
    let home = home_requiring_approval(300);
    home.configure("governance/tools.yaml", "tools:\n  delete_file: {requires_approval: true}\n");
    let daemon = Daemon::start_in(home);
    let (path, mut agent) = (daemon.home().file("a.txt", "x"), daemon.agent());
    let mut delete = |more: Value| {
        let mut arguments = json!({"path": "a.txt"});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        agent.execute_with("delete_file", &arguments, &json!({"approval": "async"}))
    };
    let asked = delete(json!({"dry_run": true}));
    let id = asked["metadata"]["refusal"]["approval_id"].as_str().unwrap_or_else(|| panic!("{asked}"));
    let made = daemon.home().run(&["approve", id, "--for", "10m", "--yes"]).must_exit(0);
    assert!(made.stderr().contains("dry_run is true"), "{made}");
    assert_eq!(delete(json!({"dry_run": true}))["success"], true);
    assert_eq!(code(&delete(json!({}))), "approval_pending");
    assert_eq!(code(&delete(json!({"dry_run": false}))), "approval_pending");
    assert!(path.exists());
}
