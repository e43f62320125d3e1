//! What a run leaves behind that something else would run: set aside however the run ended, and wherever it was put.

use std::time::{Duration, Instant};

use serde_json::json;
use tests::Daemon;

use super::{home, run};

#[test]
fn a_folder_that_cannot_be_listed_hides_nothing_and_is_hidden() {
    let daemon = Daemon::start_in(home(""));
    let work = daemon.home().workspace();
    let made = run(&daemon, &["sh", "-c", "mkdir -p q/.git && echo x > q/.git/config && chmod 0311 q/.git"]);
    assert_eq!(made["output"]["sandbox"]["quarantined"].as_array().map(Vec::len), Some(1), "{made}");
    assert!(!work.join("q/.git").exists(), "git finds no repository there");

    std::fs::create_dir(work.join("sub")).unwrap();
    std::fs::write(work.join("sub/key"), "CANARY").unwrap();
    run(&daemon, &["chmod", "0311", "sub"]);
    let read = run(&daemon, &["cat", "sub/key"]);
    assert!(!read.to_string().contains("CANARY"), "what cannot be looked through is not shown: {read}");
}

#[test]
fn a_file_that_leads_git_elsewhere_is_set_aside() {
    let daemon = Daemon::start_in(home(""));
    let made =
        run(&daemon, &["sh", "-c", "mkdir a b; ln -s ../hidden a/.git; echo 'gitdir: ../hidden' > b/.git"]);
    assert_eq!(made["output"]["sandbox"]["quarantined"].as_array().map(Vec::len), Some(2), "{made}");
    for name in ["a/.git", "b/.git"] {
        assert!(daemon.home().workspace().join(name).symlink_metadata().is_err(), "{name}");
    }
}

#[test]
fn a_caller_without_patience_leaves_nothing_behind() {
    let daemon = Daemon::start_in(home(""));
    let line = "mkdir -p q/.git && echo x > q/.git/config && exec sleep 60";
    let params = json!({"tool_name": "run_command", "arguments": {"command": ["sh", "-c", line]}, "deadline_ms": 3000});
    let ended = daemon.agent().request("sinew/execute", &params);
    assert_eq!(ended["result"]["success"], false, "{ended}");
    let config = daemon.home().workspace().join("q/.git/config");
    let deadline = Instant::now() + Duration::from_secs(15);
    while config.exists() {
        assert!(Instant::now() < deadline, "it was left where git acts on it");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(config.with_file_name("config.quarantined-0").exists(), "it was made, and set aside");
}
