//! Show and change the mode from the command line.

use serde_json::json;
use tests::{Daemon, Home};

#[test]
fn mode_is_shown_changed_and_recorded() {
    let daemon = Daemon::start();
    let home = daemon.home();
    assert_eq!(home.run(&["mode", "get"]).must_exit(0).stdout(), "NORMAL\n");
    let set = home.run(&["mode", "set", "ALERT", "--reason", "odd mails"]).must_exit(0);
    assert_eq!(set.stdout(), "NORMAL → ALERT\n");
    assert_eq!(home.run(&["mode", "set", "ALERT"]).must_exit(0).stdout(), "ALERT (unchanged)\n");
    let shown = home.run(&["mode", "get", "--json"]).must_exit(0).json();
    assert_eq!(shown, json!({"mode": "ALERT", "schema_version": 1}));
    let change = home.records().into_iter().find(|record| record["kind"] == "mode").expect("it is on record");
    assert_eq!((&change["from"], &change["to"]), (&json!("NORMAL"), &json!("ALERT")), "{change}");
    assert_eq!(change["reason"], "odd mails", "{change}");
}

#[test]
fn lockdown_refuses_changes_until_the_operator_ends_it() {
    let daemon = Daemon::start();
    let home = daemon.home();
    home.file("a.txt", "x");
    let write = ["call", "write_file", "path=b.txt", "content=x", "--json"];
    let locked = home.run(&["lockdown", "--json"]).must_exit(0).json();
    assert_eq!(locked, json!({"mode": "LOCKDOWN", "previous": "NORMAL", "schema_version": 1}));
    let refused = home.run(&write).must_exit(3).json();
    assert_eq!(refused["metadata"]["refusal"]["code"], "mode_denied", "{refused}");
    home.run(&["call", "read_file", "path=a.txt"]).must_exit(0);
    for mode in ["RECOVERY", "NORMAL"] {
        home.run(&["mode", "set", mode]).must_exit(0);
    }
    home.run(&write).must_exit(0);
    let reasons: Vec<String> =
        home.records().iter().filter(|r| r["kind"] == "mode").map(|r| r["reason"].to_string()).collect();
    assert!(reasons[0].contains("sinew lockdown") && reasons[1].contains("sinew mode set"), "{reasons:?}");
}

#[test]
fn rejected_mode_change_reports_why() {
    let home = Home::initialised();
    let unknown = home.run(&["mode", "set", "SAFE"]).must_exit(2);
    assert!(unknown.stderr().contains("LOCKDOWN"), "the modes are listed: {unknown}");
    let daemon = Daemon::start_in(home);
    // An invalid parameter from the daemon is a usage error here.
    let silent = daemon.home().run(&["mode", "set", "ALERT", "--reason", " "]).must_exit(2);
    assert!(silent.stderr().contains("reason"), "{silent}");
    assert_eq!(daemon.home().run(&["mode", "get"]).must_exit(0).stdout(), "NORMAL\n");
}
