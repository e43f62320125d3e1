//! Rate limits from outside: one bucket per tool under all its names, hints, and counts that survive the
//! daemon.

use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};
use tests::{Daemon, Home};

fn home_with_rate(rate: u32) -> Home {
    let home = Home::initialised();
    home.file("a.txt", "x");
    let tools =
        format!("tools:\n  read_file:\n    allowed_in_modes: [NORMAL]\n    rate_limit_per_hour: {rate}\n");
    home.configure("governance/tools.yaml", &tools);
    home
}

fn refusal(result: &Value) -> &Value {
    &result["metadata"]["refusal"]
}

#[test]
fn all_names_and_callers_of_a_tool_share_one_bucket() {
    let daemon = Daemon::start_in(home_with_rate(4));
    let read = json!({"path": "a.txt"});
    for name in ["read_file", "READ_FILE", "Read_File", "read_file@1"] {
        let result = daemon.agent().execute(name, &read);
        assert_eq!(result["success"], true, "{name}: {result}");
    }
    let denied = daemon.agent().execute("read_file", &json!({"path": "/etc/shadow"}));
    assert_eq!(refusal(&denied)["code"], "rate_limited", "{denied}");
    for name in ["read_file", "READ_FILE", "read_file@1"] {
        let result = daemon.agent().execute(name, &read);
        assert_eq!(refusal(&result)["code"], "rate_limited", "{name}: {result}");
        assert_eq!(result["error"], "Permission denied: Rate limit exceeded");
        let after = refusal(&result)["retry_after_ms"].as_u64().expect("advice");
        assert!((3_000_000..=3_600_000).contains(&after), "{after}");
    }
    assert_eq!(
        daemon.agent().execute("list_directory", &json!({"path": "."}))["success"],
        true,
        "another tool"
    );

    let daemon = Daemon::start_in(daemon.crash());
    let result = daemon.agent().execute("read_file", &read);
    assert_eq!(refusal(&result)["code"], "rate_limited", "a restart refills nothing: {result}");
    assert!(refusal(&result)["retry_after_ms"].as_u64().is_some_and(|after| after <= 3_610_000), "{result}");
}

#[test]
fn refused_calls_are_not_counted_and_zero_means_none() {
    let daemon = Daemon::start_in(home_with_rate(1));
    let mut agent = daemon.agent();
    for _ in 0..5 {
        let refused = agent.execute("read_file", &json!({"path": "/etc/shadow"}));
        assert_ne!(refusal(&refused)["code"], "rate_limited", "{refused}");
    }
    let done = agent.execute("read_file", &json!({"path": "a.txt"}));
    assert_eq!(
        (&done["success"], &done["metadata"]["remaining"]["tool_per_hour"]),
        (&json!(true), &json!(0))
    );
    daemon.stop();
    let daemon = Daemon::start_in(home_with_rate(0));
    let never = daemon.agent().execute("read_file", &json!({"path": "a.txt"}));
    assert_eq!(
        (&refusal(&never)["code"], &refusal(&never)["retryable"]),
        (&json!("rate_limited"), &json!(false))
    );
    assert_eq!(refusal(&never)["retry_after_ms"], Value::Null, "waiting cannot help: {never}");
}

/// Concurrent calls on several endpoints never exceed the limit.
#[test]
fn concurrent_calls_get_exactly_the_limit() {
    let daemon = Daemon::start_in(home_with_rate(10));
    let read = json!({"tool_name": "read_file", "arguments": {"path": "a.txt"}});
    let ask = |id: usize| json!({"jsonrpc": "2.0", "id": id, "method": "sinew/execute", "params": read});
    let lines: String = (0..100).map(|id| format!("{}\n", ask(id))).collect();
    let done: usize = std::thread::scope(|scope| {
        let crowd = || {
            let mut agent = daemon.agent();
            let mut sender = agent.clone_stream();
            let lines = lines.as_bytes();
            let sending = scope.spawn(move || drop(sender.write_all(lines)));
            let mut done = 0;
            for _ in 0..100 {
                let result = agent.receive().expect("an answer")["result"].clone();
                done += usize::from(result["success"] == true);
                let code = &refusal(&result)["code"];
                assert!(result["success"] == true || code == "rate_limited", "{result}");
            }
            sending.join().expect("sent");
            done
        };
        let crowds: Vec<_> = (0..20).map(|_| scope.spawn(crowd)).collect();
        crowds.into_iter().map(|crowd| crowd.join().expect("a crowd")).sum()
    });
    assert_eq!(done, 10, "of 2,000");
    let ran = |record: &Value| tests::holds(record, "outcome") && record["outcome"] == "done";
    assert_eq!(daemon.stop().records().iter().filter(|record| ran(record)).count(), 10, "on record");
}

/// Restarting the daemon repeatedly does not refill the window.
#[test]
fn restarts_do_not_refill_the_window() {
    let mut daemon = Daemon::start_in(home_with_rate(2));
    let read = json!({"path": "a.txt"});
    let mut done = 0;
    for round in 0..6 {
        done += usize::from(daemon.agent().execute("read_file", &read)["success"] == true);
        daemon = Daemon::start_in(if round % 2 == 0 { daemon.crash() } else { daemon.stop() });
    }
    assert_eq!(done, 2);
}

/// Earlier calls are counted from the ledger. If the ledger was changed, the count is unknown, so the last
/// hour counts as full, and the mode allows no changes.
#[test]
fn changed_ledger_frees_no_budget() {
    let home = home_with_rate(4);
    let tools =
        "tools:\n  read_file:\n    allowed_in_modes: [NORMAL, LOCKDOWN]\n    rate_limit_per_hour: 4\n";
    home.configure("governance/tools.yaml", tools);
    let daemon = Daemon::start_in(home);
    let read = json!({"path": "a.txt"});
    for _ in 0..4 {
        assert_eq!(daemon.agent().execute("read_file", &read)["success"], true);
    }
    let home = daemon.stop();
    let segments = std::fs::read_dir(home.root().join("state/ledger")).expect("a folder");
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "ndjson");
    let segment = segments.map(|entry| entry.expect("an entry").path()).find(is_segment).expect("a segment");
    let text = std::fs::read_to_string(&segment).expect("readable");
    let without: String =
        text.lines().filter(|line| !line.contains("read_file")).map(|line| format!("{line}\n")).collect();
    assert_ne!(without, text);
    std::fs::write(&segment, without).expect("writable");

    let daemon = Daemon::start_in(home);
    let refused = daemon.agent().execute("read_file", &read);
    assert_eq!(refused["metadata"]["mode"], "LOCKDOWN", "{refused}");
    assert_eq!(refusal(&refused)["code"], "rate_limited", "{refused}");
    assert!(
        refusal(&refused)["hint"].as_str().is_some_and(|hint| hint.contains("records are missing")),
        "{refused}"
    );
    let after = refusal(&refused)["retry_after_ms"].as_u64().expect("advice");
    assert!((3_500_000..=3_600_000).contains(&after), "{after}");
    assert_eq!(
        daemon.agent().execute("list_directory", &json!({"path": "."}))["success"],
        true,
        "no limit, no doubt"
    );
}

/// A login shell permits 1024 descriptors, of which each connection takes some.
#[cfg(target_os = "linux")]
#[test]
fn daemon_raises_its_descriptor_limit() {
    let daemon = Daemon::start();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [soft, hard] = numbers.as_slice() else { panic!("{line}") };
    assert_eq!(*soft, (*hard).min(65_536), "{line}");
}

#[test]
fn setting_cut_by_the_descriptor_limit_is_reported() {
    let daemon = Daemon::start_with_descriptor_limit(Home::initialised(), 80);
    let home = daemon.home();
    // Half of the descriptors, without those of the control socket.
    let limits = home.run(&["status", "--json"]).json()["limits"].clone();
    assert_eq!((&limits["max_connections"], &limits["unreduced_max_connections"]), (&json!(24), &json!(256)));
    let line = "limits.max_connections is 256, but only 24 connections are accepted";
    for command in ["status", "doctor"] {
        let shown = home.run(&[command]).stdout();
        // The table may break the line.
        let words: Vec<&str> = shown.split_whitespace().filter(|word| *word != "│").collect();
        let shown = words.join(" ");
        assert!(shown.contains(line) && shown.contains("`ulimit -Hn`"), "{command}: {shown}");
    }
    let held: Vec<_> = (0..24).map(|_| daemon.agent()).collect();
    let busy = daemon.agent().receive().expect("an answer");
    assert_eq!(busy["error"]["data"]["max_connections"], 24, "{busy}");
    drop(held);
    let usual = Daemon::start();
    assert!(usual.home().run(&["status", "--json"]).json()["limits"]["unreduced_max_connections"].is_null());
}

#[test]
fn largest_permitted_write_fits_into_a_message() {
    let home = Home::initialised();
    let checked = home.run(&["check"]).must_exit(0).stdout();
    assert!(!checked.contains("max_line_bytes"), "the defaults agree: {checked}");
    let daemon = Daemon::start_in(home);
    let content = "x".repeat(10 << 20);
    let written = daemon.agent().execute("write_file", &json!({"path": "large.txt", "content": content}));
    assert_eq!(written["success"], true, "{}", written["error"]);
    let file = daemon.home().workspace().join("large.txt");
    assert_eq!(std::fs::metadata(file).expect("the file").len(), 10 << 20);
    let more = json!({"path": "larger.txt", "content": format!("{content}x")});
    let refused = daemon.agent().execute("write_file", &more);
    assert_eq!(refused["metadata"]["refusal"]["code"], "too_large", "{}", refused["error"]);
}

#[test]
fn file_limit_above_the_message_limit_is_a_warning() {
    let home = Home::initialised();
    let settings = std::fs::read_to_string(home.root().join("config/sinew.yaml")).expect("the settings");
    home.configure("sinew.yaml", &settings.replace("max_line_bytes: 16777216", "max_line_bytes: 4194304"));
    let line_of = |file: &str, key: &str| {
        let text = std::fs::read_to_string(home.root().join("config").join(file)).expect("a file");
        text.lines().position(|line| line.contains(key)).expect("the key") + 1
    };
    let limit = format!("sinew.yaml:{}", line_of("sinew.yaml", "max_line_bytes"));
    let size = format!("tools.yaml:{}", line_of("governance/tools.yaml", "max_file_size_mb: 10"));
    let checked = home.run(&["check"]).must_exit(0).stdout();
    let called = home.run(&["call", "list_directory", "path=."]).must_exit(0).stderr();
    for report in [checked, called] {
        assert!(report.contains(&limit) && report.contains(&size), "{limit}, {size}: {report}");
        assert!(report.contains("the largest permitted write cannot be sent"), "{report}");
    }
}
