//! `sinew policy prove` and `sinew policy diff`: each statement is checked by making the calls it is about.

use serde_json::Value;
use tests::{Daemon, Home, SinewRun};

const TOOLS: &str = "tools:
  write_file: {allowed_paths: [\"$ROOT/src/**\"], forbidden_paths: {add: [\"**/gen\"]}}
  edit_file: {allowed_paths: []}
  create_directory: {allowed_paths: []}
  delete_file: {requires_approval: true}
  run_tests: {forbidden_in_modes: {add: [NORMAL, ALERT, DEGRADED, RECOVERY]}}
  run_command: {allowed_commands: [ls, touch, {argv: [git, log]}]}
  fetch_url: {allowed_domains: [docs.python.org]}
";

fn home() -> Home {
    let home = Home::initialised();
    let root = home.workspace().canonicalize().unwrap();
    home.configure_layer("governance/tools.yaml", &TOOLS.replace("$ROOT", root.to_str().unwrap()));
    home
}

fn prove(home: &Home, question: &str) -> SinewRun {
    home.run(&["policy", "prove", question, "--json"])
}

/// Makes the call of a witness, and returns the exit code.
fn make(home: &Home, command: &str, witness: &Value) -> Option<i32> {
    let (tool, arguments) = (witness["tool"].as_str().unwrap(), witness["arguments"].to_string());
    home.run(&[command, tool, "--json", &arguments]).output.status.code()
}

#[test]
fn each_witness_is_decided_as_stated() {
    let home = home();
    for question in
        ["write below src in NORMAL", "read below . in NORMAL", "run git in NORMAL", "reach *.python.org"]
    {
        let proof = prove(&home, question).must_exit(0).json();
        assert_eq!(proof["exists"], true, "{question}: {proof:#}");
        for witness in proof["witnesses"].as_array().unwrap() {
            let expect = if witness["verdict"] == "ask" { 4 } else { 0 };
            // A path to delete must exist, which the proof does not know.
            if witness["mode"] == "NORMAL" && witness["tool"] != "delete_file" {
                assert_eq!(make(&home, "explain", witness), Some(expect), "{question}: {witness:#}");
            }
        }
    }
    let written = prove(&home, "write src/a.txt in NORMAL without human by write_file").must_exit(0).json();
    assert_eq!(make(&home, "call", &written["witnesses"][0]), Some(1), "without its folder: {written:#}");
    std::fs::create_dir(home.workspace().join("src")).unwrap();
    assert_eq!(make(&home, "call", &written["witnesses"][0]), Some(0), "{written:#}");
    assert!(home.workspace().join("src/a.txt").exists());
}

#[test]
fn calls_that_no_proof_finds_are_refused() {
    let home = home();
    std::fs::create_dir_all(home.workspace().join("src/gen")).unwrap();
    for (question, call) in [
        ("write below docs in NORMAL by write_file", &["write_file", "path=docs/a", "content=x"][..]),
        ("write below src/gen by write_file", &["write_file", "path=src/gen/a", "content=x"]),
        ("run git push", &["run_command", "command:=[\"git\",\"push\"]"]),
        ("reach example.org by fetch_url", &["fetch_url", "url=https://example.org/"]),
        ("read below .env", &["read_file", "path=.env"]),
    ] {
        let proof = prove(&home, question).must_exit(1).json();
        assert_eq!(
            (&proof["exists"], proof["undecided"].as_array().unwrap().len()),
            (&false.into(), 0),
            "{proof:#}"
        );
        let code = home.run(&[&["call"], call].concat()).output.status.code();
        assert_ne!(code, Some(0), "{question}");
    }
    let shown = prove(&home, "run pytest").must_exit(1).json();
    assert!(shown["choosing_programs"].to_string().contains("run_tests"), "{shown:#}");
}

/// A sandboxed program changes what the proof says, and nothing else.
#[test]
fn program_writes_where_the_proof_says() {
    let home = home();
    let touch = |path: &str| {
        let command = format!("command:=[\"touch\",{path:?}]");
        home.run(&["call", "run_command", &command]);
        home.workspace().join(path).exists()
    };
    let says = |path: &str| {
        let question = format!("write {path} in NORMAL by run_command");
        prove(&home, &question).output.status.code() == Some(0)
    };
    for (path, expect) in [("plain.txt", true), (".vscode", false)] {
        assert_eq!((says(path), touch(path)), (expect, expect), "{path}");
    }
}

#[test]
fn question_that_cannot_be_read_shows_the_forms() {
    let home = home();
    let refused = home.run(&["policy", "prove", "wirte below src"]).must_exit(2);
    for part in ["did you mean `write`?", "reach HOST", "without human"] {
        assert!(refused.stderr().contains(part), "{refused}");
    }
    home.run(&["policy", "prove", "write below src by no_such_tool"]).must_exit(2);
    home.run(&["policy", "diff", "effective", "nothing"]).must_exit(2);
}

#[test]
fn calls_of_a_diff_change_their_verdict() {
    let daemon = Daemon::start_in(home());
    let home = daemon.home();
    let folder = home.user_home().join("candidate");
    std::fs::create_dir(&folder).unwrap();
    let candidate = folder.join("tools.yaml");
    let root = home.workspace().canonicalize().unwrap();
    let text = TOOLS.replace("/src/**", "/docs/**").replace("$ROOT", root.to_str().unwrap());
    std::fs::write(&candidate, &text).unwrap();
    let compare = |before: &str| -> Vec<Value> {
        let diff =
            home.run(&["policy", "diff", before, candidate.to_str().unwrap(), "--json"]).must_exit(0).json();
        assert_eq!(diff["undecided"], serde_json::json!([]), "{diff:#}");
        let changes = diff["changes"].as_array().unwrap().iter();
        changes.filter(|one| one["mode"] == "NORMAL" && one["detail"].is_null()).cloned().collect()
    };
    let changes = compare("effective");
    let code = |verdict: &Value| match verdict.as_str().unwrap() {
        "allow" => Some(0),
        "ask" => Some(4),
        _ => Some(3),
    };
    let mut effects: Vec<&str> = changes.iter().map(|one| one["effect"].as_str().unwrap()).collect();
    effects.sort_unstable();
    assert_eq!(effects, ["loosens", "tightens"], "{changes:#?}");
    for change in &changes {
        assert_eq!(make(home, "explain", change), code(&change["before"]), "{change:#}");
    }
    home.configure_layer("governance/tools.yaml", &text);
    home.run(&["reload", "--accept"]).must_exit(0);
    for change in &changes {
        assert_eq!(make(home, "explain", change), code(&change["after"]), "{change:#}");
    }
    assert_eq!(compare("effective"), Vec::<Value>::new());
}
