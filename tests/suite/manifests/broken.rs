//! A manifest that cannot be loaded: the others keep working, and reload, status, log and events name it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Daemon, Home};

use super::run::put;

const BROKEN: &str = "tool:\n  id: broken\n  type: nonsense\n  name: Broken\n";
const FINE: &str = "tool:\n  id: printer\n  type: cli\n  name: Printer\n  version: 1.0.0\n  description: Prints\n  \
    cli_specific: {executable: echo, install_guide: Install echo.}\n  commands:\n    \
    - {name: say, argv: [hello], category: read_only, risk_level: low, parameters: []}\n";

fn problems(status: &Value) -> &Vec<Value> {
    static NONE: Vec<Value> = Vec::new();
    status["manifest_problems"].as_array().unwrap_or(&NONE)
}

#[test]
fn broken_manifest_is_reported_by_reload_status_log_and_events() {
    let home = Home::initialised().without_automatic_modes();
    put(&home, "printer.yaml", FINE);
    let daemon = Daemon::start_in(home);
    let mut events = daemon.control();
    assert_eq!(events.request("control/events", &json!({}))["result"]["following"], true);
    put(daemon.home(), "broken.yaml", BROKEN);
    let reloaded = daemon.home().run(&["reload"]).must_exit(0);
    assert!(reloaded.stderr().contains("broken.yaml:3"), "{reloaded}");

    let status = daemon.home().run(&["status", "--json"]).must_exit(0).json();
    let files: Vec<&str> = problems(&status).iter().filter_map(|problem| problem["file"].as_str()).collect();
    assert!(!files.is_empty() && files.iter().all(|file| file.ends_with("broken.yaml")), "{status}");
    let shown = daemon.home().run(&["status"]).must_exit(0).stdout();
    assert!(shown.contains("not loaded") && shown.contains("broken.yaml:3"), "{shown}");

    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let event = events.receive().expect("an event")["params"].clone();
        if event["event"] == "manifest_rejected" && event["line"] == 3 {
            assert!(event["file"].as_str().is_some_and(|file| file.ends_with("broken.yaml")), "{event}");
            break;
        }
        assert!(Instant::now() < deadline, "no event names the manifest");
    }
    let said = daemon.agent().execute("printer.say", &json!({}));
    assert_eq!(said["success"], true, "the other manifest works: {said}");
    let home = daemon.stop();
    let log = home.run(&["logs"]).must_exit(0).stdout();
    assert!(log.contains("manifest_rejected") && log.contains("broken.yaml"), "{log}");

    let daemon = Daemon::start_in(home);
    let status = daemon.home().run(&["status", "--json"]).must_exit(0).json();
    assert!(!problems(&status).is_empty(), "also after a start: {status}");
    std::fs::remove_file(daemon.home().root().join("tools/broken.yaml")).unwrap();
    daemon.home().run(&["reload"]).must_exit(0);
    let status = daemon.home().run(&["status", "--json"]).must_exit(0).json();
    assert!(problems(&status).is_empty(), "a corrected problem is gone: {status}");
}
