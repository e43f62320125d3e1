//! The command line: input, output and exit codes.

mod configuration;
mod doctor;
mod mode;
mod operator;
mod pipes;
mod shell;
mod walk;

use serde_json::json;
use tests::{Daemon, Home, sinew};

#[test]
fn first_call_needs_no_setup() {
    let home = Home::new();
    home.file("notes.txt", "remember\n");
    let run = home.run(&["call", "read_file", "path=notes.txt"]).must_exit(0);
    assert_eq!(run.stdout(), "remember\n");
    assert!(run.stderr().contains("no daemon"), "{run}");
    let refused = home.run(&["call", "write_file", "path=new.txt", "content=x"]).must_exit(3);
    assert!(refused.stderr().contains("sinew workspace add"), "the way out is shown: {refused}");
    assert!(!home.workspace().join("new.txt").exists(), "a folder that was not added is read-only");
}

#[test]
fn status_says_how_to_start_the_daemon() {
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
fn script_can_wait_until_the_daemon_answers() {
    let home = Home::initialised();
    let absent = home.run(&["wait", "--ready", "--timeout", "0"]).must_exit(6);
    assert!(absent.stderr().contains("control.sock") && absent.stderr().contains("sinew serve"), "{absent}");
    let mut waiting = sinew();
    waiting.args(["wait", "--ready"]).env("SINEW_HOME", home.root()).env("HOME", home.user_home());
    let waiting = waiting.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let daemon = Daemon::start_in(home);
    let waited = waiting.wait_with_output().unwrap();
    assert_eq!((waited.status.code(), waited.stdout), (Some(0), Vec::new()), "it has nothing to say");
    drop(daemon);
}

#[test]
fn every_command_has_a_manual_page() {
    let home = Home::new();
    let pages = home.workspace().join("man1");
    home.run(&["manual", &pages.display().to_string()]).must_exit(0);
    for (page, word) in
        [("sinew.1", "Exit codes"), ("sinew-call.1", "idempotency"), ("sinew-ledger-verify.1", "NAME")]
    {
        let text = std::fs::read_to_string(pages.join(page)).unwrap_or_default();
        assert!(text.contains(word), "{page} lacks {word}: {text}");
    }
    let file = home.file("in the way", "");
    let refused = home.run(&["manual", &file.display().to_string()]).must_exit(1);
    assert!(refused.stderr().contains("in the way"), "{refused}");
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
fn exit_codes_distinguish_the_outcomes() {
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
fn control_characters_of_a_file_name_are_escaped() {
    let home = Home::initialised();
    let run = home.run(&["call", "read_file", "path=\u{1b}[2Jevil\u{202e}"]).must_exit(1);
    let shown = run.stdout() + &run.stderr();
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'), "{shown:?}");
}

#[test]
fn deadline_is_at_least_one_millisecond() {
    let home = Home::initialised();
    home.file("a.txt", "x");
    let refused = home.run(&["call", "--deadline-ms", "0", "read_file", "path=a.txt"]).must_exit(2);
    assert!(refused.stderr().contains("--deadline-ms"), "{refused}");
    home.run(&["call", "--deadline-ms", "20000", "read_file", "path=a.txt"]).must_exit(0);
}

/// A number that arrives as text is refused, so the test detects a tool definition that was not found.
#[test]
fn tool_is_found_by_every_alias() {
    let home = Home::initialised();
    home.file("a.txt", "x");
    let names = ["read_file", "READ_FILE", "read_file@1"];
    let each = |home: &Home| {
        for name in names {
            home.run(&["call", name, "path=a.txt", "max_size_mb=1"]).must_exit(0);
            home.run(&["tools", "show", name]).must_exit(0);
        }
        home.run(&["tools", "show", "read_file@2"]).must_exit(2);
    };
    each(&home);
    let daemon = Daemon::start_in(home);
    each(daemon.home());
}

#[test]
fn invalid_parameter_from_the_daemon_is_a_usage_error() {
    let daemon = Daemon::start();
    let long = "x".repeat(300);
    let refused = daemon.home().run(&["call", &long]).must_exit(2);
    assert!(refused.stderr().contains("tool_name"), "{refused}");
}

#[test]
fn missing_ledger_is_named() {
    let home = Home::new();
    let folder = home.root().join("state/ledger").display().to_string();
    for words in
        [["ledger", "tail"].as_slice(), &["ledger", "verify"], &["ledger", "export"], &["trace", "00000000"]]
    {
        let absent = home.run(words).must_exit(1);
        assert!(absent.stderr().contains(&format!("there is no ledger in {folder}\n")), "{absent}");
    }
    home.file("a.txt", "x");
    home.run(&["call", "read_file", "path=a.txt"]).must_exit(0);
    std::fs::remove_file(home.root().join("state/ledger.key")).unwrap();
    let broken = home.run(&["ledger", "verify"]).must_exit(1);
    assert!(!broken.stderr().contains("there is no ledger"), "one without its key is there: {broken}");
}

#[test]
fn demo_runs_to_its_end() {
    let home = Home::new();
    let run = home.run(&["demo"]).must_exit(0);
    let shown = run.stdout();
    for part in [
        "read_file",
        "refused",
        "Missing required fields",
        "path_forbidden",
        "NORMAL → ALERT",
        "rule      ",
        "is approved",
        "ALERT → LOCKDOWN",
        "mode_denied",
        "decision",
        "outcome",
        "refusal",
        "intact",
        "judge",
        "█",
    ] {
        assert!(shown.contains(part), "{part} is missing: {run}");
    }
    let too_wide: Vec<&str> = shown.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(too_wide.is_empty(), "a narrow terminal would break these: {too_wide:#?}");
}
