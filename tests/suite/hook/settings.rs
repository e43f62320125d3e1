//! The hook in the settings of a host: installed, preserved and removed.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::{Value, json};
use tests::{Home, sinew};

use super::event;

const HOST_SETTINGS: &str = "{\n\t\"model\": \"opus\",\n\t\"n\": 1.50,\n\t\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}]}\n}\n";

fn settings(home: &Home) -> std::path::PathBuf {
    std::fs::create_dir_all(home.user_home().join(".claude")).unwrap();
    home.user_home().join(".claude/settings.json")
}

#[test]
fn hook_is_installed_once_beside_others_and_removed() {
    let home = Home::initialised();
    let file = settings(&home);
    std::fs::write(&file, HOST_SETTINGS).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    home.run(&["hook", "install", "claude-code"]).must_exit(0);
    let with = std::fs::read_to_string(&file).unwrap();
    assert!(with.contains("\"n\": 1.50") && with.contains("say done"), "{with}");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    let again = home.run(&["hook", "install", "claude-code"]).must_exit(0);
    assert!(again.stdout().starts_with("unchanged"), "{again}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), with);
    home.run(&["hook", "uninstall", "claude-code"]).must_exit(0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), HOST_SETTINGS);
    let again = home.run(&["hook", "uninstall", "claude-code"]).must_exit(0);
    assert!(again.stdout().starts_with("unchanged"), "{again}");
    let left: Vec<_> = file.parent().unwrap().read_dir().unwrap().collect();
    assert_eq!(left.len(), 1, "no draft is left: {left:?}");
}

#[test]
fn installation_says_what_changes_and_how_to_undo_it() {
    let home = Home::initialised();
    let run = home.run_in(home.user_home(), &["hook", "install", "claude-code"]).must_exit(0);
    for part in
        ["not a workspace", ".env", "sinew workspace add .", "`sinew hook uninstall claude-code` undoes this"]
    {
        assert!(run.stderr().contains(part), "{part} is missing: {run}");
    }
    assert!(home.run(&["hook", "install", "claude-code"]).stderr().contains("is a workspace"));
    home.run(&["hook", "uninstall", "claude-code"]).must_exit(0);
    assert!(!settings(&home).exists(), "a file that the installation created is gone");
}

/// Runs the installed command exactly as the settings contain it.
#[test]
fn installed_hook_works() {
    let home = Home::initialised();
    home.run(&["hook", "install", "claude-code"]).must_exit(0);
    let written: Value = serde_json::from_slice(&std::fs::read(settings(&home)).unwrap()).unwrap();
    let handler = &written["hooks"]["PreToolUse"][0]["hooks"][0];
    assert_eq!((&handler["onFailure"], &handler["type"]), (&json!("block"), &json!("command")), "{handler}");
    assert!(handler["timeout"].as_u64().unwrap() > 8, "the host waits longer than the hook takes");
    let program = handler["command"].as_str().unwrap();
    assert!(program.starts_with('/'), "{program}");
    let mut command = std::process::Command::new(program);
    command.args(handler["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()));
    // The host's environment has no variables of Sinew.
    command.env_clear().env("HOME", home.user_home()).current_dir("/");
    let input = home.user_home().join("event.json");
    std::fs::write(&input, event(&home, "Read", &json!({"file_path": "/etc/shadow"})).to_string()).unwrap();
    let output = command.stdin(Stdio::from(std::fs::File::open(input).unwrap())).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["hookSpecificOutput"]["permissionDecision"], "deny", "{answer}");
    assert!(
        home.records().iter().any(|record| record["kind"] == "refusal"),
        "in the home it was installed for"
    );
}

#[test]
fn symlinks_are_kept_and_each_scope_has_its_file() {
    let home = Home::initialised();
    let real = home.user_home().join("dotfiles.json");
    std::fs::write(&real, "{}").unwrap();
    let file = settings(&home);
    std::os::unix::fs::symlink(&real, &file).unwrap();
    home.run(&["hook", "install", "claude-code"]).must_exit(0);
    assert!(file.symlink_metadata().unwrap().is_symlink());
    assert!(std::fs::read_to_string(&real).unwrap().contains("pre-tool-use"));
    home.run(&["hook", "install", "claude-code", "--scope", "project"]).must_exit(0);
    assert!(home.workspace().join(".claude/settings.json").is_file());
    home.run(&["hook", "install", "claude-code", "--scope", "local"]).must_exit(0);
    assert!(home.workspace().join(".claude/settings.local.json").is_file());
    let printed = home.run(&["hook", "install", "claude-code", "--print"]).must_exit(0).json();
    assert_eq!(printed["hooks"]["PreToolUse"][0]["matcher"], "*", "{printed}");
}

#[test]
fn unreadable_settings_are_left_unchanged() {
    let home = Home::initialised();
    let file = settings(&home);
    for (text, message) in [
        ("{\n  \"a\": x\n}", "settings.json:2:8"),
        ("{\"a\": 1, \"a\": 2}", "duplicate key `a`"),
        ("{\"a\": 1} // mine", "settings.json:1:"),
        ("[]", "not a JSON object"),
        ("{\"hooks\": {\"PreToolUse\": 5}}", "hooks.PreToolUse"),
        ("", "settings.json:1:"),
    ] {
        std::fs::write(&file, text).unwrap();
        for word in ["install", "uninstall"] {
            let run = home.run(&["hook", word, "claude-code"]).must_exit(7);
            assert!(run.stderr().contains(message), "{run}");
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
    }
    let _ = sinew();
}

/// A hook that cannot work, or that the host will not run, gives no protection, so the installation reports
/// it.
#[test]
fn installation_reports_a_hook_that_would_not_work() {
    let home = Home::initialised();
    std::fs::write(settings(&home), "{\"disableAllHooks\": true}").unwrap();
    let reported = home.run(&["hook", "install", "claude-code"]).must_exit(0);
    assert!(reported.stderr().contains("disableAllHooks"), "{reported}");
    let before = std::fs::read(settings(&home)).unwrap();
    let mut command = sinew();
    command.args(["hook", "install", "claude-code"]).current_dir(home.user_home());
    command.env("SINEW_HOME", "somewhere/relative").env("HOME", home.user_home());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("SINEW_HOME"), "{output:?}");
    assert_eq!(std::fs::read(settings(&home)).unwrap(), before, "nothing was written");
}
