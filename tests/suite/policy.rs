//! Policies checked and tried out before they take effect: `sinew check` and `sinew policy`.

mod allow;
mod between;
mod predictions;
mod project;
#[cfg(target_os = "linux")]
mod projects;
mod prove;
mod reach;
mod record;
mod replay;
mod statements;
mod suggest;

use std::fs;
use std::path::PathBuf;
use std::thread;

use serde_json::{Value, json};
use tests::{Daemon, Home, wait_for};

fn governance(home: &Home, name: &str) -> PathBuf {
    home.root().join("config/governance").join(name)
}

/// Copy of this home's policy in a folder of its own, with one text replaced by another.
fn candidate(home: &Home, part: &str, by: &str) -> String {
    let folder = home.user_home().join("candidate");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    for name in ["modes.yaml", "tools.yaml", "safety.yaml"] {
        let text = fs::read_to_string(governance(home, name)).unwrap();
        fs::write(folder.join(name), text.replace(part, by)).unwrap();
    }
    folder.canonicalize().unwrap().display().to_string()
}

/// Makes a call that writes a file and decides it on the control socket.
fn decide(daemon: &Daemon, name: &str, answer: &str) {
    let (mut agent, arguments) = (daemon.agent(), json!({"path": name, "content": "x"}));
    let call = thread::spawn(move || agent.execute("write_file", &arguments));
    let mut control = daemon.control();
    let open = wait_for("the question", || {
        let reply = control.request("control/approvals.list", &json!({}));
        reply["result"]["approvals"].as_array()?.first().cloned()
    });
    let reply = control.request("control/approvals.decide", &json!({"id": open["id"], "answer": answer}));
    assert!(reply.get("error").is_none(), "{reply}");
    call.join().unwrap();
}

#[test]
fn shipped_configuration_passes_its_own_check() {
    for home in [Home::new(), Home::initialised()] {
        let found = home.run(&["check", "--json"]).must_exit(0).json();
        assert_eq!(
            (&found["ok"], &found["errors"], &found["warnings"]),
            (&json!(true), &json!([]), &json!([]))
        );
        let text = home.run(&["check"]).must_exit(0).stdout();
        assert!(text.contains("can be used: 0 errors, 0 warnings"), "{text}");
    }
}

#[test]
fn check_reports_every_mistake_with_position_and_fix() {
    let home = Home::initialised();
    let tools = "tools:
  read_file:
    allowed_paths: [/srv/**, /srv/x, /**]
    allow_every_path: true
    forbidden_paths: [/srv]
  write_fil:
    rate_limit_per_hour: 1
  unknown_tool:
    rate_limit_per_hour: 1
";
    home.configure("governance/tools.yaml", tools);
    home.configure("governance/modes.yaml", "modes: {NORMAL: {require_approval_for: [wriet_file]}}\n");
    let run = home.run(&["check", "--json"]);
    assert_eq!(run.output.status.code(), Some(7), "{run}");
    let found = run.json();
    let reported = |list: &str, line: u64, words: &str| {
        let all = found[list].as_array().unwrap();
        let one = all.iter().find(|one| one["message"].as_str().unwrap().contains(words));
        let one = one.unwrap_or_else(|| panic!("{words}: {found:#}"));
        assert_eq!(one["line"], line, "{one}");
        assert!(one["suggestion"].is_string() && one["file"].as_str().unwrap().ends_with(".yaml"), "{one}");
    };
    reported("errors", 6, "no tool is called `write_fil`");
    reported("errors", 1, "`wriet_file` is not a keyword");
    reported("warnings", 3, "allows every path of the machine");
    reported("warnings", 3, "`/srv/**` never matches");
    reported("warnings", 3, "`/srv/x` changes nothing");
    let text = home.run(&["check"]);
    assert_eq!(text.output.status.code(), Some(7), "{text}");
    assert!(text.stdout().contains("cannot be used: "), "{text}");
    home.configure("governance/modes.yaml", "modes: {NORMAL: {}}\n");
    home.configure("governance/tools.yaml", "tools:\n  unknown_tool:\n    rate_limit_per_hour: 1\n");
    let found = home.run(&["check", "--json"]).must_exit(0).json();
    assert!(found["warnings"].to_string().contains("no tool is called `unknown_tool`"), "{found}");
    home.configure("sinew.yaml", "nonsense: true\n");
    home.configure("governance/safety.yaml", "rate_limits: {NORMAL: 7}\n");
    let run = home.run(&["check", "--json"]);
    assert_eq!(
        (run.output.status.code(), run.json()["errors"].as_array().unwrap().len()),
        (Some(7), 2),
        "{run}"
    );
}

/// A pattern for every path is an error unless the file states that it is intended, and then the daemon warns
/// at each start.
#[test]
fn allowing_every_path_needs_an_explicit_statement() {
    let home = Home::initialised();
    for all in ["/**", "**", "/"] {
        let tools = format!("tools:\n  read_file:\n    allowed_paths: [\"{all}\"]\n");
        home.configure("governance/tools.yaml", &tools);
        for words in [&["serve"][..], &["call", "read_file", "path=x"]] {
            let run = home.run(words).must_exit(7);
            let reported = run.stderr();
            assert!(
                reported.contains("tools.yaml:3:21") && reported.contains("allow_every_path: true"),
                "{all}: {reported}"
            );
        }
        home.configure("governance/tools.yaml", &format!("{tools}    allow_every_path: true\n"));
        let reported = home.run(&["call", "read_file", "path=/etc/hostname"]);
        assert!(reported.stderr().contains("allows every path of the machine"), "{all}: {reported}");
    }
    let daemon = Daemon::start_in(home);
    assert!(daemon.log().contains("allows every path of the machine"), "{}", daemon.log());
    let shut = daemon.agent().execute("read_file", &json!({"path": "/proc/self/environ"}));
    assert_eq!(shut["metadata"]["refusal"]["code"], "path_forbidden", "built-in denials still apply: {shut}");
}

#[test]
fn policy_that_breaks_its_own_example_stops_the_daemon() {
    let home = Home::initialised();
    let example = "{arguments: {path: .env}, mode: NORMAL, expect: allow}";
    let tools = format!(
        "tools:\n  read_file:\n    forbidden_paths: [\"**/.env\"]\n    examples:\n      - {example}\n"
    );
    home.configure("governance/tools.yaml", &tools);
    for words in [&["check"][..], &["call", "read_file", "path=x"]] {
        let run = home.run(words);
        assert_eq!(run.output.status.code(), Some(7), "{run}");
        let run_output = format!("{}{}", run.stdout(), run.stderr());
        assert!(
            run_output.contains("expects allow; the rules say deny") && run_output.contains("tools.yaml:5:9"),
            "{run_output}"
        );
    }
}

#[test]
fn cases_are_tried_without_running_anything() {
    let home = Home::initialised();
    let write = |text: &str| home.file("cases.yaml", text).display().to_string();
    let good = write(
        "cases:
  - {tool: read_file, arguments: {path: notes.txt}, mode: NORMAL, expect: allow}
  - {tool: write_file, arguments: {path: notes.txt, content: x}, mode: ALERT, expect: ask}
  - {tool: write_file, arguments: {path: $HOME/.ssh/config, content: x}, mode: NORMAL, expect: deny, code: path_forbidden}
",
    );
    let run = home.run(&["policy", "test", &good]).must_exit(0);
    assert!(run.stdout().contains("3 of 3 passed"), "{run}");
    assert!(!home.workspace().join("notes.txt").exists(), "nothing was run");
    let bad = write(
        "workspaces: [/elsewhere]
cases:
  - {tool: read_file, arguments: {path: /elsewhere/x}, mode: NORMAL, expect: allow}
  - {tool: read_file, arguments: {path: /etc/shadow}, mode: NORMAL, expect: deny, code: path_not_allowed}
",
    );
    let run = home.run(&["policy", "test", &bad, "--json"]).must_exit(1).json();
    assert_eq!(
        (&run["passed"], &run["failed"], &run["cases"][1]["line"]),
        (&json!(1), &json!(1), &json!(4)),
        "{run}"
    );
    assert!(run["cases"][1]["found"].as_str().unwrap().contains("path_forbidden"), "{run}");
    let unknown = write("cases:\n  - {tool: read_fil, arguments: {}, mode: NORMAL, expect: deny}\n");
    let run = home.run(&["policy", "test", &unknown]);
    assert_eq!(run.output.status.code(), Some(7), "{run}");
    assert!(run.stderr().contains("did you mean `read_file`"), "{run}");
}

#[test]
fn reach_lists_what_runs_without_approval() {
    let home = Home::initialised();
    let reach =
        |words: &[&str]| home.run(&[&["policy", "reach", "--json"], words].concat()).must_exit(0).json();
    let tools = |found: &Value, mode: &str| -> Vec<String> {
        let all = found["reach"].as_array().unwrap().iter().filter(|one| one["mode"] == mode);
        all.map(|one| one["tool"].as_str().unwrap().to_owned()).collect()
    };
    let all = reach(&[]);
    assert!(tools(&all, "NORMAL").contains(&"write_file".to_owned()), "{all:#}");
    for mode in ["ALERT", "DEGRADED", "LOCKDOWN", "RECOVERY"] {
        let found = tools(&all, mode);
        assert!(
            found.contains(&"read_file".to_owned()) && !found.contains(&"write_file".to_owned()),
            "{mode}: {found:?}"
        );
    }
    let lockdown = reach(&["--mode", "LOCKDOWN"]);
    assert_eq!(tools(&lockdown, "LOCKDOWN"), tools(&all, "LOCKDOWN"));
    assert!(tools(&lockdown, "NORMAL").is_empty());
    let table = home.run(&["policy", "reach"]).must_exit(0).stdout();
    assert!(
        table.contains("workspaces") && table.contains(&home.workspace().display().to_string()),
        "{table}"
    );
}

#[test]
fn candidate_policy_is_replayed_against_recorded_calls() {
    let home = Home::initialised();
    home.file("a.txt", "x");
    for words in [["call", "read_file", "path=a.txt"], ["call", "read_file", "path=a.txt"]] {
        home.run(&words).must_exit(0);
    }
    home.run(&["call", "write_file", "path=b.txt", "content=y"]).must_exit(0);
    home.run(&["call", "read_file", "path=/etc/hostname"]).must_exit(3);
    let replay =
        |folder: &str| home.run(&["policy", "replay", "--against", folder, "--json"]).must_exit(0).json();
    let same = replay(&candidate(&home, "# Rules of each tool", "# The rules of each tool"));
    assert_eq!(
        (&same["same"], &same["changed"], &same["refusals"]),
        (&json!(4), &json!([]), &json!(1)),
        "{same:#}"
    );
    assert_eq!(same["differences"][0]["effect"], "neutral", "{same:#}");
    let strict = replay(&candidate(&home, "[\"**/.env\", ", "[\"**/.env\", \"**/a.txt\", "));
    assert_eq!((&strict["same"], &strict["changed"][0]["calls"]), (&json!(2), &json!(2)), "{strict:#}");
    assert_eq!(strict["changed"][0]["becomes"], "deny");
    assert!(strict["changed"][0]["samples"][0]["rule"]["line"].as_u64().unwrap() > 0, "{strict:#}");
    assert!(
        strict["differences"].as_array().unwrap().iter().all(|one| one["effect"] == "tightens"),
        "{strict:#}"
    );
    let loose = replay(&candidate(&home, "max_file_size_mb: 10", "max_file_size_mb: 11"));
    assert_eq!(loose["differences"][0]["effect"], "loosens", "{loose:#}");
    let forbidding = candidate(&home, "/sys, $HOME/.cargo]", "/sys, $HOME/.cargo, \"**/b.txt\"]");
    let text = home.run(&["policy", "replay", "--against", &forbidding]).must_exit(0).stdout();
    assert!(text.contains("write_file: permitted before, deny now (1 recorded)"), "{text}");
    let own = "{path: notes.txt, content: hello}, mode: NORMAL, expect:";
    let broken = candidate(&home, &format!("{own} allow"), &format!("{own} deny"));
    let run = home.run(&["policy", "replay", "--against", &broken]);
    assert_eq!(run.output.status.code(), Some(7), "a candidate that breaks its own examples is none: {run}");
}
