//! `sinew doctor`: one row per check, with cause and remedy. It changes nothing.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use tests::{Daemon, Home};

fn rows(reported: &Value) -> Vec<(String, String, String)> {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let checks = reported["checks"].as_array().expect("a list of checks");
    checks.iter().map(|row| (text(row, "area"), text(row, "check"), text(row, "status"))).collect()
}

fn row_status(reported: &Value, check: &str) -> String {
    let found = rows(reported).into_iter().find(|(_, what, _)| what == check);
    found.unwrap_or_else(|| panic!("no row for {check}: {reported}")).2
}

#[test]
fn every_area_has_rows_and_a_healthy_machine_passes() {
    let daemon = Daemon::start();
    let reported = daemon.home().run(&["doctor", "--json"]).must_exit(0).json();
    let areas: Vec<String> = rows(&reported).into_iter().map(|(area, ..)| area).collect();
    for area in [
        "sandbox",
        "approvals",
        "folders",
        "sockets",
        "daemon",
        "machine",
        "configuration",
        "programs",
        "web search",
        "telemetry",
    ] {
        assert!(areas.iter().any(|one| one == area), "{area} is missing: {reported}");
    }
    for check in ["answers and records", "agent socket", "control socket", "service"] {
        assert_eq!(row_status(&reported, check), "good", "{check}: {reported}");
    }
    let limits = reported["checks"].as_array().expect("checks").iter();
    let limits: Vec<&Value> = limits.filter(|row| row["check"] == "resource limits of a run").collect();
    let [limits] = limits[..] else { panic!("one line: {reported}") };
    let found = limits["found"].as_str().expect("a cause");
    let (by, expected) = match limits["status"].as_str() {
        Some("good") => ("enforced by the kernel: ", "what is held"),
        _ => ("enforced by a watcher, without control groups: ", "why the kernel does not"),
    };
    assert!(found.strip_prefix(by).is_some_and(|cause| !cause.is_empty()), "{expected}: {limits}");
    assert_eq!((&reported["schema_version"], &reported["ok"]), (&Value::from(1), &Value::from(true)));
    let page = daemon.home().run(&["doctor"]).must_exit(0).stdout();
    assert!(page.contains("no problems found") && page.contains("sinew pin set"), "{page}");
}

#[test]
fn problem_is_named_with_its_remedy_and_left_unchanged() {
    let home = Home::initialised();
    let state = home.root().join("state");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::set_permissions(&state, PermissionsExt::from_mode(0o755)).unwrap();
    home.configure("governance/modes.yaml", "modes: [not, a, table]\n");
    let reported = home.run(&["doctor", "--json"]).must_exit(1).json();
    assert_eq!(row_status(&reported, "state"), "bad", "{reported}");
    assert_eq!(row_status(&reported, "policy and settings"), "bad", "{reported}");
    assert_eq!(row_status(&reported, "answers"), "note", "no daemon is nothing broken: {reported}");
    let page = home.run(&["doctor"]).must_exit(1).stdout();
    assert!(page.contains("chmod 700") && page.contains("sinew check"), "{page}");
    assert_eq!(std::fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o755, "it only looks");
}

#[test]
fn collector_is_tried_and_its_password_is_not_shown() {
    let home = Home::initialised();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://user:hunter2hunter2@{}", listener.local_addr().unwrap());
    let text = std::fs::read_to_string(home.root().join("config/sinew.yaml")).unwrap();
    home.configure("sinew.yaml", &text.replace("\notlp:\n", &format!("\notlp:\n  endpoint: {endpoint}\n")));
    let run = home.run(&["doctor", "--json"]).must_exit(0);
    assert_eq!(row_status(&run.json(), "collector"), "good", "{run}");
    assert!(!run.stdout().contains("hunter2"), "{run}");
    drop(listener);
    assert_eq!(row_status(&home.run(&["doctor", "--json"]).must_exit(0).json(), "collector"), "note");
}

#[test]
fn open_missing_or_invalid_socket_is_reported() {
    let daemon = Daemon::start();
    let look = || daemon.home().run(&["doctor", "--json"]).json();
    let (agents, own) = (daemon.home().socket("agent.sock"), daemon.home().socket("control.sock"));
    std::fs::set_permissions(&own, PermissionsExt::from_mode(0o666)).unwrap();
    assert_eq!(row_status(&look(), "control socket"), "bad");
    std::fs::set_permissions(&own, PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::remove_file(&agents).unwrap();
    let reported = look();
    assert_eq!(
        (row_status(&reported, "agent socket"), row_status(&reported, "control socket")),
        ("bad".into(), "good".into())
    );
    std::fs::write(&agents, "not a socket").unwrap();
    assert_eq!(row_status(&look(), "agent socket"), "bad");
}

#[test]
fn file_that_only_resembles_a_rule_file_is_reported() {
    let home = Home::initialised();
    assert!(!rows(&home.run(&["doctor", "--json"]).json()).iter().any(|(_, what, _)| what == "models.yaml"));
    home.configure("governance/models.yaml", "models: {}\n");
    let reported = home.run(&["doctor", "--json"]).json();
    assert_eq!(row_status(&reported, "models.yaml"), "note", "{reported}");
}
