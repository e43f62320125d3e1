//! `sinew policy suggest`: suggestions from real calls, applied like any other edit.

use std::fs;

use serde_json::{Value, json};
use tests::{Daemon, Home};

use super::{decide, governance};

const TOOLS: &str = "\
tools:
  # I want to see what it writes.
  write_file:
    requires_approval: true
  run_command:
    allowed_commands: {add: [cargo]}
";

/// Daemon after six approved writes in docs/, one denied write in src/ and sixty reads.
fn used_daemon() -> Daemon {
    let home = Home::initialised();
    for folder in ["docs", "src"] {
        fs::create_dir(home.workspace().join(folder)).unwrap();
    }
    home.file("a.txt", "x");
    home.configure_layer("governance/tools.yaml", TOOLS);
    let daemon = Daemon::start_in(home);
    for number in 0..6 {
        decide(&daemon, &format!("docs/{number}.md"), "approve");
    }
    decide(&daemon, "src/main.rs", "deny");
    let mut agent = daemon.agent();
    for _ in 0..60 {
        agent.execute("read_file", &json!({"path": "a.txt"}));
    }
    daemon
}

fn suggestions(home: &Home) -> Vec<Value> {
    let report = home.run(&["policy", "suggest", "--json"]).must_exit(0).json();
    report["suggestions"].as_array().unwrap().clone()
}

#[test]
fn applied_suggestion_waits_for_consent_and_then_holds() {
    let daemon = used_daemon();
    let shown = daemon.home().run(&["policy", "suggest"]).must_exit(0).stdout();
    assert!(shown.contains("67 calls since") && shown.contains("7 asked you"), "{shown}");
    assert!(shown.contains("6 fewer approvals; 1 call that you denied stays denied"), "{shown}");
    assert!(shown.contains("loosens the policy") && shown.contains("docs/*"), "{shown}");
    let found = suggestions(daemon.home());
    assert_eq!(found[0]["kind"], "always_approved", "{found:#?}");
    assert_eq!(found[0]["effect"]["questions_fewer"], 6, "{found:#?}");
    let before = fs::read_to_string(governance(daemon.home(), "tools.yaml")).unwrap();
    assert!(
        before.contains("requires_approval: true") && !before.contains("docs"),
        "nothing is applied by itself"
    );

    let applied = daemon.home().run(&["policy", "suggest", "--apply", "1"]).must_exit(0);
    assert!(applied.stderr().contains("sinew reload --accept"), "{applied}");
    let after = fs::read_to_string(governance(daemon.home(), "tools.yaml")).unwrap();
    assert!(after.contains("# I want to see") && after.contains("docs/*"), "{after}");
    let code = |command: &str, name: &str, more: &[&str]| {
        let path = format!("path={name}");
        let arguments = [&[command, "write_file", &path, "content=x"], more].concat();
        daemon.home().run(&arguments).output.status.code()
    };
    // The daemon holds the loosening back until the operator accepts it.
    assert_eq!(code("call", "docs/9.md", &["--async"]), Some(4));
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert_eq!(code("call", "docs/9.md", &["--async"]), Some(0), "the question in docs/ is gone");
    assert_eq!((code("explain", "docs/8.md", &[]), code("explain", "src/new.rs", &[])), (Some(0), Some(4)));
    assert_eq!(code("call", "src/new.rs", &["--async"]), Some(4), "the folder of the denied call still asks");
}

#[test]
fn unused_entry_is_removed_and_the_call_is_refused() {
    let home = used_daemon().stop();
    let explain = || home.run(&["explain", "run_command", "command:=[\"cargo\"]"]).output.status.code();
    let found = suggestions(&home);
    let unused =
        found.iter().find(|one| one["kind"] == "unused_rule").unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!(unused["evidence"], json!(["`cargo`: not used in the record"]), "{unused:#}");
    assert_eq!((&unused["loosens"], &unused["effect"]["calls"]), (&json!(false), &json!(67)), "{unused:#}");
    let number = unused["number"].to_string();
    home.run(&["policy", "suggest", "--apply", &number]).must_exit(0);
    assert_eq!(explain(), Some(3));
    assert!(suggestions(&home).iter().all(|one| one["kind"] != "unused_rule"));
    home.run(&["policy", "suggest", "--apply", "99"]).must_exit(2);
}

#[test]
fn report_fits_a_terminal_of_80_columns() {
    let home = used_daemon().stop();
    let shown = home.run(&["policy", "suggest"]).must_exit(0).stdout();
    // A diff shows the lines of the file and its path as they are.
    let own = shown.lines().filter(|line| !line.starts_with(['+', '-', ' ', '@']) || line.starts_with("   "));
    let root = home.workspace().canonicalize().unwrap().display().to_string();
    own.for_each(|line| assert!(line.replace(&root, "").chars().count() <= 80, "{line}\n{shown}"));
}
