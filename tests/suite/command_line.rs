//! What a person types and sees.

use serde_json::json;
use tests::{Daemon, Home};

#[test]
fn a_first_call_needs_no_set_up() {
    let home = Home::new();
    home.file("notes.txt", "remember\n");
    let run = home.run(&["call", "read_file", "path=notes.txt"]).must_exit(0);
    assert_eq!(run.stdout(), "remember\n");
    assert!(run.stderr().contains("no daemon"), "{run}");
    let refused = home.run(&["call", "write_file", "path=new.txt", "content=x"]).must_exit(3);
    assert!(refused.stderr().contains("sinew workspace add"), "the way out is shown: {refused}");
    assert!(!home.workspace().join("new.txt").exists(), "a folder nobody added is read-only");
}

#[test]
fn status_says_how_to_start_it() {
    let home = Home::initialised();
    let absent = home.run(&["status"]).must_exit(6);
    assert!(absent.stderr().contains("agent.sock") || absent.stderr().contains("control.sock"), "{absent}");
    assert!(absent.stderr().contains("sinew serve"), "{absent}");
    let daemon = Daemon::start_in(home);
    let status = daemon.home().run(&["status", "--json"]).must_exit(0).json();
    assert_eq!((&status["schema_version"], &status["mode"]), (&json!(1), &json!("NORMAL")), "{status}");
    assert!(daemon.home().run(&["status"]).must_exit(0).stdout().contains("NORMAL"));
}

#[test]
fn tools_are_listed_and_shown() {
    let home = Home::new();
    let listed = home.run(&["tools", "list", "--json"]).must_exit(0).json();
    let names: Vec<&str> =
        listed["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert!(
        ["list_directory", "read_file", "write_file"].iter().all(|name| names.contains(name)),
        "{names:?}"
    );
    assert!(names.is_sorted());
    assert_eq!(listed["schema_version"], 1);
    let page = home.run(&["tools", "show", "write_file"]).must_exit(0).stdout();
    for part in ["write_file", "system_write", "high", "path", "content", "expected_sha256", "required"] {
        assert!(page.contains(part), "{part} is missing: {page}");
    }
    let unknown = home.run(&["tools", "show", "wriet_file"]);
    assert_eq!(unknown.output.status.code(), Some(2), "{unknown}");
    assert!(unknown.stderr().contains("write_file"), "{unknown}");
    let writers = home.run(&["tools", "list", "--category", "system_write", "--json"]).must_exit(0).json();
    assert!(writers["tools"].as_array().unwrap().iter().all(|t| t["category"] == "system_write"));
    let lockdown = home.run(&["tools", "list", "--mode", "LOCKDOWN", "--json"]).must_exit(0).json();
    assert!(!lockdown["tools"].to_string().contains("\"write_file\""), "{lockdown}");
}

#[test]
fn exit_codes_tell_the_ends_apart() {
    let home = Home::initialised();
    home.file("a.txt", "x");
    home.run(&["call", "read_file", "path=a.txt"]).must_exit(0);
    home.run(&["call", "read_file", "path=missing"]).must_exit(1);
    home.run(&["call"]).must_exit(2);
    home.run(&["call", "read_file", "loose words"]).must_exit(2);
    home.run(&["nonsense"]).must_exit(2);
    home.run(&["call", "read_file", "path=/etc/hostname"]).must_exit(3);
    home.run(&["status"]).must_exit(6);
    home.configure("sinew.yaml", "nonsense: true\n");
    home.run(&["call", "read_file", "path=a.txt"]).must_exit(7);
}

#[test]
fn init_writes_what_can_be_edited_and_keeps_what_was() {
    let home = Home::new();
    let first = home.run(&["init"]).must_exit(0);
    let config = home.root().join("config");
    for file in ["sinew.yaml", "governance/modes.yaml", "governance/tools.yaml", "governance/safety.yaml"] {
        assert!(config.join(file).is_file(), "{file}: {first}");
        assert!(first.stdout().contains(file), "{file} is named: {first}");
    }
    let edited =
        "# mine\n".to_owned() + &std::fs::read_to_string(config.join("governance/tools.yaml")).unwrap();
    std::fs::write(config.join("governance/tools.yaml"), &edited).unwrap();
    home.run(&["init"]).must_exit(0);
    assert_eq!(
        std::fs::read_to_string(config.join("governance/tools.yaml")).unwrap(),
        edited,
        "an edit was lost"
    );
    home.run(&["init", "--force"]).must_exit(0);
    assert_ne!(std::fs::read_to_string(config.join("governance/tools.yaml")).unwrap(), edited);
    let kept = std::fs::read_dir(config.join("governance")).unwrap();
    let kept =
        kept.filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with("tools.yaml.")).count();
    assert_eq!(kept, 1, "the edited file is kept beside the new one");
}

#[test]
fn workspaces_are_added_listed_and_removed() {
    let home = Home::initialised();
    let extra = home.workspace().with_file_name("extra");
    std::fs::create_dir(&extra).unwrap();
    let dir = extra.display().to_string();
    let sinew_yaml = home.root().join("config/sinew.yaml");
    let comments = |text: &str| text.lines().filter(|line| line.trim_start().starts_with('#')).count();
    let before = comments(&std::fs::read_to_string(&sinew_yaml).unwrap());
    home.run(&["workspace", "add", "--read-only", &dir]).must_exit(0);
    let listed = home.run(&["workspace", "list", "--json"]).must_exit(0).json();
    let entry =
        listed["workspaces"].as_array().unwrap().iter().find(|w| w["path"] == dir.as_str()).unwrap().clone();
    assert_eq!(entry["access"], "read_only", "{listed}");
    home.run(&["workspace", "add", &dir]).must_exit(0);
    let listed = home.run(&["workspace", "list", "--json"]).must_exit(0).json();
    let same: Vec<_> =
        listed["workspaces"].as_array().unwrap().iter().filter(|w| w["path"] == dir.as_str()).collect();
    assert_eq!((same.len(), &same[0]["access"]), (1, &json!("read_write")), "{listed}");
    home.run(&["workspace", "remove", &dir]).must_exit(0);
    assert!(!home.run(&["workspace", "list", "--json"]).must_exit(0).stdout().contains(&dir));
    assert_eq!(comments(&std::fs::read_to_string(&sinew_yaml).unwrap()), before, "comments are kept");
    home.run(&["workspace", "remove", &dir]).must_exit(2);
    home.run(&["workspace", "add", "/does/not/exist"]).must_exit(2);
}

#[test]
fn a_read_only_workspace_refuses_writes() {
    let home = Home::initialised();
    let work = home.workspace().display().to_string();
    home.run(&["workspace", "add", "--read-only", &work]).must_exit(0);
    home.file("a.txt", "x");
    home.run(&["call", "read_file", "path=a.txt"]).must_exit(0);
    home.run(&["call", "write_file", "path=b.txt", "content=x"]).must_exit(3);
}

#[test]
fn schemas_and_completions_are_printed() {
    let home = Home::new();
    let names = home.run(&["schema"]).must_exit(0).stdout();
    for name in names.lines() {
        let schema = home.run(&["schema", name]).must_exit(0).json();
        assert!(schema["$schema"].as_str().unwrap().contains("2020-12"), "{name}");
    }
    for wanted in ["tools", "modes", "safety", "settings", "tool-definition", "tool-result", "refusal"] {
        assert!(names.lines().any(|name| name == wanted), "{wanted} is not among {names}");
    }
    home.run(&["schema", "nonsense"]).must_exit(2);
    for shell in ["bash", "zsh", "fish"] {
        assert!(home.run(&["completions", shell]).must_exit(0).stdout().contains("sinew"), "{shell}");
    }
}

#[test]
fn control_characters_of_a_file_name_do_not_reach_the_terminal() {
    let home = Home::initialised();
    let run = home.run(&["call", "read_file", "path=\u{1b}[2Jevil\u{202e}"]).must_exit(1);
    let shown = run.stdout() + &run.stderr();
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'), "{shown:?}");
}

#[test]
fn the_demo_shows_the_product_at_work() {
    let home = Home::new();
    let run = home.run(&["demo"]).must_exit(0);
    for part in [
        "read_file",
        "refused",
        "Missing required fields",
        "path_forbidden",
        "decision",
        "outcome",
        "refusal",
    ] {
        assert!(run.stdout().contains(part), "{part} is missing: {run}");
    }
}
