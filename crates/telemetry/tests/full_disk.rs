//! Log on a full disk: lines are lost and counted, none is torn, nothing waits, and the log recovers.
//!
//! The limit is the kernel's file size limit (RLIMIT_FSIZE), set for a child process: a write that crosses it
//! is short, and the next one fails.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // test code, also run by the child

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use telemetry::{FlushOutcome, LogSettings, LogTarget, TelemetrySettings, init};

const CHILD: &str = "SINEW_TEST_FULL_DISK";

#[test]
fn full_disk_costs_lines_not_time() {
    if let Some(directory) = std::env::var_os(CHILD) {
        return write_until_full(directory.as_ref());
    }
    let home = tempfile::tempdir().unwrap();
    let this = std::env::current_exe().unwrap();
    // 16 blocks of 512 bytes. An ignored signal stays ignored across exec.
    let script = "trap '' XFSZ; ulimit -f 16; exec \"$0\" --exact full_disk_costs_lines_not_time --nocapture";
    let output = Command::new("sh")
        .arg0("sh")
        .args(["-c", script])
        .arg(this)
        .env(CHILD, home.path())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains("was full"), "{printed}");
}

/// Body of the child process.
fn write_until_full(directory: &std::path::Path) {
    let log = LogSettings { max_bytes: 1 << 20, ..LogSettings::default() };
    let settings = TelemetrySettings { log, ..TelemetrySettings::default() };
    let guard = init(&settings, &LogTarget::Directory(directory.to_owned())).unwrap();
    let path = directory.join("sinew.log");
    let started = Instant::now();
    for number in 0..500_u64 {
        tracing::info!(number, padding = "x".repeat(100).as_str());
    }
    assert!(started.elapsed() < Duration::from_secs(20));
    wait_for(&guard, |lost| lost > 0);
    let kept = records(&path);
    assert!(!kept.is_empty() && kept.len() < 500);
    println!("the disk was full after {} lines", kept.len());

    // There is space again: the log continues, and first reports how many lines are missing.
    std::fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    let before = guard.dropped_lines();
    tracing::info!("space again");
    assert_eq!(guard.shutdown(Duration::from_secs(20)), FlushOutcome::Complete);
    let lines = records(&path);
    assert_eq!(
        (&lines[0]["event"], &lines[1]["message"]),
        (&"log_lines_dropped".into(), &"space again".into())
    );
    // A loss notice is shorter than a line, so one may have been written before.
    let reported: u64 = kept.iter().chain(&lines).filter_map(|line| line["count"].as_u64()).sum();
    let written = kept.iter().filter(|line| line["number"].is_u64()).count() as u64;
    assert_eq!((reported, written + reported), (before, 500), "every line is written or counted");
}

fn wait_for(guard: &telemetry::TelemetryGuard, enough: impl Fn(u64) -> bool) {
    let started = Instant::now();
    let mut last = u64::MAX;
    // Done once lines were lost and the count no longer rises.
    while !enough(guard.dropped_lines()) || guard.dropped_lines() != last {
        last = guard.dropped_lines();
        assert!(started.elapsed() < Duration::from_secs(20), "no line was lost");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn records(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
