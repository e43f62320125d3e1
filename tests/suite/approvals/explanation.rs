//! `explain` of a call that requires approval: it agrees with the call and creates no approval request. If
//! the explanation reveals file content to an agent, the ledger records it.

use super::*;

fn explain(agent: &mut Client, tool: &str, arguments: &Value, more: &Value) -> Value {
    let mut params = json!({"tool_name": tool, "arguments": arguments});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    agent.request("sinew/explain", &params)["result"].clone()
}

fn facts(refusal: &Value) -> [&Value; 3] {
    ["code", "detail", "reason"].map(|key| &refusal[key])
}

#[test]
fn explain_agrees_that_an_effect_cannot_be_shown() {
    let home = home_requiring_approval(300);
    let tools = "tools:\n  write_file: {requires_approval: true}\n  edit_file: {requires_approval: true}\n  \
                 delete_file: {requires_approval: true}\n";
    home.configure("governance/tools.yaml", tools);
    home.file("notes.txt", "one\n");
    std::fs::create_dir(home.workspace().join("many")).unwrap();
    (0..201).for_each(|n| drop(home.file(&format!("many/{n:03}"), "")));
    let daemon = Daemon::start_in(home);
    let mut agent = daemon.agent();
    for (tool, arguments, detail) in [
        ("write_file", json!({"path": "a", "content": "x\n".repeat(2000)}), "too_much_to_show"),
        ("write_file", json!({"path": "a", "content": "x".repeat(5000)}), "too_much_to_show"),
        ("write_file", json!({"path": "a", "content": "token=v1/src/deploy.sh\n"}), "too_much_to_show"),
        (
            "edit_file",
            json!({"path": "notes.txt", "edits": [{"old_text": "two", "new_text": "x"}]}),
            "not_foreseeable",
        ),
        ("delete_file", json!({"path": "many", "recursive": true}), "not_foreseeable"),
        ("delete_file", json!({"path": "nowhere"}), "not_foreseeable"),
    ] {
        let reported = explain(&mut agent, tool, &arguments, &json!({}));
        assert_eq!(reported["verdict"], "deny", "{tool} {detail}: {reported}");
        assert!(!reported["rules"].as_array().unwrap().is_empty(), "with the rules that ask: {reported}");
        let note = daemon.home().complete_records().pop().unwrap();
        assert_eq!(
            (&note["about"], &note["data"]["detail"]),
            (&json!("explained"), &json!(detail)),
            "{note}"
        );
        let refused = agent.execute(tool, &arguments);
        assert_eq!(facts(&reported["refusal"]), facts(&refused["metadata"]["refusal"]), "{tool}: {reported}");
        assert_eq!(reported["refusal"]["detail"], detail, "{reported}");
    }
    pending_approvals(&mut daemon.control(), 0);
    let reported = explain(&mut agent, "write_file", &json!({"path": "a", "content": "x"}), &json!({}));
    assert_eq!(reported["verdict"], "ask", "{reported}");
    pending_approvals(&mut daemon.control(), 0);
}

#[test]
fn explain_reports_an_approval_without_using_it() {
    let daemon = daemon_requiring_approval();
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    let arguments = json!({"path": "a.txt", "content": "x"});
    let id = request_approval(&mut agent, &arguments);
    let brought = json!({"approval_id": id});
    let reported = explain(&mut agent, "write_file", &arguments, &brought);
    assert_eq!(
        (&reported["verdict"], &reported["refusal"]["code"]),
        (&json!("ask"), &json!("approval_pending"))
    );
    decide(&mut control, &id, "approve");
    for _ in 0..2 {
        let reported = explain(&mut agent, "write_file", &arguments, &brought);
        assert_eq!(reported["verdict"], "permit", "{reported}");
        assert!(reported["rules"].to_string().contains(&id), "by that answer: {reported}");
    }
    let other = json!({"path": "a.txt", "content": "y"});
    let reported = explain(&mut agent, "write_file", &other, &brought);
    assert_eq!(reported["refusal"]["detail"], "approval_mismatch", "{reported}");
    assert_eq!(write_with_approval(&mut agent, &arguments, &id)["success"], true);
    let reported = explain(&mut agent, "write_file", &arguments, &brought);
    assert_eq!(reported["refusal"]["detail"], "approval_used", "{reported}");

    let id = request_approval(&mut agent, &arguments);
    daemon.home().run(&["approve", &id, "--for", "10m", "--yes"]).must_exit(0);
    let reported = explain(&mut agent, "write_file", &arguments, &json!({}));
    assert_eq!(reported["verdict"], "permit", "a standing rule covers it: {reported}");
    assert_eq!(agent.execute("write_file", &arguments)["success"], true);
    let reported = explain(&mut agent, "write_file", &json!({"path": "b.txt", "content": "x"}), &json!({}));
    assert_eq!(reported["verdict"], "ask", "and nothing else: {reported}");
}

#[test]
fn explain_agrees_that_too_many_requests_are_pending() {
    let daemon = daemon_requiring_approval();
    let mut agent = daemon.agent();
    for n in 0..32 {
        request_approval(&mut agent, &json!({"path": format!("{n}.txt"), "content": "x"}));
    }
    let one_more = json!({"path": "more.txt", "content": "x"});
    let reported = explain(&mut agent, "write_file", &one_more, &json!({}));
    let refused = agent.execute_with("write_file", &one_more, &json!({"approval": "async"}));
    assert_eq!(
        (&reported["verdict"], detail(&refused)),
        (&json!("deny"), "too_many_approvals"),
        "{reported}"
    );
    assert_eq!(facts(&reported["refusal"]), facts(&refused["metadata"]["refusal"]), "{reported}");
}

#[test]
fn explain_on_the_control_socket_leaves_no_record() {
    let home = home_requiring_approval(300);
    home.file("notes.txt", "one\n");
    home.configure("governance/tools.yaml", "tools:\n  edit_file: {requires_approval: true}\n");
    let daemon = Daemon::start_in(home);
    let before = daemon.home().complete_records().len();
    for (guess, exit, verdict) in [("one", 4, "ask"), ("two", 3, "deny")] {
        let arguments = json!({"path": "notes.txt", "edits": [{"old_text": guess, "new_text": "x"}]});
        let reported = daemon
            .home()
            .run(&["explain", "edit_file", "--json", &arguments.to_string()])
            .must_exit(exit)
            .json();
        assert_eq!(reported["verdict"], verdict, "{reported}");
    }
    assert_eq!(daemon.home().complete_records().len(), before);
    // The agent socket does not offer the method.
    let answer =
        daemon.agent().request("control/explain", &json!({"tool_name": "edit_file", "arguments": {}}));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
}
