//! Cached results: opt-in for each tool, judged and recorded like every call, and never older than the files
//! they come from.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use tests::{Bridge, Client, Daemon, Home};

/// Home whose `read_file` has these lines.
fn home(lines: &str) -> Home {
    let home = Home::initialised();
    let tools = format!(
        "tools:\n  read_file:\n    allowed_in_modes: [NORMAL]\n{lines}  write_file:\n    allowed_in_modes: [NORMAL]\n  \
         list_directory:\n    allowed_in_modes: [NORMAL]\n    cache_seconds: 60\n"
    );
    home.configure("governance/tools.yaml", &tools);
    home
}

/// Waits until a file is old enough to be cached: two changes in one tick of the clock look alike.
fn settle(file: &Path) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let is_settled = || {
        let changed = std::fs::metadata(file).and_then(|facts| facts.modified()).expect("a time");
        SystemTime::now().duration_since(changed).is_ok_and(|age| age > Duration::from_millis(2100))
    };
    while !is_settled() {
        assert!(Instant::now() < deadline, "the clock stands still");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn read(agent: &mut Client, path: &str) -> Value {
    agent.execute("read_file", &json!({"path": path}))
}

fn cached(result: &Value) -> bool {
    assert_eq!(result["success"], true, "{result}");
    result["metadata"]["cached"] == true
}

#[test]
fn cached_result_is_recorded_and_ends_with_a_change() {
    let home = home("    cache_seconds: 60\n");
    let file = home.file("a.txt", "first");
    settle(&file);
    let daemon = Daemon::start_in(home);
    let mut agent = daemon.agent();
    let first = read(&mut agent, "a.txt");
    let second = read(&mut agent, "a.txt");
    assert_eq!((cached(&first), cached(&second)), (false, true));
    assert_eq!(first["output"], second["output"]);
    assert!(!cached(&agent.execute("read_file", &json!({"path": "a.txt", "head": 3}))), "other arguments");
    std::fs::write(&file, "other").expect("a change of the same length");
    let changed = read(&mut agent, "a.txt");
    assert!(!cached(&changed) && changed.to_string().contains("other"), "{changed}");
    assert!(!cached(&read(&mut agent, "a.txt")), "a file that has just been changed is read again");
    assert!(!cached(&agent.execute("list_directory", &json!({"path": "."}))));
    assert!(!cached(&agent.execute("list_directory", &json!({"path": "."}))), "a directory is listed again");
    let (first_id, second_id) = (&first["metadata"]["call_id"], &second["metadata"]["call_id"]);
    let records = daemon.stop().records();
    let of = |kind: &str| {
        records.iter().find(|record| tests::holds(record, kind) && record["call_id"] == *second_id).cloned()
    };
    let decision = of("decision").expect("the decision of the cached call");
    assert!(!decision["rules"].as_array().expect("rules").is_empty(), "{decision}");
    let outcome = of("outcome").expect("its outcome");
    assert_eq!(
        (&outcome["outcome"], &outcome["run"]["cached_from"]),
        (&json!("done"), first_id),
        "{outcome}"
    );
}

#[test]
fn cached_result_does_not_escape_the_policy() {
    let home = home("    cache_seconds: 60\n    rate_limit_per_hour: 3\n");
    let file = home.file("a.txt", "first");
    settle(&file);
    let daemon = Daemon::start_in(home);
    let mut agent = daemon.agent();
    assert_eq!([cached(&read(&mut agent, "a.txt")), cached(&read(&mut agent, "a.txt"))], [false, true]);
    daemon.home().run(&["lockdown"]).must_exit(0);
    let refused = read(&mut agent, "a.txt");
    assert_eq!(refused["metadata"]["refusal"]["code"], "mode_denied", "{refused}");
    for mode in ["RECOVERY", "NORMAL"] {
        daemon.home().run(&["mode", "set", mode]).must_exit(0);
    }
    assert!(cached(&read(&mut agent, "a.txt")));
    let refused = read(&mut agent, "a.txt");
    assert_eq!(refused["metadata"]["refusal"]["code"], "rate_limited", "a cached result counts: {refused}");
}

#[test]
fn callers_share_results_only_if_the_scope_is_all() {
    for (scope, expect) in [("caller", false), ("all", true)] {
        let home = home(&format!("    cache_seconds: 60\n    cache_scope: {scope}\n"));
        let file = home.file("a.txt", "first");
        settle(&file);
        let daemon = Daemon::start_in(home);
        let call = |client: &str| {
            let mut agent = daemon.agent();
            let info = json!({"name": client, "version": "1"});
            let hello = json!({"protocolVersion": "2025-06-18", "clientInfo": info, "capabilities": {}});
            assert!(agent.request("initialize", &hello)["result"].is_object());
            cached(&read(&mut agent, "a.txt"))
        };
        assert_eq!([call("ada"), call("ada"), call("bob")], [false, true, expect], "{scope}");
    }
}

#[test]
fn process_with_a_copied_name_gets_no_cached_result() {
    let home = home("    cache_seconds: 60\n    cache_scope: caller\n");
    let file = home.file("a.txt", "first");
    settle(&file);
    let daemon = Daemon::start_in(home);
    let start = || {
        let mut bridge = Bridge::start(daemon.home(), &[]);
        bridge.handshake();
        bridge
    };
    let read = |bridge: &mut Bridge| {
        let params = json!({"tool_name": "read_file", "arguments": {"path": "a.txt"}});
        cached(&bridge.request("sinew/execute", &params)["result"])
    };
    let (mut first, mut copy) = (start(), start());
    assert_eq!(
        [read(&mut first), read(&mut first), read(&mut copy), read(&mut copy)],
        [false, true, false, true]
    );
}

#[test]
fn only_read_only_tools_with_known_files_are_cached() {
    for (tool, reason) in [
        ("write_file", "is not read-only"),
        ("run_command", "is not read-only"),
        ("run_linter", "does not know which files it reads"),
        ("git_status", "does not know which files it reads"),
        ("read_output", "may depend on the caller"),
    ] {
        let home = Home::initialised();
        let rule = format!("tools:\n  {tool}:\n    cache_seconds: 5\n    cache_scope: all\n");
        home.configure("governance/tools.yaml", &rule);
        let checked = home.run(&["check"]).must_exit(7);
        let report = checked.stdout();
        assert!(report.contains(reason) && report.contains("tools.yaml:3"), "{tool}: {report}");
    }
}
