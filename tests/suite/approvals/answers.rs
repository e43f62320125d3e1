//! Competing decisions, decisions on several requests at once, and edited arguments.

use serde_json::json;

use super::*;

#[test]
fn first_decision_wins_and_later_ones_are_rejected() {
    let daemon = daemon_requiring_approval();
    let mut control = daemon.control();
    let id = request_approval(&mut daemon.agent(), &json!({"path": "a.txt", "content": "x"}));
    let tries: Vec<_> = (0..8)
        .map(|n| {
            let (mut control, id) = (daemon.control(), id.clone());
            let answer = if n % 2 == 0 { "approve" } else { "deny" };
            std::thread::spawn(move || decide(&mut control, &id, answer)["result"]["decided"] == true)
        })
        .collect();
    let taken: Vec<bool> = tries.into_iter().map(|one| one.join().unwrap()).collect();
    assert_eq!(taken.iter().filter(|taken| **taken).count(), 1, "one decision is taken: {taken:?}");
    let late = decide(&mut control, &id, "deny");
    assert_eq!(late["error"]["data"]["code"], "already_decided", "{late}");
    let unknown = decide(&mut control, "0000000000", "approve");
    assert_eq!(unknown["error"]["data"]["code"], "not_found", "{unknown}");
    let home = daemon.stop();
    let decisions =
        home.records().iter().filter(|r| r["event"] == "granted" || r["event"] == "denied").count();
    assert_eq!(decisions, 1, "and one is on record");
}

#[test]
fn batch_approval_needs_full_ids_and_denial_takes_a_prefix() {
    let daemon = daemon_requiring_approval();
    let mut agent = daemon.agent();
    let ids: Vec<String> = (0..3)
        .map(|n| request_approval(&mut agent, &json!({"path": format!("{n}.txt"), "content": "x"})))
        .collect();
    let home = daemon.home();
    let listed = home.run(&["approvals", "list", "--json"]).must_exit(0).json();
    assert_eq!(listed["schema_version"], 1);
    assert_eq!(listed["approvals"].as_array().unwrap().len(), 3);
    assert_eq!(listed["approvals"][0]["id"], ids[0].as_str());
    let begun = home.run(&["approve", &ids[0][..8]]).must_exit(2);
    assert!(begun.stderr().contains(&ids[0]), "a yes names the whole id: {begun}");
    let approved = home.run(&["approve", &ids[0], &ids[1], "nonsense00", "--json"]).must_exit(1);
    let approvals = approved.json()["approvals"].clone();
    let decided: Vec<bool> = approvals.as_array().unwrap().iter().map(|one| one["decided"] == true).collect();
    assert_eq!(decided, [true, true, false], "{approved}");
    home.run(&["deny", &ids[2][..8]]).must_exit(0);
    let shown = home.run(&["approvals", "list"]).must_exit(0).stdout();
    assert_eq!(shown.matches("approved").count(), 2, "{shown}");
}

#[test]
fn edited_arguments_need_an_approval_of_their_own() {
    let daemon = daemon_requiring_approval();
    let mut control = daemon.control();
    let call = suspend(&daemon, json!({"path": "a.txt", "content": "wrong\n"}));
    let first = pending_approval(&mut control);
    let home = daemon.home();
    let edit = |id: &str, arguments: &str| home.run(&["approvals", "edit", id, arguments]);
    let refused = edit(&first, r#"{"path": "/etc/passwd", "content": "x"}"#).must_exit(1);
    assert!(refused.stderr().contains("Permission denied"), "{refused}");
    let refused = edit(&first, r#"{"path": "b.txt"}"#).must_exit(1);
    assert!(refused.stderr().contains("content"), "the human is told what is wrong: {refused}");
    assert_eq!(pending_approval(&mut control), first, "the call waits on as it was");
    edit(&first, r#"{"path": "b.txt", "content": "right\n"}"#).must_exit(0);
    let second = pending_approval(&mut control);
    assert_ne!(second, first);
    let request = control.request("control/approvals.show", &json!({"id": second}))["result"].clone();
    assert_eq!(request["edited"], true);
    assert!(request["summary"].as_str().unwrap().ends_with("/b.txt"), "{request}");
    assert_eq!(decide(&mut control, &first, "approve")["error"]["data"]["code"], "already_decided");
    decide(&mut control, &second, "approve");
    let done = call.join().unwrap();
    assert_eq!(done["success"], true, "{done}");
    assert_eq!(done["metadata"]["edited_arguments"]["content"], "right\n", "the model is told");
    assert_eq!(std::fs::read_to_string(home.workspace().join("b.txt")).unwrap(), "right\n");
    assert!(!home.workspace().join("a.txt").exists());
    let gone = request_approval(&mut daemon.agent(), &json!({"path": "c.txt", "content": "x"}));
    let no_approver = edit(&gone, r#"{"path": "c.txt", "content": "y"}"#).must_exit(1);
    assert!(no_approver.stderr().contains("does not wait"), "{no_approver}");
}
