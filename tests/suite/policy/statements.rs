//! Statements that the policy commands print about what holds. Each is read, and then the call is made.

use std::fs;

use serde_json::{Value, json};
use tests::{Daemon, Home};

fn code(result: &Value) -> &str {
    match result["success"] == true {
        true => "done",
        false => result["metadata"]["refusal"]["code"].as_str().unwrap_or("failed"),
    }
}

fn write(daemon: &Daemon, path: &str) -> String {
    code(&daemon.agent().execute("write_file", &json!({"path": path, "content": "x"}))).to_owned()
}

fn home_with(tools: &str) -> Home {
    let home = Home::initialised().without_automatic_modes();
    for folder in ["src", "docs", "gen"] {
        fs::create_dir(home.workspace().join(folder)).unwrap();
    }
    let root = home.workspace().canonicalize().unwrap().display().to_string();
    home.configure_layer("governance/tools.yaml", &tools.replace("$WS", &root));
    home
}

/// What `config set` says about the running daemon holds when the command ends, without a wait.
#[test]
fn config_set_states_what_the_daemon_applies() {
    let daemon = Daemon::start_in(home_with("tools: {}\n"));
    let root = daemon.home().workspace().canonicalize().unwrap().display().to_string();
    let set = |value: &str| {
        let value = value.replace("$WS", &root);
        daemon.home().run(&["config", "set", "tools.write_file.allowed_paths", &value]).must_exit(0)
    };
    assert_eq!(write(&daemon, "docs/a"), "done");
    let narrowed = set("[$WS/src/**]");
    let stated = narrowed.stdout();
    assert!(stated.contains("tightens write_file may access only the listed paths"), "{narrowed}");
    assert!(stated.contains("the running daemon has applied the change"), "{narrowed}");
    assert_eq!(
        (write(&daemon, "docs/a"), write(&daemon, "src/a")),
        ("path_not_allowed".into(), "done".into())
    );
    let widened = set("[$WS/src/**, $WS/docs/**]");
    assert!(widened.stdout().contains("waits for you"), "{widened}");
    assert!(widened.stderr().contains("are not applied yet"), "{widened}");
    assert_eq!(write(&daemon, "docs/a"), "path_not_allowed");
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert_eq!(write(&daemon, "docs/a"), "done");
}

/// A list in place of the workspaces waits if it leads out of them, and then nothing outside is written.
#[test]
fn list_that_leads_out_of_the_workspaces_waits() {
    let home = home_with("tools: {}\n");
    let outside = home.user_home().canonicalize().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    let daemon = Daemon::start_in(home);
    let list = format!("[{}/**]", outside.display());
    let set = daemon.home().run(&["config", "set", "tools.write_file.allowed_paths", &list]).must_exit(0);
    assert!(set.stdout().contains("loosens  write_file may access a list of paths instead"), "{set}");
    let file = outside.join("a").display().to_string();
    assert_eq!(write(&daemon, &file), "path_not_allowed");
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert_eq!(write(&daemon, &file), "done");
}

/// `check` names the tools that bypass an entry: each of them can, until its own entry says the same.
#[test]
fn bypass_that_check_names_is_real() {
    let home = home_with(
        "tools:\n  write_file: {forbidden_paths: {add: [$WS/gen]}}\n  run_command: {allowed_commands: {add: [touch]}}\n",
    );
    let warnings = || {
        let found = home.run(&["check", "--json"]).must_exit(0).json();
        let found = found["warnings"].as_array().unwrap().clone();
        let messages = found.iter().map(|one| one["message"].as_str().unwrap().to_owned());
        messages.filter(|one| one.contains("is forbidden here")).collect::<Vec<_>>().join("\n")
    };
    let touch = |name: &str| {
        home.run(&["call", "run_command", &format!("command:=[\"touch\",\"{name}\"]")]);
        home.workspace().join(name).exists()
    };
    let make =
        |name: &str| home.run(&["call", "create_directory", &format!("path={name}")]).output.status.code();
    home.run(&["call", "write_file", "path=gen/a", "content=x"]).must_exit(3);
    let named = warnings();
    for tool in ["create_directory", "delete_file", "edit_file", "run_command", "run_tests"] {
        assert!(named.contains(tool), "{tool}: {named}");
    }
    assert!(!named.contains("run_linter") && !named.contains("read_file"), "{named}");
    assert!(touch("gen/by-program") && make("gen/folder") == Some(0), "check is right");
    let root = home.workspace().canonicalize().unwrap().display().to_string();
    let entry = |tool: &str| match tool {
        "run_tests" => format!("  run_tests: {{forbidden_paths: [{root}/gen]}}\n"),
        tool => format!("  {tool}: {{forbidden_paths: {{add: [{root}/gen]}}}}\n"),
    };
    let closed = ["create_directory", "delete_file", "edit_file", "run_tests"].map(entry).concat();
    let program =
        format!("  run_command: {{allowed_commands: {{add: [touch]}}, forbidden_paths: [{root}/gen]}}\n");
    let own = format!("tools:\n  write_file: {{forbidden_paths: {{add: [{root}/gen]}}}}\n{closed}{program}");
    home.configure_layer("governance/tools.yaml", &own);
    assert_eq!(warnings(), "");
    assert!(!touch("gen/again") && make("gen/other") == Some(3), "what check asked for closes it");
}

/// The same for the rules of a project.
#[test]
fn bypass_in_a_project_is_named_and_real() {
    let home = home_with("tools:\n  run_command: {allowed_commands: {add: [touch]}}\n");
    fs::create_dir(home.workspace().join(".sinew")).unwrap();
    let project = |text: &str| drop(home.file(".sinew/policy.yaml", text));
    let check = || home.run(&["check"]).must_exit(0).stdout();
    let touch = |name: &str| {
        home.run(&["call", "run_command", &format!("command:=[\"touch\",\"{name}\"]")]);
        home.workspace().join(name).exists()
    };
    project("tools: {write_file: {forbidden_paths: [gen/**]}}\n");
    let found = check();
    assert!(found.contains(".sinew/policy.yaml") && found.contains("run_command"), "{found}");
    assert!(touch("gen/a"), "check is right");
    project("tools: {write_file: {forbidden_paths: [gen/**], allowed_paths: [src/**]}}\n");
    let found = check();
    assert!(found.contains("0 warnings"), "the write scope binds the others: {found}");
    assert!(!touch("gen/b"));
}

/// `allow` says that a call is permitted already, and then it runs.
#[test]
fn call_that_is_permitted_already_needs_no_proposal() {
    let home = home_with("tools:\n  read_file: {allowed_paths: [$WS/src/**]}\n");
    home.file("docs/a.txt", "x");
    let refused = home.run(&["call", "read_file", "path=docs/a.txt", "--json"]).json();
    let id = refused["metadata"]["call_id"].as_str().unwrap().to_owned();
    home.configure_layer("governance/tools.yaml", "tools: {}\n");
    let said = home.run(&["allow", &id]).must_exit(0).stdout();
    assert!(said.contains("already permits"), "{said}");
    home.run(&["call", "read_file", "path=docs/a.txt"]).must_exit(0);
}

/// `reach` names the projects that restrict what it lists.
#[test]
fn reach_names_the_projects_that_restrict_it() {
    let home = home_with("tools: {}\n");
    fs::create_dir(home.workspace().join(".sinew")).unwrap();
    home.file(".sinew/policy.yaml", "tools: {write_file: {allowed_paths: [src/**]}}\n");
    let shown = home.run(&["policy", "reach", "--mode", "NORMAL"]).must_exit(0).stdout();
    assert!(shown.contains(".sinew/policy.yaml restricts calls into its project further"), "{shown}");
    home.run(&["call", "write_file", "path=docs/a", "content=x"]).must_exit(3);
}

/// What a recording says becomes possible is less where a project lists its programs.
#[test]
fn recording_states_the_project_that_restricts_it() {
    let home = home_with("tools: {}\n");
    fs::create_dir(home.workspace().join(".sinew")).unwrap();
    home.file(".sinew/policy.yaml", "tools: {run_command: {allowed_commands: [nl]}}\n");
    home.file("a.txt", "ab\n");
    let daemon = Daemon::start_in(home);
    let root = daemon.home().workspace().canonicalize().unwrap().display().to_string();
    let started = daemon
        .home()
        .run(&["policy", "record", "--for", "10m", "--workspace", &root, "--yes"])
        .must_exit(0)
        .stdout();
    assert!(started.contains("as far as the policy of the project"), "{started}");
    let run =
        |words: &[&str]| code(&daemon.agent().execute("run_command", &json!({"command": words}))).to_owned();
    assert_eq!(
        (run(&["tac", "a.txt"]), run(&["nl", "a.txt"])),
        ("command_not_allowed".into(), "done".into())
    );
}

/// Each preset of a project is shown as a table and holds.
#[test]
fn project_presets_hold() {
    for (preset, rule, src, docs, program) in [
        ("coding", "requires_approval", Some(0), Some(0), Some(0)),
        ("review", "allowed_paths", Some(3), Some(3), Some(0)),
        ("research", "allowed_commands", Some(3), Some(3), Some(3)),
        ("docs", "allowed_paths", Some(3), Some(0), Some(0)),
    ] {
        let home = home_with("tools: {}\n");
        let root = home.workspace().display().to_string();
        let shown = home.run(&["workspace", "add", &root, "--preset", preset]).must_exit(0);
        assert!(shown.stdout().contains("TOOL") && shown.stdout().contains(rule), "{shown}");
        let checked = home.run(&["check"]).must_exit(0).stdout();
        assert!(checked.contains("0 errors, 0 warnings"), "{preset}: {checked}");
        let call = |words: &[&str]| home.run(&[&["call"], words].concat()).output.status.code();
        assert_eq!(call(&["write_file", "path=src/a", "content=x"]), src, "{preset}");
        assert_eq!(call(&["write_file", "path=docs/a", "content=x"]), docs, "{preset}");
        assert_eq!(call(&["run_command", "command:=[\"ls\"]"]), program, "{preset}");
        assert_eq!(call(&["write_file", "path=.sinew/policy.yaml", "content=x"]), Some(3), "{preset}");
        home.run(&["workspace", "add", &root, "--preset", preset]).must_exit(2);
    }
}
