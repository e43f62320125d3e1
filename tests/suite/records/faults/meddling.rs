//! Interference by another process with the open segment, and a slow disk.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Client, Daemon, Home};

use super::segments;
use crate::records::verify;
use tests::Strace;

fn write(agent: &mut Client, content: &str) -> Value {
    agent.execute("write_file", &json!({"path": "b.txt", "content": content}))
}

/// Records that can still be read where some were cut off.
fn legible(home: &Home) -> Vec<Value> {
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let text: String = segments(&home.root().join("state/ledger")).into_iter().map(read).collect();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Checks that a change to the open segment is noticed before the next call runs. The ledger then continues
/// in a new segment with a recorded reason, and `verify` reports the missing records.
fn check_noticed(meddle: impl Fn(&Path), message: &str) -> (Home, u64) {
    let daemon = Daemon::start_in(Home::initialised().without_automatic_modes());
    let mut agent = daemon.agent();
    assert_eq!(write(&mut agent, "before")["success"], true);
    let folder = daemon.home().root().join("state/ledger");
    meddle(&segments(&folder).remove(0));
    let refused = write(&mut agent, "while it cannot be recorded");
    assert_eq!(refused["metadata"]["refusal"]["code"], "ledger_unavailable", "{refused}");
    let content = std::fs::read_to_string(daemon.home().workspace().join("b.txt")).expect("a file");
    assert_eq!(content, "before", "nothing ran");
    let deadline = Instant::now() + Duration::from_secs(15);
    let after = loop {
        let after = write(&mut agent, "after");
        if after["success"] == true {
            break after;
        }
        assert!(Instant::now() < deadline, "the record does not go on: {after}");
        std::thread::sleep(Duration::from_millis(20));
    };
    let status = daemon.agent().request("sinew/status", &json!({}));
    let home = daemon.stop();
    let records = legible(&home);
    let resumed = records.iter().find(|record| record["kind"] == "resumed").expect("it goes on, on record");
    let reason = resumed["reason"].as_str().unwrap_or_default();
    assert!(reason.contains(message), "it is on record: {reason:?}");
    let lost = &status["result"]["ledger"]["lost_records"];
    assert_eq!(lost, &resumed["lost"], "the status counts the same as the ledger");
    let call = &after["metadata"]["call_id"];
    assert_eq!(records.iter().filter(|record| record["call_id"] == *call).count(), 2, "decision and end");
    (home, lost.as_u64().expect("a number"))
}

#[test]
fn removed_open_segment_is_noticed_and_counted() {
    let (home, lost) =
        check_noticed(|segment| std::fs::remove_file(segment).expect("removed"), "missing from its folder");
    assert_eq!(verify(&home)["intact"], false, "what is gone is missed");
    let first = legible(&home).first().and_then(|record| record["seq"].as_u64()).expect("a number");
    assert_eq!(lost, first - 1, "every record before the first that is left");
}

#[test]
fn cut_open_segment_is_noticed() {
    let cut = |segment: &Path| {
        let file = std::fs::OpenOptions::new().write(true).open(segment).expect("opened");
        file.set_len(100).expect("cut");
    };
    let (home, lost) = check_noticed(cut, "another process changed it");
    assert!(lost > 0, "what was cut off is counted");
    assert_eq!(verify(&home)["intact"], false, "what is gone is missed");
}

#[test]
fn nothing_is_written_through_a_link_at_a_segment_path() {
    let elsewhere = std::env::temp_dir().join(format!("sinew-elsewhere-{}", std::process::id()));
    let target: PathBuf = elsewhere.clone();
    let link = move |segment: &Path| {
        std::fs::rename(segment, &target).expect("moved");
        std::os::unix::fs::symlink(&target, segment).expect("a link");
        std::fs::write(target.with_extension("before"), std::fs::read(&target).expect("read")).expect("kept");
    };
    check_noticed(link, "replaced by another file");
    let (before, after) = (std::fs::read(elsewhere.with_extension("before")), std::fs::read(&elsewhere));
    let (before, after) = (before.expect("kept"), after.expect("still there"));
    // The decision that was being written went to the open file; nothing after it did.
    assert!(after.starts_with(&before));
    let added = String::from_utf8_lossy(after.get(before.len()..).unwrap_or_default()).into_owned();
    assert!(!added.contains("\"kind\":\"resumed\""), "{added}");
    for name in [elsewhere.with_extension("before"), elsewhere] {
        std::fs::remove_file(name).expect("removed");
    }
}

#[test]
fn slow_disk_delays_changes_and_loses_none() {
    const CALLS: usize = 20;
    let daemon = Daemon::start_debuggable(Home::initialised());
    daemon.home().file("a.txt", "x");
    let Some(strace) = Strace::delay(daemon.pid(), "fdatasync", Duration::from_secs(2)) else { return };
    let begun = Instant::now();
    let answered: HashSet<String> = std::thread::scope(|scope| {
        let call = |n: usize| {
            let mut agent = daemon.agent();
            scope.spawn(move || {
                let arguments = json!({"path": format!("{n}.txt"), "content": "y"});
                let result = agent.execute("write_file", &arguments);
                assert_eq!(result["success"], true, "{result}");
                result["metadata"]["call_id"].as_str().expect("an id").to_owned()
            })
        };
        let calls: Vec<_> = (0..CALLS).map(call).collect();
        calls.into_iter().map(|call| call.join().expect("answered")).collect()
    });
    assert!(begun.elapsed() >= Duration::from_secs(2), "a change waits for the disk");
    assert!(
        begun.elapsed() < Duration::from_secs(2) * 10,
        "those who wait share a sync: {:?}",
        begun.elapsed()
    );
    strace.stop();
    let status = daemon.agent().request("sinew/status", &json!({}));
    let ledger = &status["result"]["ledger"];
    assert_eq!((&ledger["lost_records"], &ledger["deferred"]), (&json!(0), &json!(0)), "{status}");
    let home = daemon.stop();
    let records = home.records();
    let ended = records.iter().filter(|record| record["outcome"] == "done");
    let ended: HashSet<String> =
        ended.filter_map(|record| Some(record["call_id"].as_str()?.to_owned())).collect();
    assert_eq!((answered.len(), answered.is_subset(&ended)), (CALLS, true));
    assert_eq!(verify(&home)["intact"], true);
}
