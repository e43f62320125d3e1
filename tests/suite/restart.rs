//! Looser configuration waits across restarts too: a starting daemon uses the accepted configuration.

use std::path::Path;

use serde_json::{Value, json};
use tests::{Daemon, Home, wait_until};

use crate::reload::{OPEN, SHUT, home};

fn reads(daemon: &Daemon) -> bool {
    daemon.agent().execute("read_file", &json!({"path": "shut/a.txt"}))["success"] == true
}

/// State of the configuration that each start so far recorded.
fn starts(home: &Home) -> Vec<String> {
    let records = home.complete_records();
    let starts = records.iter().filter(|record| record["kind"] == "start");
    starts.map(|record| record["data"]["configuration"].as_str().unwrap_or("?").to_owned()).collect()
}

fn reload_state(daemon: &Daemon) -> Value {
    daemon.control().request("control/reload", &json!({}));
    daemon.control().request("control/status", &json!({}))["result"]["reload"].clone()
}

#[test]
fn restart_does_not_accept_looser_rules() {
    let home = Daemon::start_in(home(SHUT)).stop();
    home.configure("governance/tools.yaml", OPEN);
    let daemon = Daemon::start_in(home);
    assert!(!reads(&daemon), "what was accepted holds");
    assert_eq!(reload_state(&daemon)["result"], "waiting");
    // Neither a crash nor a second restart accepts it.
    let daemon = Daemon::start_in(daemon.crash());
    assert!(!reads(&daemon));
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert!(reads(&daemon));
    let daemon = Daemon::start_in(daemon.stop());
    assert!(reads(&daemon), "what was accepted once is not asked again");
    assert_eq!(starts(daemon.home()), ["first", "waiting", "waiting", "applied"]);
}

#[test]
fn tighter_rules_hold_from_the_first_call_after_a_start() {
    let home = Daemon::start_in(home(OPEN)).stop();
    home.configure("governance/tools.yaml", SHUT);
    let daemon = Daemon::start_in(home);
    assert!(!reads(&daemon));
    assert_eq!(starts(daemon.home()), ["first", "applied"]);
    // The next change is compared with the tighter rules.
    let home = daemon.stop();
    home.configure("governance/tools.yaml", OPEN);
    let daemon = Daemon::start_in(home);
    assert!(!reads(&daemon));
}

#[test]
fn settings_and_workspaces_wait_as_rules_do() {
    let home = Daemon::start_in(home(SHUT)).stop();
    let other = home.user_home().canonicalize().expect("a folder").join("other");
    std::fs::create_dir(&other).expect("a folder");
    std::fs::write(other.join("b.txt"), "x").expect("a file");
    let added = home.run(&["workspace", "add", other.to_str().expect("text")]).must_exit(0);
    assert!(added.stdout().contains("sinew reload --accept"), "it says what it takes: {added}");
    let settings = home.root().join("config/sinew.yaml");
    let asks = std::fs::read_to_string(&settings).expect("settings");
    home.configure("sinew.yaml", &asks.replace("reload: ask", "reload: auto"));
    home.configure("governance/tools.yaml", OPEN);
    let daemon = Daemon::start_in(home);
    assert!(!reads(&daemon), "the settings cannot turn the question off for themselves");
    let read = daemon.agent().execute("read_file", &json!({"path": other.join("b.txt")}));
    assert_eq!(read["success"], false, "{read}");
}

#[test]
fn automatic_reload_applies_at_a_start_too() {
    let home = home(SHUT);
    let settings = home.root().join("config/sinew.yaml");
    let asks = std::fs::read_to_string(&settings).expect("settings");
    home.configure("sinew.yaml", &asks.replace("reload: ask", "reload: auto"));
    let home = Daemon::start_in(home).stop();
    home.configure("governance/tools.yaml", OPEN);
    assert!(reads(&Daemon::start_in(home)));
}

/// A change that waits is not applied by a command that judges without a daemon either, and what it tightens is.
#[test]
fn command_without_a_daemon_applies_what_was_accepted() {
    let home = Daemon::start_in(home(SHUT)).stop();
    home.file("b.txt", "x");
    let code = |command: &str, path: &str| {
        home.run(&[command, "read_file", &format!("path={path}")]).output.status.code()
    };
    assert_eq!((code("call", "shut/a.txt"), code("call", "b.txt")), (Some(3), Some(0)));
    home.configure(
        "governance/tools.yaml",
        &format!("{OPEN}  list_directory: {{forbidden_paths: [\"**\"]}}\n"),
    );
    for command in ["call", "explain"] {
        assert_eq!(code(command, "shut/a.txt"), Some(3), "{command}: the operator has not accepted it");
        assert_eq!(code(command, "b.txt"), Some(0), "{command}");
    }
    home.run(&["call", "list_directory", "path=."]).must_exit(3);
    let daemon = Daemon::start_in(home);
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    let home = daemon.stop();
    home.run(&["call", "read_file", "path=shut/a.txt"]).must_exit(0);
}

#[test]
fn unknown_accepted_configuration_is_logged() {
    let home = Daemon::start_in(home(SHUT)).stop();
    let copy = home.root().join("state/accepted");
    let rules = copy.join("config/governance/tools.yaml");
    assert!(std::fs::read_to_string(&rules).expect("a copy").starts_with(SHUT));
    // Editing the copy does not accept anything.
    std::fs::write(&rules, OPEN).expect("written");
    let daemon = Daemon::start_in(home);
    assert!(!reads(&daemon), "the files are taken, not the copy");
    wait_until("the log says so", || daemon.log().contains("the accepted configuration is unknown"));
    let home = daemon.stop();
    std::fs::remove_dir_all(&copy).expect("removed");
    let daemon = Daemon::start_in(home);
    assert!(!reads(&daemon));
    assert_eq!(starts(daemon.home()), ["first", "unknown", "unknown"]);
}

/// An error that may pass must not apply what waits for the operator.
#[test]
fn unreadable_accepted_configuration_ends_the_start() {
    use std::os::unix::fs::PermissionsExt;
    let mut home = Daemon::start_in(home(SHUT)).stop();
    home.configure("governance/tools.yaml", OPEN);
    for name in ["seal", "layers", "config/governance/tools.yaml", "config"] {
        let path = home.root().join("state/accepted").join(name);
        let before = std::fs::metadata(&path).expect("part of the copy").permissions();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).expect("ours");
        let Err(failed) = Daemon::try_start(home, tests::sinew()) else { panic!("it serves without {name}") };
        assert!(!failed.status.success(), "{name}");
        let reason = "the accepted configuration in";
        assert!(
            failed.log.contains(reason) && failed.log.contains("cannot be read"),
            "{name}: {}",
            failed.log
        );
        home = failed.home;
        std::fs::set_permissions(&path, before).expect("ours");
    }
    let daemon = Daemon::start_in(home);
    assert!(!reads(&daemon), "the change still waits");
    assert_eq!(starts(daemon.home()), ["first", "waiting"]);
}

#[test]
fn calls_before_the_first_daemon_accept_nothing() {
    let home = home(SHUT);
    let path = format!("path={}", home.workspace().join("shut/a.txt").display());
    home.run(&["call", "read_file", &path]).must_exit(3);
    home.configure("governance/tools.yaml", OPEN);
    let daemon = Daemon::start_in(home);
    assert!(reads(&daemon), "no stricter configuration was accepted before");
    assert_eq!(starts(daemon.home()), ["first"]);
    let home = daemon.stop();
    std::fs::remove_dir_all(home.root().join("state/accepted")).expect("removed");
    assert_eq!(starts(Daemon::start_in(home).home()), ["first", "unknown"], "there was one");
}

/// Checks that the next start knows the accepted configuration although these files are among the manifests.
fn is_kept_beside(put: impl Fn(&Path)) {
    let home = home(SHUT);
    let tools = home.root().join("tools");
    std::fs::create_dir_all(&tools).unwrap();
    put(&tools);
    let home = Daemon::start_in(home).stop();
    home.configure("governance/tools.yaml", OPEN);
    let daemon = Daemon::start_in(home);
    assert!(!reads(&daemon), "what was accepted is known");
    assert_eq!(starts(daemon.home()), ["first", "waiting"]);
}

#[test]
fn dangling_links_do_not_prevent_the_accepted_copy() {
    is_kept_beside(|tools| {
        for name in ["loop.yaml", "nowhere.yaml"] {
            std::os::unix::fs::symlink(tools.join("loop.yaml"), tools.join(name)).unwrap();
        }
    });
}

/// Corresponds to a home with very many manifests.
#[test]
fn thousands_of_files_are_stored_for_the_next_start() {
    is_kept_beside(|tools| {
        (0..4_200).for_each(|n| std::fs::write(tools.join(format!("{n}.txt")), "a note").unwrap());
    });
}

/// Corresponds to manifests with long documentation: a few KiB each, ten thousand times.
#[test]
fn many_megabytes_in_short_files_are_stored() {
    let note = "n".repeat(512 << 10);
    is_kept_beside(|tools| {
        (0..40).for_each(|n| std::fs::write(tools.join(format!("{n}.txt")), &note).unwrap());
    });
}

#[test]
fn configuration_that_cannot_be_stored_does_not_hold() {
    let daemon = Daemon::start_in(home(OPEN));
    // A sparse file: it has a large size and takes no space.
    let large = daemon.home().root().join("tools/large.bin");
    std::fs::create_dir_all(large.parent().unwrap()).unwrap();
    std::fs::File::create(&large).unwrap().set_len(64 << 30).unwrap();
    daemon.home().configure("governance/tools.yaml", SHUT);
    let refused = daemon.home().run(&["reload", "--accept"]);
    let text = refused.stderr();
    assert!(text.contains("cannot be stored for the next start") && text.contains("16 MiB"), "{refused}");
    assert!(reads(&daemon), "nothing was said to hold that a restart would undo");
    std::fs::remove_file(&large).unwrap();
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert!(!reads(&daemon));
    let daemon = Daemon::start_in(daemon.stop());
    assert!(!reads(&daemon), "what holds is kept");
}

#[test]
fn manifest_tools_wait_if_the_accepted_state_is_unknown() {
    const ECHO: &str = "tool:\n  schema_version: 2.0\n  id: speaker\n  type: cli\n  name: Speaker\n  version: 1.0.0\n  \
                        description: Says it again\n  cli_specific: {executable: echo}\n  commands:\n    - name: say\n      \
                        description: Says it\n      category: read_only\n      risk_level: low\n      argv: [hello]\n";
    let home = home(SHUT);
    home.put_tool("speaker.yaml", ECHO);
    let knows = |daemon: &Daemon| {
        let reported = daemon.agent().execute("speaker.say", &json!({}));
        reported["metadata"]["refusal"]["code"] != "unknown_tool"
    };
    let daemon = Daemon::start_in(home);
    assert!(knows(&daemon), "the first start takes what is there");
    let home = daemon.stop();
    std::fs::write(home.root().join("state/accepted/seal"), "another").unwrap();
    let daemon = Daemon::start_in(home);
    assert!(!knows(&daemon), "it is unknown which client has seen it");
    let home = daemon.stop();
    let asks = std::fs::read_to_string(home.root().join("config/sinew.yaml")).unwrap();
    home.configure("sinew.yaml", &asks.replace("reload: ask", "reload: auto"));
    let daemon = Daemon::start_in(home);
    assert!(!knows(&daemon), "neither a second start nor other settings are a way around it");
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert!(knows(&daemon));
    let daemon = Daemon::start_in(daemon.stop());
    assert!(knows(&daemon), "it was accepted");
    assert_eq!(starts(daemon.home()), ["first", "unknown", "unknown", "applied"]);
}

/// A state of the first version has no version file. One of a newer version is left alone.
#[test]
fn older_state_is_taken_over_and_newer_state_is_refused() {
    let daemon = Daemon::start();
    assert_eq!(
        daemon.agent().execute("write_file", &json!({"path": "a.txt", "content": "x"}))["success"],
        true
    );
    let home = daemon.stop();
    let version = home.root().join("state/version");
    assert_eq!(std::fs::read_to_string(&version).expect("it is written"), "1\n");
    std::fs::remove_file(&version).expect("removed");
    let before = home.records().len();
    let home = Daemon::start_in(home).stop();
    assert!(home.records().len() > before && version.exists(), "its records are kept");
    std::fs::write(&version, "2\n").expect("written");
    let files = home.complete_records();
    for words in [&["serve"][..], &["call", "read_file", "path=a.txt"]] {
        let refused = home.run(words);
        let message = refused.stderr() + &refused.stdout();
        assert!(message.contains("a newer version of Sinew wrote this state"), "{words:?}: {refused}");
        assert!(message.contains("use the version of Sinew that wrote it"), "{words:?}: {refused}");
    }
    assert_eq!(home.complete_records(), files, "nothing was written");
}
