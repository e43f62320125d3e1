//! Files left by a run that another program would run: quarantined wherever they are and however the run
//! ended.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use tests::{Daemon, wait_until};

use super::{aside_of, home, run};

#[test]
fn unlistable_folder_is_scanned_and_hidden() {
    let daemon = Daemon::start_in(home(""));
    let work = daemon.home().workspace();
    let made = run(&daemon, &["sh", "-c", "mkdir -p q/.git && echo x > q/.git/config && chmod 0311 q/.git"]);
    assert_eq!(made["output"]["sandbox"]["quarantined"].as_array().map(Vec::len), Some(1), "{made}");
    assert!(!work.join("q/.git/config").exists(), "a directory without list permission is scanned");
    let quarantine = &made["output"]["sandbox"]["quarantined"][0];
    let both = json!([quarantine["path"], quarantine["moved_to"]]);
    assert_eq!(made["metadata"]["files_touched"], both);
    let records = daemon.home().records();
    let call = |record: &&serde_json::Value| record["call_id"] == made["metadata"]["call_id"];
    let outcome = records.iter().filter(call).find(|record| tests::holds(record, "outcome"));
    assert_eq!(outcome.map(|record| &record["files_touched"]), Some(&both), "{outcome:?}");
    assert_eq!(std::fs::metadata(work.join("q/.git")).unwrap().permissions().mode() & 0o777, 0o311);

    std::fs::create_dir(work.join("sub")).unwrap();
    std::fs::write(work.join("sub/key"), "CANARY").unwrap();
    run(&daemon, &["chmod", "0311", "sub"]);
    let read = run(&daemon, &["cat", "sub/key"]);
    assert!(!read.to_string().contains("CANARY"), "what cannot be looked through is not shown: {read}");
}

/// Folders nested too deeply for any path to name them, with a file in the last one.
const DEPTH_BOMB: &str = "import os\nfor _ in range(60):\n os.mkdir('d' * 200)\n os.chdir('d' * 200)\n\
                          os.makedirs('.git/hooks')\nopen('.git/config', 'w').write('evil')";

#[test]
fn folders_too_deep_to_name_do_not_stop_the_scan() {
    let daemon = Daemon::start_in(home(""));
    let work = daemon.home().workspace();
    let code = format!("open('.envrc', 'w').write('evil')\n{DEPTH_BOMB}");
    let bomb = run(&daemon, &["python3", "-c", &code]);
    assert_eq!(bomb["output"]["exit_code"], 0, "{bomb}");
    assert_eq!(bomb["output"]["sandbox"]["quarantined"].as_array().map(Vec::len), Some(2), "{bomb}");
    assert!(!work.join(".envrc").exists(), "what else it left is set aside: {bomb}");

    // In the next run everything that is too deep is inaccessible, and the rest is unchanged.
    daemon.home().file("plain", "plain");
    let code = "import os\ndepth = 0\ntry:\n while True:\n  os.chdir(next(name for name in os.listdir('.') if name[0] == 'd'))\n  depth += 1\n\
                except OSError as error: print(depth, error.strerror)";
    let next = run(&daemon, &["python3", "-c", code]);
    assert_eq!(next["output"]["sandbox"]["quarantined"], json!([]), "{next}");
    let text = next["output"]["stdout"].as_str().unwrap_or_default().to_owned();
    assert!(text.trim_end().ends_with("Permission denied"), "{next}");
    assert_eq!(run(&daemon, &["cat", "plain"])["output"]["stdout"], "plain");
}

#[test]
fn file_that_redirects_git_is_quarantined() {
    let daemon = Daemon::start_in(home(""));
    let made =
        run(&daemon, &["sh", "-c", "mkdir a b; ln -s ../hidden a/.git; echo 'gitdir: ../hidden' > b/.git"]);
    assert_eq!(made["output"]["sandbox"]["quarantined"].as_array().map(Vec::len), Some(2), "{made}");
    for name in ["a/.git", "b/.git"] {
        assert!(daemon.home().workspace().join(name).symlink_metadata().is_err(), "{name}");
    }
}

/// A bind mount protects files but not symbolic links, and a file in a link's place may have the link's inode
/// number.
#[test]
fn file_in_place_of_a_protected_link_is_quarantined() {
    let daemon = Daemon::start_in(home(""));
    let profile = daemon.home().workspace().join(".profile");
    std::os::unix::fs::symlink("/etc/profile", &profile).unwrap();
    assert_eq!(run(&daemon, &["true"])["output"]["sandbox"]["quarantined"], json!([]), "it was there before");
    assert!(profile.is_symlink());
    let made = run(&daemon, &["sh", "-c", "rm .profile; echo evil > .profile"]);
    assert_eq!(made["output"]["sandbox"]["quarantined"].as_array().map(Vec::len), Some(1), "{made}");
    assert!(profile.symlink_metadata().is_err());
}

#[test]
fn next_daemon_quarantines_what_a_killed_one_left() {
    let daemon = Daemon::start_in(home("    timeout_seconds: 120\n"));
    let work = daemon.home().workspace();
    std::fs::create_dir(work.join(".vscode")).unwrap();
    let mut agent = daemon.agent();
    let caller = std::thread::spawn(move || {
        let line = "mkdir -p q/.git && echo x > q/.git/config && touch made && exec sleep 60";
        let words = json!({"command": ["sh", "-c", line]});
        let call = std::panic::AssertUnwindSafe(|| agent.execute("run_command", &words));
        std::panic::catch_unwind(call).is_ok()
    });
    wait_until("the command is under way", || work.join("made").exists());
    let daemon = Daemon::start_in(daemon.crash());
    let _ = caller.join();
    assert!(!work.join("q/.git/config").exists(), "before the first call");
    assert!(aside_of(&work.join("q/.git"), "config").is_some());
    assert!(work.join(".vscode").exists(), "what was there before stays");
    assert_eq!(
        std::fs::read_dir(daemon.home().root().join("state/runs")).unwrap().count(),
        0,
        "nothing is left to do"
    );
    assert_eq!(run(&daemon, &["true"])["output"]["exit_code"], 0);
    assert_eq!(
        std::fs::read_dir(daemon.home().root().join("state/runs")).unwrap().count(),
        0,
        "of no run that is over"
    );
}

#[test]
fn expired_deadline_leaves_nothing_behind() {
    let daemon = Daemon::start_in(home(""));
    let line = "mkdir -p q/.git && echo x > q/.git/config && exec sleep 60";
    let params = json!({"tool_name": "run_command", "arguments": {"command": ["sh", "-c", line]}, "deadline_ms": 3000});
    let ended = daemon.agent().request("sinew/execute", &params);
    assert_eq!(ended["result"]["success"], false, "{ended}");
    let config = daemon.home().workspace().join("q/.git/config");
    wait_until("it is taken from where git acts on it", || !config.exists());
    assert!(aside_of(config.parent().unwrap(), "config").is_some(), "it was made, and set aside");
}
