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

/// Without an id, the calls are listed for which a change can be proposed.
#[test]
fn refused_calls_are_listed_with_their_ids() {
    let home = home(NARROW);
    home.file("b.txt", "x");
    home.run(&["call", "read_file", "path=a.txt"]);
    let empty = home.run(&["allow"]).must_exit(0);
    assert!(empty.stderr().contains("no call was refused"), "{empty}");
    refused(&home, &["read_file", "path=b.txt"]);
    refused(&home, &["read_file"]);
    let id = refused(&home, &["read_file", "path=b.txt"]);
    let shown = home.run(&["allow"]).must_exit(0);
    let text = shown.stdout();
    assert!(text.contains(&id) && text.contains("read_file ") && text.contains("b.txt"), "{shown}");
    let listed = home.run(&["allow", "--json"]).must_exit(0).json();
    let listed = listed["refused"].as_array().unwrap();
    assert_eq!((listed.len(), &listed[0]["call_id"]), (1, &json!(id)), "{listed:#?}");
    home.run(&["allow", "--yes"]).must_exit(2);
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
        "tools:\n  read_file:\n    forbidden_paths: [$WS/a.txt, \"**/b\"]\n",
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
        "tools:\n  search_files:\n    examples:\n      - {arguments: {query: k}, mode: NORMAL, expect: deny}
    forbidden_in_modes: [NORMAL]\n  read_file: {forbidden_paths: [$WS/k]}\n  list_directory: {forbidden_paths: [$WS/sub]}\n",
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
    check(&["search_files", "query=k"], 3, "the example expects deny");
    check(&["list_directory", "path=sub"], 3, "by hand");
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

/// A prefix would permit any code after `-c`, so the narrowest proposal ends with the arguments of the call.
#[test]
fn proposed_command_permits_no_further_arguments() {
    let home = home("tools:\n  run_command:\n    allowed_commands: [ls]\n");
    let call = |words: &[&str]| format!("command={}", json!(words));
    for (words, others, proposals) in [
        (&["python3", "-c"][..], &["print(1)", "-V"][..], 1),
        (&["node"], &["x.js"], 1),
        (&["bash"], &["-c"], 1),
        (&["git", "status"], &["--short"], 2),
        (&["git", "push"], &["--force"], 1),
        (&["awk", "1"], &["x"], 1),
        (&["uv", "run"], &["x"], 1),
        (&["pwd"], &["-P"], 2),
    ] {
        let id = refused(&home, &["run_command", &call(words)]);
        let found = allow(&home, &id, &["--json", "--yes"]).must_exit(0).json();
        assert_eq!(found["proposals"].as_array().unwrap().len(), proposals, "{words:?}: {found:#}");
        let explain = |words: &[&str], exit: i32| {
            home.run(&["explain", "run_command", &call(words)]).must_exit(exit);
        };
        explain(words, 0);
        for other in others {
            let longer = [words, &[*other]].concat();
            explain(&longer, 3);
            home.run(&["call", "run_command", &call(&longer)]).must_exit(3);
        }
        explain(&words[1..], 3);
    }
}

/// A pattern that forbids more than the file asked for is never lifted by a proposal.
#[test]
fn forbidding_pattern_is_not_lifted_for_one_file() {
    for (tools, advice) in [
        ("tools: {}\nforbidden_paths: [\"**/.env\"]\n", "read_file: {forbidden_paths_except: [\"**/.env\"]}"),
        ("tools:\n  read_file:\n    forbidden_paths: [\"**/.env\"]\n", "replace it by narrower patterns"),
        ("tools:\n  read_file:\n    forbidden_paths: [$WS/sub]\n", "replace it by narrower patterns"),
    ] {
        let home = home(tools);
        std::fs::create_dir(home.workspace().join("sub")).unwrap();
        home.file("sub/.env", "KEY=1");
        home.file(".env", "KEY=2");
        let id = refused(&home, &["read_file", "path=sub/.env"]);
        let run = allow(&home, &id, &["--yes"]).must_exit(3);
        assert!(run.stderr().contains(advice) && run.stderr().contains("by hand"), "{run}");
        assert_eq!(self::tools(&home), filled(&home, tools));
        home.run(&["call", "read_file", "path=sub/.env"]).must_exit(3);
    }
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
    let shown = allow(&home, &id, &[]).must_exit(4).stdout();
    assert!(
        shown.contains("sinew workspace add") && shown.contains("every tool may read and write"),
        "{shown}"
    );
    assert!(!home.root().join("config/sinew.yaml").exists(), "nothing was confirmed");
    allow(&home, &id, &["--yes"]).must_exit(0);
    assert!(!governance(&home, "tools.yaml").exists(), "the policy stays as it is");
    home.run_in(&workspace, &["call", "write_file", "path=big", "content=y"]).must_exit(0);
}

/// The proposals never leave the folder asked for, each is proved by the call, and the refusals of the week that
/// become possible with it are counted.
#[test]
fn wider_proposals_stay_in_the_folder_and_count_other_calls() {
    let home = home("tools:\n  read_file:\n    allowed_paths: [$WS/a.txt]\n");
    std::fs::create_dir_all(home.workspace().join("docs/deep")).unwrap();
    for name in ["docs/b.txt", "docs/c.txt", "docs/deep/d.txt", "e.txt"] {
        home.file(name, "x");
    }
    let id = refused(&home, &["read_file", "path=docs/b.txt"]);
    for other in ["docs/c.txt", "docs/deep/d.txt", "e.txt"] {
        refused(&home, &["read_file", &format!("path={other}")]);
    }
    let found = allow(&home, &id, &["--json"]).must_exit(4).json();
    let proposals = found["proposals"].as_array().unwrap();
    let others: Vec<usize> = proposals
        .iter()
        .map(|one| one["recent"]["others"]["read_file"].as_array().map_or(0, Vec::len))
        .collect();
    assert_eq!(others, [0, 1, 2], "{found:#}");
    for (number, (one, pattern)) in proposals.iter().zip(["docs/b.txt", "docs/*", "docs/**"]).enumerate() {
        let diff = one["diff"].as_str().unwrap();
        assert!(diff.contains(&filled(&home, &format!("$WS/{pattern}"))), "{diff}");
        assert!(one["reach"].to_string().contains(pattern), "{one}");
        assert_eq!(one["becomes"], "allow");
        let text = allow(&home, &id, &[]).must_exit(4).stdout();
        assert!(text.contains(&format!("{}. ", number + 1)), "{text}");
    }
    allow(&home, &id, &["--yes", "--choose", "2"]).must_exit(0);
    for (path, code) in [("docs/b.txt", 0), ("docs/c.txt", 0), ("docs/deep/d.txt", 3), ("e.txt", 3)] {
        home.run(&["call", "read_file", &format!("path={path}")]).must_exit(code);
    }
    allow(&home, &id, &["--yes", "--choose", "2"]).must_exit(0);
}

/// A folder is proposed as it was asked for, and no proposal opens the home of the user.
#[test]
fn proposed_workspace_is_the_folder_asked_for() {
    let home = Home::initialised();
    let user = home.user_home().canonicalize().unwrap();
    std::fs::create_dir_all(user.join("photos/2025")).unwrap();
    std::fs::write(user.join("loose.txt"), "x").unwrap();
    let list = |folder: &std::path::Path| format!("path={}", folder.display());
    let id = refused(&home, &["list_directory", &list(&user.join("photos/2025"))]);
    let shown = allow(&home, &id, &[]).must_exit(4).stdout();
    assert!(shown.contains("photos/2025 --read-only"), "{shown}");
    allow(&home, &id, &["--yes"]).must_exit(0);
    home.run(&["call", "list_directory", &list(&user.join("photos/2025"))]).must_exit(0);
    home.run(&["call", "list_directory", &list(&user.join("photos"))]).must_exit(3);
    for (tool, path) in [("list_directory", list(&user)), ("read_file", list(&user.join("loose.txt")))] {
        let id = refused(&home, &[tool, &path]);
        let run = allow(&home, &id, &["--yes"]).must_exit(3);
        assert!(run.stderr().contains("by hand"), "{run}");
    }
}

/// The folder may come from a repository, and a person copies the command into a shell.
#[test]
fn proposed_command_is_one_word_per_argument() {
    let home = Home::initialised();
    let folder = home.user_home().canonicalize().unwrap().join("x'; touch pwned; '");
    std::fs::create_dir(&folder).unwrap();
    let id = refused(&home, &["list_directory", &format!("path={}", folder.display())]);
    let found = allow(&home, &id, &["--json"]).must_exit(4).json();
    let command = found.pointer("/proposals/0/command").and_then(Value::as_str).unwrap();
    let script = format!("sinew() {{ printf '%s\\n' \"$@\"; }}; {command}");
    let output =
        std::process::Command::new("sh").args(["-c", &script]).current_dir(home.workspace()).output();
    let words = String::from_utf8(output.unwrap().stdout).unwrap();
    assert_eq!(words, format!("workspace\nadd\n{}\n--read-only\n", folder.display()));
    assert!(!home.workspace().join("pwned").exists());
}

#[test]
fn project_rule_is_not_forgotten_by_a_proposal() {
    let home = home("tools:\n  read_file:\n    forbidden_paths: [$WS/a.txt]\n");
    std::fs::create_dir(home.workspace().join(".sinew")).unwrap();
    home.file(".sinew/policy.yaml", "tools: {read_file: {forbidden_paths: [a.txt]}}\n");
    home.file("a.txt", "x");
    let id = refused(&home, &["read_file", "path=a.txt"]);
    let run = allow(&home, &id, &["--yes"]).must_exit(3);
    assert!(run.stderr().contains(".sinew/policy.yaml"), "{run}");
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
