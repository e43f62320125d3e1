//! What happened is on record, stays there, and shows when it was touched.

#[cfg(target_os = "linux")]
mod faults;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Client, Daemon, Home};

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
fn a_ledger_is_read_in_every_way_it_can_be_asked() {
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
    let wrong = home.run(&["ledger", "query", "--since", "yesterday"]).must_exit(2);
    assert!(wrong.stderr().contains("10m"), "{wrong}");
    home.run(&["ledger", "show", "nonsense"]).must_exit(2);
}

#[test]
fn one_call_is_shown_with_the_time_of_its_stages() {
    let home = home_with_records();
    let call = home.records().into_iter().find(|record| record["kind"] == "outcome").unwrap();
    let id = call["call_id"].as_str().unwrap();
    let shown = home.run(&["ledger", "show", id, "--json"]).must_exit(0).stdout();
    assert_eq!(shown.lines().count(), 2, "the decision and the outcome: {shown}");
    let tree = home.run(&["trace", id]).must_exit(0).stdout();
    for stage in ["read_file", "done", "check", "judge", "open", "record", "run", "█"] {
        assert!(tree.contains(stage), "{stage} is missing: {tree}");
    }
    let trace = call["trace"]["trace_id"].as_str().unwrap();
    assert_eq!(home.run(&["trace", trace]).must_exit(0).stdout(), tree, "by trace and by call");
    let absent = home.run(&["trace", "00000000000000000000000000000001"]).must_exit(1);
    assert!(absent.stderr().contains("metadata.trace_id"), "{absent}");
}

#[test]
fn whatever_is_done_to_the_record_is_found_with_its_place() {
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
    for (what, text) in [
        ("swapped", joined(&swapped)),
        ("changed", joined(&changed)),
        ("doubled", joined(&doubled)),
        ("removed", joined(&removed)),
        ("tail cut", joined(&lines[..lines.len() - 1])),
        ("half a line cut", good[..good.len() - 7].to_owned()),
        ("appended", format!("{good}{}\n", lines[3])),
        ("emptied", String::new()),
    ] {
        std::fs::write(&file, text).unwrap();
        let report = verify(&home);
        assert_eq!(report["intact"], false, "{what}");
        let problem = &report["problems"][0];
        assert!(problem["what"].is_string() && problem["file"].is_string(), "{what}: {report}");
    }
    std::fs::write(&file, good).unwrap();
    assert_eq!(verify(&home)["intact"], true, "put back, it is whole again");
}

/// How many crashes: a few in the ordinary run, many in `cargo xtask soak`.
fn crashes() -> u32 {
    std::env::var("SINEW_SOAK_CRASHES").map_or(12, |count| count.parse().expect("a number"))
}

/// Sends calls until the daemon goes away; returns the ids of those it answered.
fn load(socket: &std::path::Path, name: &str, stop: &AtomicBool, progress: &AtomicUsize) -> Vec<String> {
    let mut answered = Vec::new();
    let Ok(stream) = std::os::unix::net::UnixStream::connect(socket) else { return answered };
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut client = Client::over(stream);
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (tool, arguments) = match round % 3 {
            0 => ("write_file", json!({"path": format!("{name}.txt"), "content": format!("{round}")})),
            1 => ("read_file", json!({"path": "seed.txt"})),
            _ => ("read_file", json!({"path": "/etc/hostname"})),
        };
        let Some(response) = client.try_execute(tool, &arguments) else { break };
        answered.push(response["result"]["metadata"]["call_id"].as_str().expect("a call id").to_owned());
        progress.fetch_add(1, Ordering::Relaxed);
    }
    answered
}

#[test]
fn soak_every_answer_has_its_record_however_often_the_daemon_is_killed() {
    let mut home = Home::initialised();
    home.file("seed.txt", "x");
    // After another number of answers each time, and so in another moment of the calls under way.
    let mut moment = 7;
    for _ in 0..crashes() {
        let daemon = Daemon::start_in(home);
        let (socket, stop) = (daemon.home().socket("agent.sock"), AtomicBool::new(false));
        let progress = AtomicUsize::new(0);
        moment = moment * 31 % 97;
        let answered: Vec<String> = std::thread::scope(|scope| {
            let worker = |n: u32| {
                let (socket, stop, progress) = (&socket, &stop, &progress);
                scope.spawn(move || load(socket, &format!("w{n}"), stop, progress))
            };
            let workers: Vec<_> = (0..4).map(worker).collect();
            let deadline = Instant::now() + Duration::from_secs(20);
            while progress.load(Ordering::Relaxed) < moment && Instant::now() < deadline {
                std::thread::sleep(Duration::from_micros(300));
            }
            daemon.signal(nix::sys::signal::Signal::SIGKILL);
            stop.store(true, Ordering::Relaxed);
            workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect()
        });
        home = daemon.crash();
        assert!(!answered.is_empty(), "nobody was answered before the crash");
        let records = home.records_so_far();
        let ended = |id: &str| {
            records.iter().any(|r| r["call_id"] == id && (r["kind"] == "outcome" || r["kind"] == "refusal"))
        };
        for id in &answered {
            assert!(ended(id), "an answer without its record: {id}");
        }
    }
    let started = Instant::now();
    let daemon = Daemon::start_in(home);
    let start_up = started.elapsed();
    let home = daemon.stop();
    let records = home.records();
    let count = |kind: &str| records.iter().filter(|record| record["kind"] == kind).count();
    assert_eq!(
        count("decision"),
        count("outcome"),
        "every intent has its end, `unknown` where nobody can say"
    );
    let report = verify(&home);
    assert_eq!(report["intact"], true, "{report}");
    assert!(start_up < Duration::from_secs(5), "start-up after the crashes took {start_up:?}");
    println!("{} crashes, {} records, start-up after them {start_up:?}", crashes(), records.len());
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
fn the_log_is_one_object_a_line_whatever_is_said() {
    let daemon = Daemon::start();
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
fn a_ledger_that_was_taken_away_does_not_lift_a_lockdown() {
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
