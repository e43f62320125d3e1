//! `sinew allow`: from a refusal to the configuration line that would permit it.

use std::fs;

use serde_json::{Value, json};
use tests::{Daemon, Home, SinewRun};

use super::governance;

/// Home whose `tools.yaml` is this, with `$WS` for its workspace.
fn home(tools: &str) -> Home {
    let home = Home::initialised();
    home.configure("governance/tools.yaml", &filled(&home, tools));
    home
}

fn filled(home: &Home, text: &str) -> String {
    text.replace("$WS", &home.workspace().canonicalize().unwrap().display().to_string())
}

fn tools(home: &Home) -> String {
    fs::read_to_string(governance(home, "tools.yaml")).unwrap().replace("extends: none\n", "")
}

/// Makes a call that is refused and returns its id.
fn refused(home: &Home, words: &[&str]) -> String {
    let run = home.run(&[&["call"], words, &["--json"]].concat());
    let reply = run.json();
    assert_eq!(reply["success"], false, "{run}");
    let reported = reply.to_string();
    assert!(
        !reported.contains("canonical") && !reported.contains("\"facts\""),
        "the caller is told no more: {reported}"
    );
    reply["metadata"]["call_id"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned()
}

fn allow(home: &Home, id: &str, words: &[&str]) -> SinewRun {
    home.run(&[&["allow", id], words].concat())
}

const NARROW: &str = "# mine
tools:
  read_file:
    allowed_paths: # where it may look
      - $WS/a.txt
      # the rest is mine alone

    max_file_size_mb: 0 # small
  write_file: {requires_approval: true}
";

#[test]
fn smallest_change_is_written_only_after_confirmation() {
    let home = home(NARROW);
    home.file("b [1].txt", "x");
    let id = refused(&home, &["read_file", "path=b [1].txt"]);
    let shown = allow(&home, &id, &[]).must_exit(4);
    let text = shown.stdout();
    assert!(text.contains("+      - \"") && text.contains("b [[]1[]].txt\""), "{text}");
    assert!(text.contains("-    max_file_size_mb: 0 # small\n+    max_file_size_mb: 1 # small"), "{text}");
    assert!(text.contains("with this change the call runs") && text.contains("tools.yaml"), "{text}");
    assert_eq!(tools(&home), filled(&home, NARROW), "the change was not confirmed: {shown}");
    let reported = allow(&home, &id, &["--json"]).must_exit(4).json();
    assert_eq!((&reported["becomes"], &reported["written"]), (&json!("allow"), &json!(false)), "{reported}");
    assert!(reported["rules"][0]["line"].as_u64().unwrap() > 0, "{reported}");
    allow(&home, &id, &["--yes"]).must_exit(0);
    let expect = NARROW
        .replace("      - $WS/a.txt\n", "      - $WS/a.txt\n      - \"$WS/b [[]1[]].txt\"\n")
        .replace("mb: 0 #", "mb: 1 #");
    assert_eq!(tools(&home), filled(&home, &expect), "comments and layout stay");
    home.run(&["call", "read_file", "path=b [1].txt"]).must_exit(0);
    home.run(&["call", "read_file", "path=b.txt"]).must_exit(3);
    let again = allow(&home, &id, &["--yes"]).must_exit(0);
    assert!(again.stdout().contains("already permits this call"), "{again}");
    assert_eq!(tools(&home), filled(&home, &expect));
}

#[test]
fn each_kind_of_refusal_has_its_line() {
    let check = |before: &str, call: &[&str], exit: i32, after: &str| {
        let home = home(before);
        home.file("a.txt", "x");
        let id = refused(&home, call);
        let run = allow(&home, &id, &["--yes"]).must_exit(0);
        assert_eq!(tools(&home), filled(&home, after), "{run}");
        home.run(&[&["call"], call].concat()).must_exit(exit);
    };
    let read = ["read_file", "path=a.txt"];
    check(
        "tools:\n  read_file:\n    forbidden_paths: [\"**/a.txt\", \"**/b\"]\n",
        &read,
        0,
        "tools:\n  read_file:\n    forbidden_paths: [\"**/b\"]\n",
    );
    check(
        "tools:\n  read_file:\n    allowed_in_modes: [ALERT]\n",
        &read,
        0,
        "tools:\n  read_file:\n    allowed_in_modes: [ALERT, NORMAL]\n",
    );
    check(
        "tools:\n  read_file:\n    forbidden_in_modes:\n      - NORMAL\n",
        &read,
        0,
        "tools:\n  read_file:\n    forbidden_in_modes: []\n",
    );
    check(
        "tools:\n  read_file:\n    requires_approval: true\n",
        &read,
        0,
        "tools:\n  read_file:\n    requires_approval: true\n    unattended_paths: [$WS/a.txt]\n",
    );
    let asks = "tools:\n  read_file:\n    requires_approval: true\n    forbidden_paths: [/x, $WS/a.txt]\n";
    check(asks, &read, 4, &asks.replace(", $WS/a.txt", ""));
}

#[test]
fn refusal_that_no_rule_can_lift_has_advice() {
    let home = home(
        "tools:\n  read_file:\n    examples:\n      - {arguments: {path: k}, mode: NORMAL, expect: deny}
    forbidden_paths: [\"**/k\"]\n  list_directory: {forbidden_paths: [$WS/sub]}\n",
    );
    fs::create_dir(home.workspace().join("sub")).unwrap();
    let before = tools(&home);
    let check = |call: &[&str], exit: i32, words: &str| {
        let id = refused(&home, call);
        let run = allow(&home, &id, &["--yes"]).must_exit(exit);
        assert!(run.stderr().contains(words), "{words}: {run}");
        assert_eq!(tools(&home), before, "{run}");
    };
    check(&["write_file", "path=.git/config", "content=x"], 3, "built-in denial");
    check(&["read_file", "path=/etc/hostname"], 3, "sinew workspace add /etc");
    check(&["read_file", "pth=x"], 3, "before any rule was evaluated");
    check(&["no_such_tool", "x=y"], 3, "the tool does not exist");
    check(&["read_file", "path=k"], 3, "the example expects deny");
    check(&["list_directory", "path=sub"], 7, "by hand");
    let secret = format!("path=k/ghp_{}", "a1B2".repeat(9));
    check(&["read_file", &secret], 3, "its record is incomplete");
    let kept = serde_json::to_string(&home.records()).unwrap();
    assert!(kept.contains("path=") || kept.contains("read_file"), "there is a record: {kept}");
    assert!(!kept.contains("ghp_a1B2"), "{kept}");
    home.run(&["allow", "nonsense"]).must_exit(2);
    home.run(&["allow", "01890a5d-ac96-774b-bcce-b302099a8057"]).must_exit(2);
    home.file("a.txt", "x");
    let ran = home.run(&["call", "read_file", "path=a.txt", "--json"]).must_exit(0).json();
    let run = allow(&home, ran["metadata"]["call_id"].as_str().unwrap(), &[]).must_exit(2);
    assert!(run.stderr().contains("was not refused"), "{run}");
}

#[test]
fn running_daemon_waits_until_a_looser_rule_is_accepted() {
    let home = home("tools:\n  read_file:\n    forbidden_paths: [$WS/a.txt]\n");
    home.file("a.txt", "x");
    let daemon = Daemon::start_in(home);
    let id = refused(daemon.home(), &["read_file", "path=a.txt"]);
    let run = allow(daemon.home(), &id, &["--yes"]).must_exit(0);
    assert!(run.stderr().contains("sinew reload --accept"), "{run}");
    daemon.home().run(&["call", "read_file", "path=a.txt"]).must_exit(3);
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    daemon.home().run(&["call", "read_file", "path=a.txt"]).must_exit(0);
    daemon.stop();
}

#[test]
fn home_without_files_stays_without_files() {
    let home = Home::new();
    home.file("big", "x");
    let workspace = home.workspace();
    let run = home.run_in(&workspace, &["call", "write_file", "path=big", "content=y", "--json"]);
    let id = run.json()["metadata"]["call_id"].as_str().unwrap().to_owned();
    let run = allow(&home, &id, &["--yes"]).must_exit(3);
    assert!(run.stderr().contains("workspace"), "{run}");
    assert!(!governance(&home, "tools.yaml").exists(), "{run}");
}

#[test]
fn refusals_are_judged_again_by_a_candidate() {
    let home = home("tools:\n  read_file:\n    forbidden_paths: [$WS/a.txt, $WS/b.txt]\n");
    for name in ["a.txt", "b.txt"] {
        home.file(name, "x");
        refused(&home, &["read_file", &format!("path={name}")]);
    }
    refused(&home, &["read_file", "nonsense=1"]);
    let candidate = super::candidate(&home, &filled(&home, "$WS/a.txt, "), "");
    let found = home.run(&["policy", "replay", "--against", &candidate, "--json"]).must_exit(0).json();
    let changed: Vec<&Value> = found["changed"].as_array().unwrap().iter().collect();
    assert_eq!(changed.len(), 1, "{found:#}");
    let reported = ["tool", "was", "becomes", "calls"].map(|key| changed[0][key].clone());
    assert_eq!(reported, [json!("read_file"), json!("deny"), json!("allow"), json!(1)], "{found:#}");
    assert_eq!(
        ["same", "not_judged", "refusals"].map(|key| found[key].as_u64()),
        [Some(1), Some(1), Some(3)]
    );
    let text = home.run(&["policy", "replay", "--against", &candidate]).must_exit(0).stdout();
    assert!(text.contains("read_file: refused before, allow now (1 recorded)"), "{text}");
}
