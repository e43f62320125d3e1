//! Campaigns against the running daemon: a few rounds in the ordinary run, as many as time allows in
//! `cargo xtask soak --campaign NAME`.

mod clients;
mod disk_model;
mod environments;
mod fairness;
mod power;
mod races;
mod starts;
mod strace_log;
mod syscalls;

use std::collections::HashSet;
use std::path::PathBuf;

use serde_json::Value;
use tests::Home;

/// Returns the paths of all recorded decisions.
fn judged_paths(records: &[Value]) -> HashSet<PathBuf> {
    let decisions = records.iter().filter(|record| tests::holds(record, "decision"));
    let paths = decisions.flat_map(|record| record["facts"]["paths"].as_array().into_iter().flatten());
    paths.filter_map(|path| path["canonical"].as_str().map(PathBuf::from)).collect()
}

/// Checks a ledger after its daemon stopped: the chain is intact, and every decision has its outcome.
fn check_ledger(home: &Home, context: &str) {
    let report = home.run(&["ledger", "verify", "--json"]).json();
    assert_eq!(report["intact"], true, "{context}: {report}");
    let records = home.records();
    let calls = |kind: &str| -> Vec<&str> {
        let of_kind = records.iter().filter(|record| record["kind"] == kind);
        let mut calls: Vec<&str> = of_kind.filter_map(|record| record["call_id"].as_str()).collect();
        calls.sort_unstable();
        calls
    };
    assert_eq!(calls("decision"), calls("outcome"), "{context}: every intent has its end");
}
