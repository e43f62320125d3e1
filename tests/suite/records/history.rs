//! Past calls as a person reads them: lists, pages, prefixes of ids, and undo by time.

use serde_json::json;
use tests::{Daemon, Home};

/// Home in which a file was read once, written twice, and a forbidden one refused.
fn home_with_history() -> Home {
    let daemon = Daemon::start();
    let mut agent = daemon.agent();
    for content in ["first", "second"] {
        let written = agent.execute("write_file", &json!({"path": "a.txt", "content": content}));
        assert_eq!(written["success"], true, "{written}");
    }
    agent.execute("read_file", &json!({"path": "a.txt"}));
    agent.execute("read_file", &json!({"path": "/etc/shadow"}));
    daemon.stop()
}

fn id_of(home: &Home, kind: &str) -> String {
    let record = home.records().into_iter().rev().find(|record| record["kind"] == kind).unwrap();
    record["call_id"].as_str().unwrap().to_owned()
}

#[test]
fn list_of_calls_has_one_line_per_call() {
    let home = home_with_history();
    for words in [["ledger", "tail"].as_slice(), &["ledger", "query", "--since", "today"]] {
        let shown = home.run(words).must_exit(0).stdout();
        let lines = |part: &str| shown.lines().filter(|line| line.contains(part)).count();
        assert_eq!((lines("write_file"), lines("read_file")), (2, 2), "{shown}");
        assert_eq!((lines("done"), lines("refused: path_forbidden")), (3, 1), "{shown}");
        assert!(shown.lines().all(|line| line == line.trim()), "no spaces at the ends: {shown}");
    }
    let raw = home.run(&["ledger", "tail", "--raw"]).must_exit(0).stdout();
    assert_eq!(
        raw.lines().filter(|line| line.contains("write_file")).count(),
        4,
        "decisions and outcomes: {raw}"
    );
    let last = home.run(&["ledger", "tail", "-n", "2"]).must_exit(0).stdout();
    assert_eq!(last.lines().count(), 3, "a header and two lines: {last}");
}

#[test]
fn page_of_a_call_names_rule_and_undo_command() {
    let home = home_with_history();
    let written = id_of(&home, "outcome");
    let page = home.run(&["ledger", "show", &written[..18]]).must_exit(0).stdout();
    for part in [
        "done in",
        "who",
        "write_file.allowed_in_modes",
        "tools.yaml:",
        "record_decision",
        "changed ",
        "seal",
    ] {
        assert!(page.contains(part), "{part} is missing: {page}");
    }
    let refused = id_of(&home, "refusal");
    let page = home.run(&["ledger", "show", &refused]).must_exit(0).stdout();
    assert!(
        page.contains("refused: path_forbidden") && page.contains(&format!("sinew allow {refused}")),
        "{page}"
    );
}

#[test]
fn unique_prefix_of_an_id_is_enough() {
    let home = home_with_history();
    let id = id_of(&home, "refusal");
    let shown = |id: &str| home.run(&["ledger", "show", id]).must_exit(0).stdout();
    assert_eq!(shown(&id[..23]), shown(&id));
    assert_eq!(shown(&id.replace('-', "")[..20]), shown(&id));
    assert_eq!(
        home.run(&["trace", &id[..23]]).must_exit(0).stdout(),
        home.run(&["trace", "--last"]).must_exit(0).stdout()
    );
    assert_eq!(home.run(&["explain", &id[..18]]).must_exit(0).stdout(), shown(&id), "how it was decided");
    let several = home.run(&["ledger", "show", &id[..4]]).must_exit(2);
    assert!(several.stderr().contains(&id) && several.stderr().contains("give more digits"), "{several}");
    let none = home.run(&["ledger", "show", "ffffffff"]).must_exit(1);
    assert!(none.stderr().contains("no call id starts with `ffffffff`"), "{none}");
}

#[test]
fn approving_needs_the_whole_id() {
    let daemon = Daemon::start();
    daemon.home().run(&["mode", "set", "ALERT"]).must_exit(0);
    let words = ["call", "write_file", "path=a.txt", "content=x", "--async"];
    daemon.home().run(&words).must_exit(4);
    let listed = daemon.home().run(&["approvals", "list", "--json"]).must_exit(0).json();
    let id = listed["approvals"][0]["id"].as_str().unwrap();
    let refused = daemon.home().run(&["approve", &id[..20]]);
    assert_ne!(refused.output.status.code(), Some(0), "{refused}");
    let list = daemon.home().run(&["ledger", "tail"]).must_exit(0).stdout();
    assert!(list.contains("waiting for approval") && !list.contains("refused"), "{list}");
    daemon.home().run(&["approve", id]).must_exit(0);
}

#[test]
fn unknown_filter_value_lists_the_known_ones() {
    let home = home_with_history();
    let kind = home.run(&["ledger", "query", "--kind", "decisions"]).must_exit(2);
    assert!(kind.stderr().contains("decision") && kind.stderr().contains("refusal"), "{kind}");
    let outcome = home.run(&["ledger", "query", "--outcome", "denied"]).must_exit(2);
    assert!(outcome.stderr().contains("refused"), "{outcome}");
    let category = home.run(&["tools", "list", "--category", "nothing"]).must_exit(2);
    assert!(category.stderr().contains("read_only") && category.stderr().contains("network"), "{category}");
    let empty = home.run(&["ledger", "query", "--tool", "no_such_tool"]).must_exit(0);
    assert_eq!((empty.stdout(), empty.stderr()), (String::new(), "no record matches\n".to_owned()));
}

#[test]
fn undo_reverts_the_last_call_or_a_period() {
    let home = home_with_history();
    let file = home.workspace().join("a.txt");
    let content = || std::fs::read_to_string(&file).ok();
    home.run(&["undo", "--last"]).must_exit(0);
    assert_eq!(content().as_deref(), Some("first"));
    let plan = home.run(&["undo", "--since", "1h", "--dry-run"]).must_exit(0);
    assert_eq!(plan.stdout().matches("write_file").count(), 1, "the other is undone already: {plan}");
    assert_eq!(content().as_deref(), Some("first"), "a dry run");
    home.run(&["undo", "--since", "1h"]).must_exit(3);
    assert_eq!(content().as_deref(), Some("first"), "not confirmed");
    home.run(&["undo", "--since", "1h", "--yes"]).must_exit(0);
    assert_eq!(content(), None, "the first call created the file");
    home.run(&["undo", "--last"]).must_exit(1);
}

#[test]
fn undo_of_a_period_names_conflicts_and_changes_nothing() {
    let daemon = Daemon::start();
    let mut agent = daemon.agent();
    for name in ["a.txt", "b.txt"] {
        agent.execute("write_file", &json!({"path": name, "content": "x"}));
        agent.execute("write_file", &json!({"path": name, "content": "y"}));
    }
    let home = daemon.stop();
    std::fs::write(home.workspace().join("b.txt"), "by another program").unwrap();
    let refused = home.run(&["undo", "--since", "1h", "--yes"]).must_exit(1);
    assert!(
        refused.stdout().contains("conflict:") && refused.stderr().contains("nothing was undone"),
        "{refused}"
    );
    assert_eq!(std::fs::read_to_string(home.workspace().join("a.txt")).unwrap(), "y");
    std::fs::write(home.workspace().join("b.txt"), "y").unwrap();
    home.run(&["undo", "--since", "1h", "--yes"]).must_exit(0);
    assert!(!home.workspace().join("a.txt").exists() && !home.workspace().join("b.txt").exists());
}
