//! The ledger: calls are recorded, records stay, and tampering is detected.

mod control;
mod crashes;
mod erasure;
#[cfg(target_os = "linux")]
mod faults;
mod history;

use serde_json::{Value, json};
use tests::{Daemon, Home};

fn verify(home: &Home) -> Value {
    home.run(&["ledger", "verify", "--json"]).json()
}

fn home_with_records() -> Home {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "x");
    let mut agent = daemon.agent();
    for _ in 0..5 {
        agent.execute("read_file", &json!({"path": "a.txt"}));
    }
    agent.execute("write_file", &json!({"path": "b.txt", "content": "y"}));
    agent.execute("read_file", &json!({"path": "/etc/hostname"}));
    daemon.stop()
}

fn segment(home: &Home) -> std::path::PathBuf {
    let folder = std::fs::read_dir(home.root().join("state/ledger")).unwrap();
    let mut files = folder.map(|entry| entry.unwrap().path());
    files.find(|path| path.extension().is_some_and(|extension| extension == "ndjson")).unwrap()
}

#[test]
fn ledger_answers_every_kind_of_query() {
    let home = home_with_records();
    let lines = |words: &[&str]| home.run(words).must_exit(0).stdout().lines().count();
    assert_eq!(lines(&["ledger", "query", "--tool", "read_file", "--outcome", "done", "--json"]), 5);
    assert_eq!(lines(&["ledger", "query", "--kind", "refusal", "--json"]), 1);
    assert_eq!(
        lines(&["ledger", "query", "--tool", "read_file", "--since", "1h", "--limit", "3", "--json"]),
        3
    );
    assert_eq!(lines(&["ledger", "query", "--since", "0s", "--json"]), 0);
    assert_eq!(lines(&["ledger", "tail", "-n", "2", "--json"]), 2);
    let exported = home.run(&["ledger", "export"]).must_exit(0).stdout();
    assert_eq!(exported.lines().count(), home.records().len());
    let csv = home.run(&["ledger", "export", "--format", "csv", "--kind", "outcome"]).must_exit(0).stdout();
    assert_eq!(csv.lines().count(), 1 + 6, "{csv}");
    let file = home.workspace().join("out.ndjson").display().to_string();
    home.run(&["ledger", "export", "--output", &file]).must_exit(0);
    home.run(&["ledger", "export", "--output", &file]).must_exit(2);
    let wrong = home.run(&["ledger", "query", "--since", "tomorrow"]).must_exit(2);
    assert!(wrong.stderr().contains("10m"), "{wrong}");
    home.run(&["ledger", "show", "nonsense"]).must_exit(2);
}

#[test]
fn one_call_is_shown_with_the_time_of_its_stages() {
    let home = home_with_records();
    let call = home.records().into_iter().find(|record| tests::holds(record, "outcome")).unwrap();
    let id = call["call_id"].as_str().unwrap();
    let shown = home.run(&["ledger", "show", id, "--json"]).must_exit(0).stdout();
    assert_eq!(shown.lines().count(), 1, "decision and outcome in one record: {shown}");
    let tree = home.run(&["trace", id]).must_exit(0).stdout();
    for stage in ["read_file", "done", "check", "precheck", "open", "judge", "record_decision", "run", "█"]
    {
        assert!(tree.contains(stage), "{stage} is missing: {tree}");
    }
    let trace = call["trace"]["trace_id"].as_str().unwrap();
    assert_eq!(home.run(&["trace", trace]).must_exit(0).stdout(), tree, "by trace and by call");
    let absent = home.run(&["trace", "00000000000000000000000000000001"]).must_exit(1);
    assert!(absent.stderr().contains("metadata.trace_id"), "{absent}");
}

#[test]
fn every_change_to_the_ledger_is_found_with_its_position() {
    let home = home_with_records();
    assert_eq!(verify(&home)["intact"], true);
    let file = segment(&home);
    let good = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    let joined = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let mut swapped = lines.clone();
    swapped.swap(3, 4);
    let forged = lines[3].replace("read_file", "read_fime");
    let mut changed = lines.clone();
    changed[3] = &forged;
    let mut doubled = lines.clone();
    doubled.insert(4, lines[3]);
    let mut removed = lines.clone();
    removed.remove(3);
    let end = lines.len();
    for (what, text, line) in [
        ("swapped", joined(&swapped), Some(4)),
        ("changed", joined(&changed), Some(4)),
        ("doubled", joined(&doubled), Some(5)),
        ("removed", joined(&removed), Some(4)),
        ("half a line cut", good[..good.len() - 7].to_owned(), Some(end)),
        ("appended", format!("{good}{}\n", lines[3]), Some(end + 1)),
        ("a byte appended", format!("{good} "), Some(end + 1)),
        // No line is left to point at, only the count in the anchor.
        ("tail cut", joined(&lines[..end - 1]), None),
        ("emptied", String::new(), None),
    ] {
        let offset = line.map(|line| text.split_inclusive('\n').take(line - 1).map(str::len).sum::<usize>());
        std::fs::write(&file, text).unwrap();
        let report = verify(&home);
        assert_eq!(report["intact"], false, "{what}");
        let problem = &report["problems"][0];
        assert_eq!(
            (&problem["line"], &problem["offset"]),
            (&json!(line), &json!(offset)),
            "{what}: {report}"
        );
        let place = if line.is_some() { file.file_name().unwrap().to_str().unwrap() } else { "anchor" };
        assert_eq!(problem["file"], place, "{what}: {report}");
        assert!(problem["what"].is_string(), "{what}: {report}");
    }
    std::fs::write(&file, good).unwrap();
    assert_eq!(verify(&home)["intact"], true, "put back, it is whole again");
}

#[test]
fn risk_raised_by_the_policy_is_recorded_before_the_call() {
    let home = Home::initialised().without_automatic_modes();
    home.file("a.txt", "x");
    let rules = std::fs::read_to_string(home.root().join("config/governance/tools.yaml")).unwrap();
    let low = "Reads and changes nothing, risk_level: low";
    assert!(rules.contains(low));
    home.configure(
        "governance/tools.yaml",
        &rules.replace(low, "Reads and changes nothing, risk_level: high"),
    );
    let daemon = Daemon::start_in(home);
    let read = daemon.agent().execute("read_file", &json!({"path": "a.txt"}));
    assert_eq!(read["success"], true, "{read}");
    let id = &read["metadata"]["call_id"];
    let records = daemon.stop().records();
    let kinds: Vec<&Value> =
        records.iter().filter(|record| record["call_id"] == *id).map(|record| &record["kind"]).collect();
    assert_eq!(kinds, ["decision", "outcome"]);
    assert!(records.iter().any(|record| record["call_id"] == *id && record["risk"] == "high"), "{records:?}");
}

#[test]
fn two_commands_at_once_share_one_ledger() {
    let home = Home::initialised();
    home.file("a.txt", "x");
    std::thread::scope(|scope| {
        let home = &home;
        let runs: Vec<_> =
            (0..6).map(|_| scope.spawn(move || home.run(&["call", "read_file", "path=a.txt"]))).collect();
        for run in runs {
            run.join().expect("a run").must_exit(0);
        }
    });
    let seqs: Vec<u64> = home.records().iter().map(|record| record["seq"].as_u64().unwrap()).collect();
    assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seqs:?}");
    assert_eq!(verify(&home)["intact"], true);
}

#[test]
fn log_is_one_object_per_line_for_any_text() {
    let daemon = Daemon::start_in(Home::initialised().logging_all_calls());
    let mut agent = daemon.agent();
    for path in ["a\nb", "\u{1b}[2J", "\"},{\"event\":\"forged\"", "\u{2028}x"] {
        agent.execute("read_file", &json!({"path": path}));
    }
    let home = daemon.stop();
    let lines = home.run(&["logs", "--json"]).must_exit(0).stdout();
    let events: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("one object a line")).collect();
    assert!(!events.iter().any(|event| event["event"] == "forged"));
    let started = events.iter().filter(|event| event["event"] == "tool_call_started").count();
    assert_eq!(started, 4, "{lines}");
    let warnings = home.run(&["logs", "--level", "warn", "--json"]).must_exit(0).stdout();
    assert!(warnings.lines().all(|line| !line.contains("tool_call_started")), "{warnings}");
    assert!(!home.run(&["logs"]).must_exit(0).stdout().contains('\u{1b}'));
}

#[test]
fn removed_ledger_does_not_lift_a_lockdown() {
    let daemon = Daemon::start();
    daemon.control().request("control/mode.set", &json!({"mode": "LOCKDOWN", "reason": "test"}));
    let home = daemon.stop();
    std::fs::remove_dir_all(home.root().join("state/ledger")).unwrap();
    let daemon = Daemon::start_in(home);
    let refused = daemon.agent().execute("write_file", &json!({"path": "x", "content": "x"}));
    assert_eq!(refused["metadata"]["refusal"]["code"], "mode_denied", "{refused}");
    let daemon = Daemon::start_in(daemon.stop());
    let refused = daemon.agent().execute("write_file", &json!({"path": "x", "content": "x"}));
    assert_eq!(refused["metadata"]["mode"], "LOCKDOWN", "and stays so: {refused}");
}

#[test]
fn secrets_of_a_command_line_do_not_reach_the_ledger() {
    let home = Home::initialised().without_automatic_modes();
    home.configure(
        "governance/tools.yaml",
        "tools:\n  run_command: {allowed_in_modes: [NORMAL], allowed_commands: [echo, sh], forbidden_commands: [7z]}\n",
    );
    let daemon = Daemon::start_in(home);
    let mut agent = daemon.agent();
    for words in [
        json!(["echo", "--token=swordfish"]),
        json!(["echo", "--token", "swordfish"]),
        json!(["echo", "mysql", "-pswordfish"]),
        json!(["sh", "-c", "echo docker login -p swordfish"]),
        json!(["7z", "x", "-pswordfish", "a.7z"]),
        json!(["echo", "k3J9xQ2mZ7pL4vB8nR5t"]),
    ] {
        agent.execute("run_command", &json!({"command": words}));
    }
    let home = daemon.stop();
    let records: Vec<String> = home.records().iter().map(Value::to_string).collect();
    for secret in ["swordfish", "k3J9xQ2mZ7pL4vB8nR5t"] {
        assert!(records.iter().all(|record| !record.contains(secret)), "{records:#?}");
    }
    let decided: Vec<&String> = records.iter().filter(|record| record.contains("--token")).collect();
    assert_eq!(decided.len(), 2, "{records:#?}");
    assert!(decided.iter().all(|record| record.contains("arguments_digest")), "{decided:#?}");
}
