//! Policy of a project (`.sinew/policy.yaml`): what a changed one permits, over reloads and restarts.

use std::fs;

use serde_json::json;
use tests::{Daemon, Home};

/// Replaces the policy of the project in the workspace.
fn write_policy(home: &Home, text: &str) {
    let folder = home.workspace().join(".sinew");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("policy.yaml"), text).unwrap();
}

fn home_with(policy: &str) -> Home {
    let home = Home::initialised().without_automatic_modes();
    for folder in ["src", "docs"] {
        fs::create_dir(home.workspace().join(folder)).unwrap();
    }
    home.file("docs/k", "x");
    write_policy(&home, policy);
    home
}

const SCOPE: &str = "  write_file: {allowed_paths: [src/**]}\n";

#[test]
fn own_list_outside_the_write_scope_waits() {
    let daemon = Daemon::start_in(home_with(&format!("tools:\n{SCOPE}")));
    let deletes = || daemon.agent().execute("delete_file", &json!({"path": "docs/k"}))["success"] == true;
    assert!(!deletes());
    for tool in ["delete_file", "run_command"] {
        let wide = format!("tools:\n{SCOPE}  {tool}: {{allowed_paths: [\"**\"]}}\n");
        write_policy(daemon.home(), &wide);
        let shown = daemon.home().run(&["reload"]).must_exit(4).stdout();
        assert!(shown.contains("loosens") && shown.contains(tool), "{shown}");
        assert!(!deletes(), "{tool}");
    }
    let narrow = format!("tools:\n{SCOPE}  delete_file: {{allowed_paths: [src/a/**]}}\n");
    write_policy(daemon.home(), &narrow);
    let shown = daemon.home().run(&["reload"]).must_exit(0).stdout();
    assert!(shown.contains("tightens") && !shown.contains("loosens"), "{shown}");
}
