//! Real calls through the whole pipeline: results, refusals, failures, and their ledger records.

use std::path::Path;

use serde_json::{Value, json};
use tests::{Daemon, Home};

fn code(result: &Value) -> &str {
    result["metadata"]["refusal"]["code"].as_str().unwrap_or("not refused")
}

fn kinds(home: &Home, call_id: &Value) -> Vec<String> {
    let records = home.records();
    let of_call = records.iter().filter(|record| record["call_id"] == *call_id);
    of_call.map(|record| record["kind"].as_str().expect("a kind").to_owned()).collect()
}

#[test]
fn file_is_read_listed_and_written() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "hello\n");
    let mut agent = daemon.agent();

    let read = agent.execute("read_file", &json!({"path": "a.txt"}));
    assert_eq!((&read["success"], &read["output"]["content"]), (&json!(true), &json!("hello\n")), "{read}");
    assert_eq!(kinds(daemon.home(), &read["metadata"]["call_id"]), ["call"]);

    let written = agent.execute("write_file", &json!({"path": "b.txt", "content": "new"}));
    assert_eq!(written["success"], true, "{written}");
    assert_eq!(std::fs::read_to_string(daemon.home().workspace().join("b.txt")).unwrap(), "new");
    let touched = daemon.home().workspace().join("b.txt");
    assert_eq!(written["metadata"]["files_touched"], json!([touched]));
    assert_eq!(kinds(daemon.home(), &written["metadata"]["call_id"]), ["decision", "outcome"]);

    let listed = agent.execute("list_directory", &json!({"path": "."}));
    let names: Vec<_> = listed["output"]["entries"].as_array().unwrap().iter().map(|e| &e["name"]).collect();
    assert_eq!(names, ["a.txt", "b.txt"]);
}

/// A call that is done, one that failed and one that was refused have the same members.
#[test]
fn every_result_has_the_same_members() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "x");
    let mut agent = daemon.agent();
    for (path, success) in [("a.txt", true), ("missing.txt", false), ("/etc/hostname", false)] {
        let result = agent.execute("READ_FILE", &json!({"path": path}));
        assert_eq!(
            (&result["tool_name"], &result["success"]),
            (&json!("read_file"), &json!(success)),
            "{result}"
        );
        assert_eq!(
            (result["error"].is_string(), result["output"] == json!({})),
            (!success, !success),
            "{path}"
        );
        assert!(result["output"].is_object() && result["metadata"].is_object(), "{result}");
        assert!(result["latency_ms"].as_f64().unwrap() > 0.0, "{result}");
    }
}

#[test]
fn metadata_reports_workspace_mode_and_ids() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "x");
    let result = daemon.agent().execute("read_file", &json!({"path": "a.txt"}));
    let metadata = &result["metadata"];
    assert_eq!(metadata["mode"], "NORMAL");
    assert_eq!(metadata["trace_id"].as_str().unwrap().len(), 32);
    assert_eq!(metadata["span_id"].as_str().unwrap().len(), 16);
    assert_eq!(metadata["sandbox"]["tier"], "none");
    assert_eq!(metadata["usage"]["read_bytes"], 1);
    assert!(metadata["usage"]["cpu_ms"].as_f64().unwrap() > 0.0, "{metadata}");
    assert!(metadata["definition_hash"].as_str().unwrap().len() == 64);
    assert!(metadata["policy_hash"].as_str().unwrap().len() == 64);
    assert!(result["latency_ms"].as_f64().unwrap() > 0.0);
    let left = |result: &Value| result["metadata"]["remaining"]["mode_per_minute"].as_u64().unwrap();
    let again = daemon.agent().execute("read_file", &json!({"path": "a.txt"}));
    assert_eq!(left(&again) + 1, left(&result), "each call uses one up");
}

#[test]
fn malformed_call_is_refused_and_its_repair_works() {
    let daemon = Daemon::start();
    let mut agent = daemon.agent();
    let refused = agent.execute("write_file", &json!({"path": "new.txt", "contnet": "hello"}));
    let refusal = &refused["metadata"]["refusal"];
    assert_eq!((code(&refused), &refusal["detail"]), ("invalid_arguments", &json!("missing_field")));
    assert!(
        refused["error"]
            .as_str()
            .unwrap()
            .starts_with("⚠️ Invalid write_file call. Missing required fields: content.")
    );
    assert_eq!(refused["output"], json!({}));
    assert!(refusal["problems"].to_string().contains("did you mean `content`"), "{refusal}");
    assert_eq!(
        kinds(daemon.home(), &refused["metadata"]["call_id"]),
        ["refusal"],
        "one record, and never started"
    );
    assert!(!daemon.home().workspace().join("new.txt").exists(), "no side effect");

    let fixed = agent.execute("write_file", &json!({"path": "new.txt", "content": "hello"}));
    assert_eq!(fixed["success"], true, "{fixed}");
}

#[test]
fn unknown_tool_is_not_found_and_the_nearest_is_named() {
    let daemon = Daemon::start();
    let result = daemon.agent().execute("raed_file", &json!({}));
    assert_eq!((code(&result), &result["error"]), ("unknown_tool", &json!("Tool raed_file not found")));
    assert!(result["metadata"]["refusal"]["hint"].as_str().unwrap().contains("read_file"), "{result}");
    assert_eq!(result["output"], json!({}));
}

#[test]
fn path_outside_is_refused_whether_it_exists_or_not() {
    let daemon = Daemon::start();
    let outside = daemon.home().workspace().with_file_name("secret.txt");
    std::fs::write(&outside, "secret").unwrap();
    let missing = outside.with_file_name("missing.txt");
    let mut agent = daemon.agent();
    let mut refuse = |path: &std::path::Path| {
        let result = agent.execute("read_file", &json!({"path": path}));
        assert_eq!(code(&result), "path_not_allowed", "{result}");
        let mut refusal = result["metadata"]["refusal"].clone();
        let text = refusal.to_string().replace(&path.display().to_string(), "PATH");
        refusal = serde_json::from_str(&text).unwrap();
        refusal.as_object_mut().unwrap().remove("trace_id");
        refusal
    };
    assert_eq!(refuse(&outside), refuse(&missing), "existence must not show");
    refuse(&daemon.home().workspace().join("../secret.txt"));
    std::os::unix::fs::symlink(&outside, daemon.home().workspace().join("link")).unwrap();
    let result = daemon.agent().execute("read_file", &json!({"path": "link"}));
    assert_eq!(code(&result), "path_not_allowed", "{result}");
    let sibling = daemon.home().workspace().with_file_name("work-evil");
    std::fs::create_dir(&sibling).unwrap();
    std::fs::write(sibling.join("x"), "x").unwrap();
    assert_eq!(
        code(&daemon.agent().execute("read_file", &json!({"path": sibling.join("x")}))),
        "path_not_allowed"
    );
}

#[test]
fn control_plane_files_are_refused_in_any_workspace() {
    let home = Home::initialised();
    let root = home.root().display().to_string();
    let refused = home.run(&["workspace", "add", &root]).must_exit(2);
    assert!(refused.stderr().contains("cannot be a workspace"), "{refused}");
    home.run(&["workspace", "add", &root, "--read-only"]).must_exit(0);
    let daemon = Daemon::start_in(home);
    let mut agent = daemon.agent();
    for name in [
        "config/governance/tools.yaml",
        "config/new.yaml",
        "state/ledger/x",
        "run/agent.sock",
        "tools/x.yaml",
    ] {
        let path = daemon.home().root().join(name);
        let read = agent.execute("read_file", &json!({"path": path}));
        assert_eq!(code(&read), "control_plane", "reading {name}: {read}");
        let write = agent.execute("write_file", &json!({"path": path, "content": "x"}));
        assert_eq!(code(&write), "control_plane", "writing {name}: {write}");
    }
}

#[test]
fn protected_names_cannot_be_written_even_if_missing() {
    let daemon = Daemon::start();
    let git = daemon.home().workspace().join(".git/hooks");
    std::fs::create_dir_all(git).unwrap();
    let mut agent = daemon.agent();
    for name in [".git/hooks/pre-commit", ".git/config", ".bashrc", ".mcp.json"] {
        let result = agent.execute("write_file", &json!({"path": name, "content": "x"}));
        assert_eq!(code(&result), "path_forbidden", "{name}: {result}");
        assert!(!daemon.home().workspace().join(name).exists(), "{name}");
    }
}

#[test]
fn refusal_names_the_rule_by_file_and_line() {
    let daemon = Daemon::start();
    let result = daemon.agent().execute("read_file", &json!({"path": ".env"}));
    assert_eq!(code(&result), "path_forbidden", "{result}");
    let rule = &result["metadata"]["refusal"]["rule"];
    let file = rule["file"].as_str().unwrap();
    assert!(file.ends_with("governance/tools.yaml"), "{rule}");
    let text = std::fs::read_to_string(daemon.home().root().join("config/governance/tools.yaml")).unwrap();
    let line = text.lines().nth(rule["line"].as_u64().unwrap() as usize - 1).unwrap();
    assert!(line.contains(".env"), "line {} is {line:?}", rule["line"]);
}

/// An agent does not need the location of the configuration. The operator and the ledger get the whole name.
#[test]
fn agents_are_not_told_where_the_policy_is() {
    let daemon = Daemon::start();
    let root = daemon.home().root().display().to_string();
    let mut agent = daemon.agent();
    for (tool, arguments) in [
        ("read_file", json!({"path": ".env"})),
        ("read_file", json!({"path": "/etc/shadow"})),
        ("write_file", json!({"path": "/usr/x", "content": "x"})),
        ("run_command", json!({"command": ["rm", "-rf", "/"]})),
        ("fetch_url", json!({"url": "http://10.0.0.1/"})),
    ] {
        let call = json!({"tool_name": tool, "arguments": arguments});
        let (refused, explained) = (agent.execute(tool, &arguments), agent.request("sinew/explain", &call));
        assert_eq!(refused["metadata"]["refusal"]["refused"], true, "{refused}");
        for text in [refused.to_string(), explained.to_string()] {
            assert!(!text.contains(&root), "{root} in {text}");
        }
    }
    let explained = daemon.home().run(&["explain", "read_file", "path=.env", "--json"]).stdout();
    assert!(explained.contains(&root), "{explained}");
    let records = daemon.stop().records();
    let refusal = records.iter().find(|record| record["kind"] == "refusal").expect("a record");
    assert!(refusal["rule"]["file"].as_str().is_some_and(|file| file.starts_with(&root)), "{refusal}");
}

#[test]
fn read_failures_have_distinct_kinds() {
    let daemon = Daemon::start();
    let work = daemon.home().workspace();
    std::fs::create_dir(work.join("dir")).unwrap();
    std::fs::File::create(work.join("huge")).unwrap().set_len(1 << 40).unwrap();
    let closed = daemon.home().file("closed", "x");
    std::fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    nix::unistd::mkfifo(&work.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut agent = daemon.agent();
    let mut kind = |path: &str| {
        let result = agent.execute("read_file", &json!({"path": path}));
        assert_eq!(result["success"], false, "{result}");
        let failure = &result["metadata"]["failure"];
        failure["kind"].as_str().unwrap_or_else(|| code(&result)).to_owned()
    };
    assert_eq!(kind("missing"), "not_found");
    assert_eq!(kind("dir"), "wrong_kind");
    assert_eq!(kind("huge"), "too_large");
    assert_eq!(kind("closed"), "unreadable");
    assert_eq!(kind("pipe"), "wrong_kind");
}

#[test]
fn failed_call_reports_fault_and_retryability() {
    let daemon = Daemon::start();
    let result = daemon.agent().execute("read_file", &json!({"path": "missing"}));
    let failure = &result["metadata"]["failure"];
    assert_eq!((&failure["fault"], &failure["retryable"]), (&json!("caller"), &json!(false)), "{result}");
    assert_eq!(kinds(daemon.home(), &result["metadata"]["call_id"]), ["call"]);
}

#[test]
fn restart_does_not_leave_lockdown() {
    let daemon = Daemon::start();
    let response =
        daemon.control().request("control/mode.set", &json!({"mode": "LOCKDOWN", "reason": "test"}));
    assert!(response["result"].is_object(), "{response}");
    let result = daemon.agent().execute("write_file", &json!({"path": "x", "content": "x"}));
    assert_eq!(code(&result), "mode_denied");
    assert_eq!(result["error"], "Permission denied: Tool not allowed in LOCKDOWN mode");

    let daemon = Daemon::start_in(daemon.crash());
    let result = daemon.agent().execute("write_file", &json!({"path": "x", "content": "x"}));
    assert_eq!(code(&result), "mode_denied", "a crash must not leave LOCKDOWN: {result}");
    assert!(!daemon.home().workspace().join("x").exists());
}

#[test]
fn lost_update_is_refused_and_the_file_is_unchanged() {
    let daemon = Daemon::start();
    let path = daemon.home().file("a.txt", "one");
    let mut agent = daemon.agent();
    let seen = agent.execute("read_file", &json!({"path": "a.txt"}))["output"]["sha256"].clone();
    std::fs::write(&path, "two").unwrap();
    let result =
        agent.execute("write_file", &json!({"path": "a.txt", "content": "three", "expected_sha256": seen}));
    assert_eq!(result["success"], false, "{result}");
    assert_eq!(result["metadata"]["failure"]["kind"], "conflict");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
}

#[test]
fn trace_context_is_adopted() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "x");
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let params = json!({"tool_name": "read_file", "arguments": {"path": "a.txt"}, "trace_ctx": {"traceparent": traceparent}});
    let response = daemon.agent().request("sinew/execute", &params);
    assert_eq!(response["result"]["metadata"]["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736", "{response}");
}

#[test]
fn long_file_is_read_in_parts_that_make_the_whole() {
    let daemon = Daemon::start();
    let content: String = (0..300_000).map(|n| if n % 7 == 0 { "é\n" } else { "ab\"" }).collect();
    daemon.home().file("long.txt", &content);
    let mut agent = daemon.agent();
    let (mut read, mut parts) = (String::new(), 0);
    loop {
        let result = agent.execute("read_file", &json!({"path": "long.txt", "offset": read.len()}));
        assert_eq!(result["success"], true, "{}", result["error"]);
        read.push_str(result["output"]["content"].as_str().unwrap());
        parts += 1;
        let cut = &result["metadata"]["truncated"];
        if cut.is_null() {
            break;
        }
        assert_eq!(cut["total"], content.len(), "{cut}");
        assert!(
            cut["how_to_continue"].as_str().unwrap().contains(&format!("offset={}", read.len())),
            "{cut}"
        );
    }
    assert!(parts > 1 && read == content, "{parts} parts, {} of {} bytes", read.len(), content.len());
}

/// JSON Schema accepts `1.0` as an integer, so the tool accepts it as well.
#[test]
fn whole_number_is_accepted_in_any_notation() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "one\ntwo\n");
    let mut agent = daemon.agent();
    let read = agent.execute("read_file", &json!({"path": "a.txt", "head": 1.0}));
    assert_eq!(read["output"]["content"], "one\n", "{read}");
    let half = agent.execute("read_file", &json!({"path": "a.txt", "head": 1.5}));
    assert_eq!(code(&half), "invalid_arguments", "{half}");
}

#[test]
fn forbidden_entries_are_not_listed() {
    let daemon = Daemon::start();
    daemon.home().file("seen.txt", "x");
    daemon.home().file(".env", "SECRET=1");
    let listed = daemon.agent().execute("list_directory", &json!({"path": "."}));
    let names: Vec<&Value> =
        listed["output"]["entries"].as_array().unwrap().iter().map(|e| &e["name"]).collect();
    assert_eq!(names, ["seen.txt"], "{listed}");
    assert_eq!(listed["output"]["total"], 1, "a count would tell that something is hidden");
}

/// A wildcard pattern matches folders too. A forbidden folder includes its content, for tools and for the
/// programs they start.
#[test]
fn content_of_a_folder_with_a_forbidden_name_is_forbidden() {
    let daemon = Daemon::start();
    let folders = [".env.d", "keys/id_rsa", "keys/id_rsa/deep"];
    for folder in folders {
        std::fs::create_dir_all(daemon.home().workspace().join(folder)).unwrap();
        daemon.home().file(&format!("{folder}/token"), "CANARY\n");
    }
    daemon.home().file("keys/seen.txt", "CANARY\n");
    let mut agent = daemon.agent();
    for folder in folders {
        let token = format!("{folder}/token");
        let read = agent.execute("read_file", &json!({"path": token}));
        assert_eq!(code(&read), "path_forbidden", "{token}: {read}");
        assert_eq!(read["metadata"]["refusal"]["detail"], "forbidden_path", "{read}");
        let listed = agent.execute("list_directory", &json!({"path": folder}));
        assert_eq!(code(&listed), "path_forbidden", "{listed}");
        let shown = agent.execute("run_command", &json!({"command": ["cat", token]}));
        assert!(!shown["output"]["stdout"].to_string().contains("CANARY"), "{shown}");
    }
    let write = agent.execute("write_file", &json!({"path": "keys/id_rsa/new", "content": "x"}));
    assert_eq!(code(&write), "path_forbidden", "{write}");
    let found = agent.execute("search_files", &json!({"query": "CANARY"}));
    let found = found["output"].to_string();
    assert!(found.contains("seen.txt") && !found.contains("token"), "{found}");
}

#[test]
fn path_through_a_folder_does_not_reveal_its_existence() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "x");
    let outside = daemon.home().workspace().with_file_name("private");
    std::fs::create_dir(&outside).unwrap();
    std::fs::create_dir(daemon.home().workspace().join("sub")).unwrap();
    let mut agent = daemon.agent();
    let mut ask = |through: &str| {
        let work = daemon.home().workspace();
        let back = Path::new("..").join(work.file_name().unwrap()).join("a.txt");
        let path = work.with_file_name(through).join(back).display().to_string();
        let result = agent.execute("read_file", &json!({"path": path}));
        (code(&result).to_owned(), result["metadata"]["refusal"]["detail"].clone())
    };
    assert_eq!(ask("private"), ask("missing"));
    assert_eq!(ask("private").0, "path_not_allowed");
    let inside = daemon.agent().execute("read_file", &json!({"path": "sub/../a.txt"}));
    assert_eq!(inside["success"], true, "within the workspace `..` is fine: {inside}");
}

/// Neither the message nor the response time of a denial reveals if a file exists.
#[test]
fn response_time_does_not_reveal_existence() {
    let daemon = Daemon::start();
    let mut agent = daemon.agent();
    let mut ask = |path: &str| {
        let asked = std::time::Instant::now();
        let refused = agent.execute("read_file", &json!({"path": path}));
        let took = asked.elapsed();
        let refusal = &refused["metadata"]["refusal"];
        assert_eq!(refusal["code"], "path_not_allowed", "{refused}");
        (took, refused["error"].as_str().expect("a reason").replace(path, "…"))
    };
    const PAIRS: usize = 400;
    let (there, absent) = ("/etc/passwd", "/etc/passwe");
    let mut later = 0;
    for pair in 0..PAIRS {
        // The order alternates, so that being second does not favour one of the paths.
        let (first, second) = if pair % 2 == 0 { (there, absent) } else { (absent, there) };
        let (first, second) = (ask(first), ask(second));
        assert_eq!(first.1, second.1);
        let (there, absent) = if pair % 2 == 0 { (first.0, second.0) } else { (second.0, first.0) };
        later += usize::from(absent > there);
    }
    // The tolerance is five standard deviations of a fair coin over `PAIRS` throws.
    let spread = PAIRS.isqrt() / 2;
    assert!(later.abs_diff(PAIRS / 2) <= 5 * spread, "absent was later {later} of {PAIRS} times");
}

/// A mount inside a workspace belongs to it and is judged by its path there. Its path outside stays refused.
#[cfg(target_os = "linux")]
#[test]
fn mount_in_a_workspace_is_judged_by_its_path_there() {
    let Some(home) = Home::with_mounts() else {
        tests::left_out("only root can mount");
        return;
    };
    for name in ["volume/a.txt", "volume/.env"] {
        home.file(name, "x");
    }
    let outside = home.workspace().with_file_name("outside/there.txt");
    let daemon = Daemon::start_in(home);
    let mut agent = daemon.agent();
    let mut code = |tool: &str, arguments: Value| {
        let result = agent.execute(tool, &arguments);
        let code = result["metadata"]["refusal"]["code"].as_str();
        code.map_or_else(|| result["success"].to_string(), str::to_owned)
    };
    for (path, expect) in [
        ("volume/a.txt", "true"),
        ("volume/.env", "path_forbidden"),
        ("bound/there.txt", "true"),
        ("volume/../../outside/there.txt", "path_not_allowed"),
        ("bound/../../outside/there.txt", "path_not_allowed"),
    ] {
        assert_eq!(code("read_file", json!({"path": path})), expect, "{path}");
    }
    assert_eq!(code("read_file", json!({"path": outside})), "path_not_allowed");
    for path in ["volume/.git/config", "bound/.git/hooks/pre-commit"] {
        assert_eq!(code("write_file", json!({"path": path, "content": "x"})), "path_forbidden", "{path}");
    }
}
