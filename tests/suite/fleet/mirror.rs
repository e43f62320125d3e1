//! Ledger mirror: every record once, over kill -9 of the server and of the daemon, and alarms for a ledger that was
//! changed behind it.

use serde_json::json;
use tests::{Daemon, Home};

use super::bench::{Fleet, wait_for_status};

fn call(daemon: &Daemon, number: usize) {
    let path = format!("path=file-{number}.txt");
    daemon.home().run(&["call", "write_file", &path, "content=x"]).must_exit(0);
}

/// Waits until every record is mirrored, and returns the number.
fn wait_for_mirror(daemon: &Daemon) -> u64 {
    let mut client = daemon.control();
    let head = client.request("control/status", &json!({}))["result"]["ledger"]["records"]
        .as_u64()
        .expect("a number");
    wait_for_status(daemon, "the mirror to be complete", |status| {
        status["mirrored"].as_u64().is_some_and(|mirrored| mirrored >= head)
    });
    head
}

#[test]
fn every_record_arrives_once_over_kills() {
    let Some(mut fleet) = Fleet::start() else { return };
    let home = Home::initialised().without_automatic_modes().without_rate_limits();
    fleet.enrol("web-1", &home);
    let mut daemon = Daemon::start_in(home);
    for round in 0..3 {
        (0..4).for_each(|number| call(&daemon, 10 * round + number));
        fleet.kill_server();
        (4..6).for_each(|number| call(&daemon, 10 * round + number));
        if round == 1 {
            daemon = Daemon::start_in(daemon.crash());
        }
        fleet.start_server();
        (6..8).for_each(|number| call(&daemon, 10 * round + number));
    }
    let head = wait_for_mirror(&daemon);
    let records = fleet.verified_records("web-1");
    assert!(records >= head, "{records} of {head}");
    let run = fleet.sinew(&["fleet", "ledger", "tail", "--host", "web-1", "-n", "100000"]).must_exit(0);
    let mirrored: Vec<String> = run
        .stdout()
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(_, line)| line.to_owned())
        .collect();
    let filter = ["--kind", "decision", "--tool", "write_file"];
    let words = [&["fleet", "ledger", "query", "--host", "web-1"][..], &filter[..]].concat();
    let found = fleet.sinew(&words).must_exit(0).stdout().lines().count();
    let ledger = daemon.stop().records();
    let is_call = |record: &&serde_json::Value| {
        record["kind"] == "decision" && record.to_string().contains("write_file")
    };
    assert_eq!(
        (found, found >= 24),
        (ledger.iter().filter(is_call).count(), true),
        "one decision of each call"
    );
    for (copy, record) in mirrored.iter().zip(&ledger) {
        let copy: serde_json::Value = serde_json::from_str(copy).expect("a record");
        assert_eq!((&copy["seq"], &copy["hash"]), (&record["seq"], &record["hash"]));
    }
}

#[test]
fn truncated_ledger_is_not_mirrored_over_its_past() {
    let Some(fleet) = Fleet::start() else { return };
    let home = Home::initialised().without_automatic_modes();
    fleet.enrol("web-1", &home);
    let daemon = Daemon::start_in(home);
    call(&daemon, 1);
    wait_for_mirror(&daemon);
    let state = daemon.home().root().join("state");
    let copy = daemon.home().workspace().with_file_name("old-state");
    let home = daemon.stop();
    let cp = |from: &std::path::Path, to: &std::path::Path| {
        let status = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().expect("run cp");
        assert!(status.success());
    };
    cp(&state, &copy);
    let daemon = Daemon::start_in(home);
    (2..6).for_each(|number| call(&daemon, number));
    wait_for_mirror(&daemon);
    let home = daemon.stop();
    // The whole state is put back, keys and anchors included.
    std::fs::remove_dir_all(&state).expect("remove the state");
    cp(&copy, &state);
    let daemon = Daemon::start_in(home);
    wait_for_status(&daemon, "the contradiction to be reported", |status| {
        status["mirror_fault"].as_str().is_some_and(|text| text.contains("contradicts it"))
    });
    let doctor = daemon.home().run(&["fleet", "doctor"]).must_exit(1);
    assert!(doctor.stderr().contains("the ledger is not mirrored"), "{doctor}");
}
