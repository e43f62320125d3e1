//! `sinew policy replay` compares the verdicts of the rules, not the operator's decisions.

use serde_json::{Value, json};
use tests::{Daemon, Home};

use super::{candidate, decide};

#[test]
fn call_that_the_operator_decided_counts_as_asked() {
    let home = Home::initialised();
    home.configure("governance/tools.yaml", "# a word\ntools: {write_file: {requires_approval: true}}\n");
    let daemon = Daemon::start_in(home);
    decide(&daemon, "a.txt", "approve");
    decide(&daemon, "b.txt", "deny");
    let home = daemon.stop();
    let replay = |part: &str, by: &str| -> Value {
        let folder = candidate(&home, part, by);
        home.run(&["policy", "replay", "--against", &folder, "--json"]).must_exit(0).json()
    };
    let same = replay("# a word", "# another");
    assert_eq!((&same["changed"], &same["same"]), (&json!([]), &json!(2)), "{same:#}");
    let free = replay("requires_approval: true", "requires_approval: false");
    let reported = ["was", "becomes", "calls"].map(|key| free["changed"][0][key].clone());
    assert_eq!(reported, [json!("ask"), json!("allow"), json!(2)], "{free:#}");
}

/// A rule for a tool of another program is a difference like any other.
#[test]
fn change_for_tools_of_hosts_is_reported() {
    let home = Home::initialised();
    home.configure("governance/tools.yaml", "tools: {bash: {rate_limit_per_hour: 1}}\n");
    home.run(&["call", "list_directory", "path=."]).must_exit(0);
    let folder = candidate(&home, "per_hour: 1", "per_hour: 2");
    let reported = home.run(&["policy", "replay", "--against", &folder, "--json"]).must_exit(0).json();
    let differences = reported["differences"].as_array().unwrap();
    let loosens = |one: &&Value| {
        one["effect"] == "loosens" && one["description"].as_str().unwrap().starts_with("bash: calls per hour")
    };
    assert!(differences.iter().any(|one| loosens(&one)), "{reported:#}");
}
