//! An approval is used at most once, whatever a caller tries.

use serde_json::json;
use tests::Daemon;

use super::*;

#[test]
fn approval_is_used_once_however_often_it_is_sent() {
    let daemon = daemon_requiring_approval();
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    let arguments = json!({"path": "a.txt", "content": "x", "mode": "append"});
    let id = request_approval(&mut agent, &arguments);
    decide(&mut control, &id, "approve");
    let tries: Vec<_> = (0..100)
        .map(|_| {
            let (mut agent, arguments, id) = (daemon.agent(), arguments.clone(), id.clone());
            std::thread::spawn(move || write_with_approval(&mut agent, &arguments, &id))
        })
        .collect();
    let ends: Vec<Value> = tries.into_iter().map(|one| one.join().unwrap()).collect();
    let done = ends.iter().filter(|end| end["success"] == true).count();
    assert_eq!(done, 1, "{:?}", ends.iter().map(|end| end["error"].clone()).collect::<Vec<_>>());
    let file = daemon.home().workspace().join("a.txt");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x");
    // Restores the state at the time of the request, so that only the earlier use can be the reason for the
    // refusal.
    std::fs::remove_file(&file).unwrap();
    let again = write_with_approval(&mut agent, &arguments, &id);
    assert_eq!(code(&again), "conflict", "{again}");
    assert!(!file.exists());
    assert_eq!(completed_calls(daemon.home(), "write_file"), 1);
}

#[test]
fn after_restart_approval_counts_once_and_nothing_runs_alone() {
    let daemon = daemon_requiring_approval();
    let arguments = json!({"path": "a.txt", "content": "x"});
    let other = json!({"path": "b.txt", "content": "x"});
    let (id, answered) =
        (request_approval(&mut daemon.agent(), &arguments), request_approval(&mut daemon.agent(), &other));
    decide(&mut daemon.control(), &answered, "approve");
    let daemon = Daemon::start_in(daemon.crash());
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    let listed = pending_approvals(&mut control, 2);
    assert_eq!(listed.iter().map(id_of).collect::<Vec<_>>(), [id.clone(), answered.clone()]);
    let approval_request = control.request("control/approvals.show", &json!({"id": id}));
    assert_eq!(
        approval_request["result"]["changes"][0]["what"], "is created with 1 bytes",
        "{approval_request}"
    );
    assert!(!daemon.home().workspace().join("b.txt").exists(), "nothing runs by itself");
    assert_eq!(write_with_approval(&mut agent, &other, &answered)["success"], true);
    assert_eq!(decide(&mut control, &id, "approve")["result"]["decided"], true);
    assert_eq!(write_with_approval(&mut agent, &arguments, &id)["success"], true);

    let daemon = Daemon::start_in(daemon.crash());
    let mut agent = daemon.agent();
    for (arguments, id) in [(&arguments, &id), (&other, &answered)] {
        let again = write_with_approval(&mut agent, arguments, id);
        assert_eq!((code(&again), detail(&again)), ("conflict", "approval_unknown"));
    }
    assert_eq!(completed_calls(daemon.home(), "write_file"), 2);
    assert!(std::fs::read_dir(daemon.home().root().join("state/approvals")).unwrap().next().is_none());
}

#[test]
fn expired_approval_stays_expired() {
    let daemon = Daemon::start_in(home_requiring_approval(6));
    let mut agent = daemon.agent();
    let arguments = json!({"path": "a.txt", "content": "x"});
    let (id, late) = (request_approval(&mut agent, &arguments), request_approval(&mut agent, &arguments));
    let decided = decide(&mut daemon.control(), &id, "approve");
    assert_eq!(decided["result"]["decided"], true, "there is a yes, and it runs out: {decided}");
    pending_approvals(&mut daemon.control(), 0);
    let used_late = write_with_approval(&mut agent, &arguments, &id);
    assert_eq!(code(&used_late), "approval_timed_out", "{used_late}");
    let decided_late = decide(&mut daemon.control(), &late, "approve");
    assert_eq!(decided_late["error"]["data"]["code"], "already_decided", "{decided_late}");
    let daemon = Daemon::start_in(daemon.crash());
    let again = write_with_approval(&mut daemon.agent(), &arguments, &id);
    assert_eq!(code(&again), "conflict", "{again}");
    assert_eq!(completed_calls(daemon.home(), "write_file"), 0);
}

#[test]
fn reload_keeps_or_voids_an_approval() {
    let daemon = daemon_requiring_approval();
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    let arguments = json!({"path": "a.txt", "content": "x"});
    let (id, forbidden) = (
        request_approval(&mut agent, &arguments),
        request_approval(&mut agent, &json!({"path": "b.txt", "content": "x"})),
    );
    decide(&mut control, &id, "approve");
    decide(&mut control, &forbidden, "approve");
    let rules = "tools:\n  write_file: {requires_approval: true, forbidden_paths: [\"WS/b.txt\"]}\n";
    let workspace = daemon.home().workspace();
    daemon.home().configure("governance/tools.yaml", &rules.replace("WS", workspace.to_str().unwrap()));
    daemon.home().run(&["reload"]).must_exit(0);
    assert_eq!(
        write_with_approval(&mut agent, &arguments, &id)["success"],
        true,
        "the rule that asked still asks"
    );
    let refused = write_with_approval(&mut agent, &json!({"path": "b.txt", "content": "x"}), &forbidden);
    assert_eq!(code(&refused), "path_forbidden", "{refused}");
    assert_eq!(completed_calls(daemon.home(), "write_file"), 1);
}

#[test]
fn rule_that_newly_requires_approval_asks_again() {
    let daemon = Daemon::start_in(home_requiring_approval(300));
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    let arguments = json!({"path": "a.txt", "content": "x"});
    let id = request_approval(&mut agent, &arguments);
    decide(&mut control, &id, "approve");
    control.request("control/mode.set", &json!({"mode": "ALERT", "reason": "test"}));
    let refused = write_with_approval(&mut agent, &arguments, &id);
    assert_eq!((code(&refused), detail(&refused)), ("conflict", "approval_mismatch"), "{refused}");
}

#[test]
fn approval_is_valid_for_its_caller_only() {
    let daemon = daemon_requiring_approval();
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    let arguments = json!({"path": "a.txt", "content": "x"});
    let id = request_approval(&mut agent, &arguments);
    decide(&mut control, &id, "approve");
    let mut other = daemon.agent();
    other.request(
        "initialize",
        &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "other", "version": "1"}}),
    );
    let stolen = other.request(
        "tools/call",
        &json!({"name": "write_file", "arguments": arguments, "_meta": {"sinew/approval_id": id}}),
    );
    let refusal = &stolen["result"]["_meta"]["sinew/refusal"];
    assert_eq!(refusal["detail"], "approval_unknown", "{stolen}");
    // An unknown id is refused with the same message, so that ids cannot be probed.
    let made_up = write_with_approval(&mut agent, &arguments, "0000000000");
    assert_eq!((code(&made_up), detail(&made_up)), ("conflict", "approval_unknown"), "{made_up}");
    assert_eq!(made_up["metadata"]["refusal"]["reason"], refusal["reason"]);
    assert!(!daemon.home().workspace().join("a.txt").exists(), "neither ran");
    assert_eq!(write_with_approval(&mut agent, &arguments, &id)["success"], true);
}

#[test]
fn approval_is_void_after_any_change() {
    let daemon = daemon_requiring_approval();
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    daemon.home().file("a.txt", "old\n");
    std::fs::create_dir(daemon.home().workspace().join("sub")).unwrap();
    let agreed = json!({"path": "a.txt", "content": "new\n"});
    let id = request_approval(&mut agent, &agreed);
    decide(&mut control, &id, "approve");
    for other in [
        json!({"path": "a.txt", "content": "new\n "}),
        json!({"path": "b.txt", "content": "new\n"}),
        json!({"path": "a.txt", "content": "new\n", "mode": "append"}),
        json!({"path": "sub/a.txt", "content": "new\n"}),
    ] {
        let refused = write_with_approval(&mut daemon.agent(), &other, &id);
        assert_eq!(
            (code(&refused), detail(&refused)),
            ("conflict", "approval_mismatch"),
            "{other}: {refused}"
        );
    }
    // The file changed after it was shown: other content, or another inode with the same content.
    daemon.home().file("a.txt", "changed\n");
    let refused = write_with_approval(&mut daemon.agent(), &agreed, &id);
    assert_eq!(detail(&refused), "approval_mismatch", "{refused}");
    daemon.home().file("a.txt", "old\n");
    let path = daemon.home().workspace().join("a.txt");
    std::fs::rename(&path, path.with_extension("kept")).unwrap();
    std::os::unix::fs::symlink("a.kept", &path).unwrap();
    let refused = write_with_approval(&mut daemon.agent(), &agreed, &id);
    assert!(!refused["success"].as_bool().unwrap(), "a link in its place: {refused}");
    std::fs::remove_file(&path).unwrap();
    std::fs::rename(path.with_extension("kept"), &path).unwrap();
    assert_eq!(
        write_with_approval(&mut daemon.agent(), &agreed, &id)["success"],
        true,
        "the very same is agreed to"
    );
    assert_eq!(completed_calls(daemon.home(), "write_file"), 1);
}

#[test]
fn waiting_call_whose_file_changed_is_asked_again() {
    let daemon = daemon_requiring_approval();
    let mut control = daemon.control();
    daemon.home().file("a.txt", "old\n");
    let call = suspend(&daemon, json!({"path": "a.txt", "content": "new\n"}));
    let first = pending_approval(&mut control);
    daemon.home().file("a.txt", "meanwhile\n");
    decide(&mut control, &first, "approve");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(15);
    let second = loop {
        let id = pending_approval(&mut control);
        if id != first {
            break id;
        }
        assert!(std::time::Instant::now() < deadline, "it was not asked anew");
    };
    let request = control.request("control/approvals.show", &json!({"id": second}));
    assert!(request["result"]["changes"][0]["lines"].to_string().contains("meanwhile"), "{request}");
    decide(&mut control, &second, "approve");
    assert_eq!(call.join().unwrap()["success"], true);
    assert_eq!(std::fs::read_to_string(daemon.home().workspace().join("a.txt")).unwrap(), "new\n");
}

#[test]
fn request_changed_on_disk_cannot_be_approved() {
    let daemon = daemon_requiring_approval();
    let id = request_approval(&mut daemon.agent(), &json!({"path": "a.txt", "content": "x"}));
    let request = daemon.home().root().join(format!("state/approvals/{id}.json"));
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&request).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&request).unwrap();
    let home = daemon.crash();
    std::fs::write(&request, text.replace("a.txt", "harmless.txt")).unwrap();
    let daemon = Daemon::start_in(home);
    pending_approvals(&mut daemon.control(), 0);
    let decided = decide(&mut daemon.control(), &id, "approve");
    assert_eq!(decided["error"]["data"]["code"], "already_decided", "{decided}");
}
