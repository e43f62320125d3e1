//! The guardrail before every call, from outside. Cases that need no daemon are in the tests of the
//! `guardrail` crate.

use serde_json::{Value, json};
use tests::{Client, Daemon, Home};

fn refusal(result: &Value) -> &Value {
    let refusal = &result["metadata"]["refusal"];
    assert_eq!(refusal["refused"], true, "{result}");
    refusal
}

fn watch(daemon: &Daemon) -> Client {
    let mut control = daemon.control();
    let response = control.request("control/events", &json!({}));
    assert_eq!(response["result"]["following"], true, "{response}");
    control
}

#[test]
fn every_endpoint_applies_the_guardrail() {
    let daemon = Daemon::start();
    let home = daemon.home();
    let by_socket = daemon.agent().execute("write_file", &json!({"path": "", "content": "x"}));
    assert_eq!(refusal(&by_socket)["code"], "invalid_arguments");
    let reported = home.run(&["call", "write_file", "path=", "content=x"]).must_exit(3);
    assert!(reported.stderr().contains("Missing required fields: path."), "{reported}");
    let mut mcp = daemon.agent();
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    mcp.request("initialize", &hello);
    let params = json!({"name": "write_file", "arguments": {"path": "", "content": "x"}});
    let by_mcp = mcp.request("tools/call", &params);
    assert_eq!(by_mcp["result"]["isError"], true, "{by_mcp}");
    assert_eq!(by_mcp["result"]["_meta"]["sinew/refusal"]["code"], "invalid_arguments", "{by_mcp}");
    let home = daemon.stop();
    home.run(&["call", "write_file", "path=", "content=x"]).must_exit(3);
}

#[test]
fn old_tool_name_gets_error_example_and_replacement() {
    let daemon = Daemon::start();
    let mut agent = daemon.agent();
    for (name, arguments) in [
        ("write_local_file", json!({"path": "a"})),
        ("mcp__local_toolkit__write_local_file", json!({"content": "long enough"})),
        ("READ_LOCAL_FILE", json!({})),
    ] {
        let result = agent.execute(name, &arguments);
        let refusal = refusal(&result);
        assert_eq!(refusal["code"], "invalid_arguments", "{result}");
        assert!(refusal["schema_error"].is_string() && refusal["example"].is_object(), "{result}");
        assert!(refusal["hint"].as_str().unwrap().contains("use "), "{result}");
        assert!(
            result["error"].as_str().unwrap().starts_with(&format!("⚠️ Invalid {name} call. Missing")),
            "{result}"
        );
        let rule = &refusal["rule"];
        let file = daemon.home().root().join("config").join(rule["file"].as_str().unwrap());
        let text = std::fs::read_to_string(file).unwrap();
        let line = text.lines().nth(rule["line"].as_u64().unwrap() as usize - 1).unwrap();
        assert!(line.contains("_local_file:"), "{rule} is {line:?}");
    }
}

#[test]
fn one_event_names_the_fields_and_no_start_is_announced() {
    let daemon = Daemon::start();
    let mut events = watch(&daemon);
    let mut agent = daemon.agent();
    let secret = "correct horse battery staple";
    agent.execute("write_file", &json!({"contnet": secret, "mode": secret}));
    agent.execute("gmail_send_email", &json!({"body": secret}));
    agent.execute("read_file", &json!({"path": "missing.txt"}));
    let mut reported = Vec::new();
    while reported.len() < 4 {
        reported.push(events.receive().expect("an event")["params"].clone());
    }
    let names: Vec<&Value> = reported.iter().map(|event| &event["event"]).collect();
    assert_eq!(
        names,
        ["tool_validation_failed", "tool_validation_failed", "tool_call_started", "tool_call_failed"]
    );
    assert_eq!(
        (&reported[0]["tool"], &reported[0]["missing"]),
        (&json!("write_file"), &json!(["path", "content"]))
    );
    assert_eq!(
        (&reported[1]["tool"], &reported[1]["missing"]),
        (&json!("gmail_send_email"), &json!(["subject", "one of: recipient_email|to"]))
    );
    assert!(
        !reported.iter().any(|event| event.to_string().contains(secret)),
        "no value is told: {reported:?}"
    );
}

#[test]
fn refusal_has_no_effect_and_its_repair_succeeds() {
    let daemon = Daemon::start();
    let mut agent = daemon.agent();
    let refused = agent.execute("write_file", &json!({"file_path": "new.txt", "text": "hello"}));
    let offered = &refusal(&refused)["repair"];
    assert_eq!(offered["arguments"], json!({"path": "new.txt", "content": "hello"}), "{refused}");
    assert_eq!(offered["note"], "rename `file_path` to `path`; rename `text` to `content`");
    let file = daemon.home().workspace().join("new.txt");
    assert!(!file.exists(), "no side effect");
    let call = &refused["metadata"]["call_id"];
    let records = daemon.home().records();
    let kinds: Vec<&Value> =
        records.iter().filter(|record| record["call_id"] == *call).map(|record| &record["kind"]).collect();
    assert_eq!(kinds, ["refusal"], "a repair is no call on record");
    let repaired = agent.execute("write_file", &offered["arguments"]);
    assert_eq!(repaired["success"], true, "{repaired}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "hello");
}

#[test]
fn repair_reveals_nothing_about_forbidden_paths() {
    let daemon = Daemon::start();
    let outside = daemon.home().workspace().with_file_name("outside.txt");
    std::fs::write(&outside, "secret").unwrap();
    std::os::unix::fs::symlink(&outside, daemon.home().workspace().join("link")).unwrap();
    daemon.home().file(".env", "KEY=1");
    let mut agent = daemon.agent();
    let mut answer = |path: &str| {
        let result = agent.execute("read_file", &json!({"file_path": path}));
        let mut refusal = refusal(&result).clone();
        assert_eq!(refusal["code"], "invalid_arguments", "{result}");
        refusal.as_object_mut().unwrap().remove("trace_id");
        refusal
    };
    let there = answer(&outside.display().to_string());
    assert_eq!(there["repair"], Value::Null, "{there}");
    for path in
        ["../outside.txt", "../not-there.txt", "link", ".env", ".env.local", "/etc/shadow", "/etc/nothing"]
    {
        assert_eq!(answer(path), there, "{path} must look like any other");
    }
    assert!(answer("not-there.txt")["repair"].is_object(), "inside it may be asked for, there or not");
}

#[test]
fn map_is_a_file_and_a_broken_one_stops_the_start() {
    let home = Home::initialised();
    let file = home.root().join("config/governance/guardrails.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    home.configure(
        "governance/guardrails.yaml",
        &text.replace(
            "required: [path]\n    example: {path: README.md}",
            "required: [path]\n    min_length: {path: 5}\n    example: {path: README.md}",
        ),
    );
    home.file("a.md", "x");
    let reported = home.run(&["call", "read_file", "path=a.md"]).must_exit(3);
    assert!(reported.stderr().contains("at least 5 characters long"), "{reported}");
    for (broken, expect) in [
        ("tools: {read_file: {requird: [path]}}\n", "guardrails.yaml:1:21"),
        ("tools: {read_file: {required: [pth]}}\n", "did you mean `path`?"),
        ("tools: {raed_file: {required: [path]}}\n", "did you mean `read_file`?"),
        ("", "the file is empty"),
    ] {
        home.configure("governance/guardrails.yaml", broken);
        let reported = home.run(&["call", "read_file", "path=a.md"]).must_exit(7);
        assert!(reported.stderr().contains(expect), "{broken}: {reported}");
    }
    std::fs::remove_file(&file).unwrap();
    home.run(&["call", "read_file", "path=a.md"]).must_exit(0);
}

#[test]
fn empty_file_may_be_written() {
    let daemon = Daemon::start();
    let result = daemon.agent().execute("write_file", &json!({"path": "empty.txt", "content": ""}));
    assert_eq!(result["success"], true, "{result}");
    let lacking = daemon.agent().execute("write_file", &json!({"path": "empty.txt"}));
    assert!(lacking["error"].as_str().unwrap().contains("Missing required fields: content."), "{lacking}");
}

#[test]
fn schema_comes_before_policy_and_refusals_have_one_shape() {
    let daemon = Daemon::start();
    let mut agent = daemon.agent();
    let malformed = agent.execute("read_file", &json!({"path": "/etc/shadow", "more": 1}));
    let denied = agent.execute("read_file", &json!({"path": "/etc/shadow"}));
    let unknown = agent.execute("no_such_tool", &json!({}));
    assert_eq!(refusal(&malformed)["code"], "invalid_arguments", "schema before policy");
    assert!(refusal(&malformed)["schema_error"].is_string());
    for other in [&denied, &unknown] {
        assert!(refusal(other).get("schema_error").is_none(), "absent, not null: {other}");
    }
    for result in [&malformed, &denied, &unknown] {
        for key in ["refused", "tool", "code", "reason", "hint", "retryable", "trace_id"] {
            assert!(refusal(result).get(key).is_some(), "{key}: {result}");
        }
        assert_eq!((&result["success"], &result["output"]), (&json!(false), &json!({})));
        assert_eq!(result["error"], refusal(result)["reason"]);
    }
}

#[test]
fn after_a_malformed_call_only_the_good_one_runs() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "x");
    let mut agent = daemon.agent();
    agent.execute("read_file", &json!({"path": 7}));
    agent.execute("read_file", &json!({"path": "a.txt"}));
    let records = daemon.home().records();
    let ran: Vec<&Value> = records.iter().filter(|record| tests::holds(record, "decision")).collect();
    assert_eq!(ran.len(), 1, "{records:?}");
}

/// Returns a home whose curated map demands more of `write_file` than its schema does.
fn home_with_strict_map() -> Home {
    let home = Home::initialised();
    let map = "tools:\n  write_file:\n    required: [path]\n    min_length: {content: 11}\n";
    home.configure("governance/guardrails.yaml", map);
    home
}

#[test]
fn operator_may_skip_the_map_and_it_is_recorded() {
    let daemon = Daemon::start_in(home_with_strict_map());
    let (home, mut watching) = (daemon.home(), watch(&daemon));
    let words = ["call", "write_file", "path=a.txt", "content=short"];
    home.run(&words).must_exit(3);
    let forced: Vec<&str> = words.iter().copied().chain(["--skip-guardrail"]).collect();
    home.run(&forced).must_exit(0);
    assert_eq!(std::fs::read_to_string(home.workspace().join("a.txt")).unwrap(), "short");
    let event = loop {
        let reported = watching.receive().expect("an event");
        if reported["params"]["event"] == "guardrail_skipped" {
            break reported;
        }
    };
    assert_eq!(event["params"]["tool"], "write_file", "{event}");
    let records = home.records();
    let decision = records.iter().find(|record| tests::holds(record, "decision")).unwrap();
    assert_eq!(
        (&decision["facts"]["curated_map"], &decision["caller"]["endpoint"]),
        (&json!("skipped"), &json!("control")),
        "{decision}"
    );
    // The schema and the policy still apply.
    let reported = home.run(&["call", "write_file", "path=b.txt", "--skip-guardrail"]).must_exit(3);
    assert!(reported.stderr().contains("content"), "{reported}");
    let key = home.user_home().join(".ssh/id").display().to_string();
    let reported = home.run(&["call", "write_file", &format!("path={key}"), "content=x", "--skip-guardrail"]);
    assert!(reported.must_exit(3).stderr().contains("Permission denied"));
    let refused = home.records().into_iter().rfind(|record| record["kind"] == "refusal").unwrap();
    assert_eq!(refused["facts"]["curated_map"], "skipped", "{refused}");
}

#[test]
fn only_the_operator_may_skip_the_map() {
    let daemon = Daemon::start_in(home_with_strict_map());
    let mut agent = daemon.agent();
    let call = json!({"tool_name": "write_file", "arguments": {"path": "a.txt", "content": "short"}, "skip_guardrail": true});
    assert_eq!(agent.request("sinew/execute", &call)["error"]["data"]["field"], "skip_guardrail");
    assert_eq!(agent.request("control/execute", &call)["error"]["code"], -32601);
    let session = agent.request("sinew/session.open", &json!({"allowlist": ["write_file"], "hop_budget": 9}));
    let mut worker = Client::connect(session["result"]["socket"].as_str().unwrap().as_ref());
    assert_eq!(worker.request("sinew/execute", &call)["error"]["data"]["field"], "skip_guardrail");
    assert_eq!(worker.request("control/execute", &call)["error"]["code"], -32601);
    let inner = json!({"path": "a.txt", "content": "short", "skip_guardrail": true});
    assert_eq!(refusal(&agent.execute("write_file", &inner))["code"], "invalid_arguments");
    assert!(!daemon.home().workspace().join("a.txt").exists());
    let home = daemon.stop();
    let words = ["call", "write_file", "path=a.txt", "content=short", "--skip-guardrail"];
    home.run(&words).must_exit(6);
}

#[test]
fn map_does_not_apply_to_tools_of_other_servers() {
    let daemon = Daemon::start();
    let mut agent = daemon.agent();
    for arguments in [json!({"uri": "a"}), json!({})] {
        let result = agent.execute("mcp__other__read_file", &arguments);
        assert_eq!(refusal(&result)["code"], "unknown_tool", "{result}");
        assert!(refusal(&result)["hint"].as_str().unwrap().contains("read_file"), "{result}");
    }
    let old = agent.execute("mcp__other__write_local_file", &json!({"path": "a"}));
    assert_eq!(refusal(&old)["code"], "invalid_arguments", "a name of no tool here is any server's: {old}");
}

#[test]
fn schema_problem_names_the_value_and_the_allowed_ones() {
    let daemon = Daemon::start();
    let mut agent = daemon.agent();
    let level = agent.execute("read_system_logs", &json!({"level": "warn"}));
    let message = refusal(&level)["problems"][0]["message"].as_str().unwrap();
    assert_eq!(message, "`level`: `warn` is not one of critical, error, warning, info, debug", "{level}");
    let key = "AKIAIOSFODNN7EXAMPLQ";
    let secret = agent.execute("read_system_logs", &json!({"level": key}));
    assert!(!secret.to_string().contains(key), "{secret}");
    let listed = agent.request("sinew/tools", &json!({"format": "openai"}));
    let logs = listed["result"]["tools"].as_array().unwrap().iter();
    let logs = logs.map(|tool| &tool["function"]).find(|tool| tool["name"] == "read_system_logs").unwrap();
    let level = &logs["parameters"]["properties"]["level"]["anyOf"];
    assert_eq!((&level[0]["type"], &level[1]["type"]), (&json!("string"), &json!("null")), "{logs}");
}

#[test]
fn corrected_write_is_pointed_to_write_file() {
    let daemon = Daemon::start();
    let mut agent = daemon.agent();
    for (arguments, code) in [
        (json!({"file_path": "a.txt"}), "invalid_arguments"),
        (json!({"file_path": "a.txt", "content": "long enough to pass"}), "unknown_tool"),
    ] {
        let result = agent.execute("write", &arguments);
        assert_eq!(refusal(&result)["code"], code, "{result}");
        assert!(refusal(&result)["hint"].as_str().unwrap().contains("use write_file"), "{result}");
    }
    let pointed = agent.execute("write", &json!({"file_path": "a.txt", "content": "long enough to pass"}));
    let replacement = agent.execute("write_file", &refusal(&pointed)["example"]);
    assert_eq!(replacement["success"], true, "{pointed}");
}

#[test]
fn row_on_an_argument_with_a_default_applies() {
    let home = Home::initialised();
    let map = "tools:\n  git_log:\n    required: [max_count]\n    example: {path: ., max_count: 5}\n";
    home.configure("governance/guardrails.yaml", map);
    let reported = home.run(&["call", "git_log", "path=."]).must_exit(3);
    assert!(reported.stderr().contains("Missing required fields: max_count."), "{reported}");
}

#[test]
fn calls_in_the_form_of_other_agents_are_repaired() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "milk");
    let mut agent = daemon.agent();
    let absent = agent.execute("read_file", &json!({"path": "a.txt", "encoding": null, "head": null}));
    assert_eq!(absent["success"], true, "null means absent: {absent}");
    let flat = json!({"file_path": "a.txt", "old_string": "milk", "new_string": "bread"});
    let refused = agent.execute("edit_file", &flat);
    let repaired = agent.execute("edit_file", &refusal(&refused)["repair"]["arguments"]);
    assert_eq!(repaired["success"], true, "{refused}");
    assert_eq!(std::fs::read_to_string(daemon.home().workspace().join("a.txt")).unwrap(), "bread");
}

#[test]
fn major_version_that_a_tool_lacks_is_named() {
    let daemon = Daemon::start();
    let result = daemon.agent().execute("read_file@7", &json!({"path": "a"}));
    assert_eq!(refusal(&result)["detail"], "other_version", "{result}");
    assert!(refusal(&result)["hint"].as_str().unwrap().contains("only version 1"), "{result}");
}
