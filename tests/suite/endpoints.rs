//! Every endpoint gives the same result: output, verdict and ledger records.

mod clients;
mod comparison;
mod equivalence;
mod explanation;
mod table;

use serde_json::{Value, json};
use tests::{Daemon, Home};

/// Returns the parts of a result that must not depend on the endpoint or the time: everything but ids and
/// times.
fn stable_result(mut result: Value) -> Value {
    result.as_object_mut().unwrap().remove("latency_ms");
    let metadata = result["metadata"].as_object_mut().unwrap();
    for key in ["call_id", "trace_id", "span_id", "remaining"] {
        metadata.remove(key);
    }
    if let Some(usage) = metadata.get_mut("usage").and_then(Value::as_object_mut) {
        usage.remove("cpu_ms"); // byte counts must agree, CPU time varies
    }
    if let Some(refusal) = metadata.get_mut("refusal") {
        refusal.as_object_mut().unwrap().remove("trace_id");
    }
    result.as_object_mut().unwrap().remove("schema_version");
    result
}

/// Returns the records of the newest call, without the fields that differ between calls.
fn last_records(home: &Home) -> Vec<Value> {
    let mut records = home.records();
    let call_id = records.iter().rev().find_map(|record| record.get("call_id").cloned()).unwrap();
    records.retain(|record| record.get("call_id") == Some(&call_id));
    let changing = [
        "seq",
        "time",
        "prev",
        "hash",
        "call_id",
        "trace_id",
        "span_id",
        "trace",
        "caller",
        "latency_us",
        "stages",
    ];
    for record in &mut records {
        for key in changing {
            record.as_object_mut().unwrap().remove(key);
        }
        if let Some(usage) = record.get_mut("usage").and_then(Value::as_object_mut) {
            usage.remove("cpu_ms");
        }
        if let Some(facts) = record.get_mut("facts").and_then(Value::as_object_mut) {
            facts.remove("counts"); // counts of earlier calls do not belong to this call
            facts.remove("stages");
        }
        if let Some(run) = record.get_mut("run").and_then(Value::as_object_mut) {
            run.remove("stages");
        }
    }
    records
}

fn cases() -> Vec<(&'static str, Value, i32)> {
    vec![
        ("read_file", json!({"path": "README.md"}), 0),
        ("list_directory", json!({"path": "."}), 0),
        ("read_file", json!({"path": "missing.md"}), 1),
        ("read_file", json!({"path": "/etc/hostname"}), 3),
        ("read_file", json!({}), 3),
        ("read_flie", json!({"path": "x"}), 3),
        ("write_file", json!({"path": "new.txt", "content": "x"}), 0),
    ]
}

#[test]
fn result_is_the_same_with_and_without_a_daemon() {
    let home = Home::initialised();
    home.file("README.md", "# Hello\n");
    let mut embedded = Vec::new();
    for (tool, arguments, exit) in cases() {
        let run = home.run(&["call", tool, "--json", &arguments.to_string()]).must_exit(exit);
        assert!(run.stderr().contains("no daemon"), "it says that it ran alone: {run}");
        embedded.push((stable_result(home.with_short_names(&run.json())), last_records(&home)));
    }
    std::fs::remove_file(home.workspace().join("new.txt")).unwrap();

    let daemon = Daemon::start_in(home);
    for ((tool, arguments, exit), (result, records)) in cases().into_iter().zip(embedded) {
        let run = daemon.home().run(&["call", tool, "--json", &arguments.to_string()]).must_exit(exit);
        assert!(!run.stderr().contains("no daemon"), "{run}");
        assert_eq!(stable_result(run.json()), result, "{tool} {arguments}");
        assert_eq!(last_records(daemon.home()), records, "{tool} {arguments}");
    }
}

#[test]
fn human_output_is_the_same_with_and_without_a_daemon() {
    let home = Home::initialised();
    home.file("README.md", "# Hello\n");
    let alone = home.run(&["call", "read_file", "path=README.md"]).must_exit(0).stdout();
    assert_eq!(alone, "# Hello\n");
    let daemon = Daemon::start_in(home);
    assert_eq!(daemon.home().run(&["call", "read_file", "path=README.md"]).must_exit(0).stdout(), alone);
}

/// The only intended difference between the endpoints (docs/decisions/0005). A command on the terminal sees
/// its own working directory; the working directory that a client of the daemon reports proves nothing.
#[test]
fn fresh_home_opens_the_working_directory_without_daemon_only() {
    let home = Home::new();
    let file = home.file("README.md", "# Hello\n").display().to_string();
    let read = |home: &Home, path: &str| {
        home.run(&["call", "read_file", "--json", &json!({"path": path}).to_string()])
    };
    assert_eq!(read(&home, "README.md").must_exit(0).json()["output"]["content"], "# Hello\n");
    let daemon = Daemon::start_in(home);
    for path in ["README.md", &file] {
        let refused = read(daemon.home(), path).must_exit(3).json();
        let refusal = &refused["metadata"]["refusal"];
        assert_eq!(refusal["code"], "path_not_allowed", "{refused}");
        assert!(refusal["hint"].as_str().unwrap().contains("sinew workspace add"), "{refused}");
    }
    let home = daemon.stop();
    home.run(&["workspace", "add", "."]).must_exit(0);
    let daemon = Daemon::start_in(home);
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert_eq!(read(daemon.home(), "README.md").must_exit(0).json()["output"]["content"], "# Hello\n");
}

#[test]
fn caller_folder_selects_and_never_widens() {
    let daemon = Daemon::start();
    let outside = daemon.home().workspace().with_file_name("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("x.txt"), "x").unwrap();
    let run = daemon.home().run_in(&outside, &["call", "read_file", "path=x.txt", "--json"]).must_exit(3);
    assert_eq!(run.json()["metadata"]["refusal"]["code"], "path_not_allowed", "{run}");
    let below = daemon.home().workspace().join("below");
    std::fs::create_dir(&below).unwrap();
    std::fs::write(below.join("y.txt"), "y").unwrap();
    let run = daemon.home().run_in(&below, &["call", "read_file", "path=y.txt"]).must_exit(0);
    assert_eq!(run.stdout(), "y");
}
