//! Tests of installing and removing the hook handlers in a host's settings.

use serde_json::json;

use super::handlers::{HostHandler, with_handler, without_handlers};
use super::*;
use crate::cli::HostName;

const FOREIGN: &str = r#"{
    "model" : "opus",   "big": 12345678901234567890.50,
    "hooks": {
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "/opt/other/sinew-guard", "args": ["hook", "pre-tool-use"]}]}
        ],
        "Stop": [ {"hooks": [ {"type": "command", "command": "say done"} ]} ]
    },
    "permissions": {"deny": ["Read(./.env)"]}
}
"#;

fn handlers_of(host: HostName, binary: &str) -> Vec<HostHandler> {
    host_settings::handlers(host, Path::new(binary), None)
}

fn installed_in(host: HostName, text: &str, binary: &str) -> String {
    let handlers = handlers_of(host, binary);
    handlers.iter().fold(text.to_owned(), |text, handler| with_handler(&text, handler).unwrap())
}

fn uninstalled_from(host: HostName, text: &str) -> String {
    let handlers = handlers_of(host, "sinew");
    handlers.iter().fold(text.to_owned(), |text, handler| without_handlers(&text, handler).unwrap())
}

fn installed(text: &str, binary: &str) -> String {
    installed_in(HostName::ClaudeCode, text, binary)
}

fn uninstalled(text: &str) -> String {
    uninstalled_from(HostName::ClaudeCode, text)
}

/// Settings of every other host: recorded entries, and the restored text.
#[test]
fn every_host_gets_its_own_entry_and_its_text_back() {
    let line = |host: &str, command: &str| format!("'/usr/bin/sinew' hook {command} --host {host}");
    let closed = " || sh -c 'echo Sinew could not judge this call >&2; exit 2'";
    let foreign =
        "{\"version\": 1, \"hooks\": {\"stop\": [{\"command\": \"say done\"}], \"Stop\": []}, \"n\": 1.50}\n";
    for (host, before, entry) in [
        (
            HostName::Codex,
            "PreToolUse",
            json!({"matcher": "*", "hooks": [{"type": "command", "timeout": 15,
                "command": line("codex", "pre-tool-use") + closed}]}),
        ),
        (
            HostName::GeminiCli,
            "BeforeTool",
            json!({"matcher": "*", "hooks": [{"name": "sinew", "type": "command", "timeout": 15_000,
                "command": line("gemini-cli", "pre-tool-use") + closed}]}),
        ),
        (
            HostName::Cursor,
            "preToolUse",
            json!({"command": line("cursor", "pre-tool-use") + closed, "timeout": 15, "failClosed": true}),
        ),
    ] {
        for text in [host_settings::empty(host), foreign, "{\"a\":1}"] {
            let with = installed_in(host, text, "/usr/bin/sinew");
            let settings: Value =
                serde_json::from_str(&with).unwrap_or_else(|error| panic!("{error}\n{with}"));
            assert_eq!(settings["hooks"][before], json!([entry]), "{with}");
            assert_eq!(installed_in(host, &with, "/usr/bin/sinew"), with, "installing twice changes nothing");
            let moved = installed_in(host, &with, "/opt/sinew");
            assert!(!moved.contains("/usr/bin/sinew"), "an older entry is updated: {moved}");
            assert_eq!(uninstalled_from(host, &moved), text, "{moved}");
            assert_eq!(uninstalled_from(host, text), text, "uninstalling without handlers changes nothing");
        }
    }
}

/// The line of a hook must block the call if the program cannot be started or is killed.
#[test]
fn line_for_a_shell_fails_closed() {
    let run = |program: &Path| {
        let handlers = host_settings::handlers(HostName::Codex, program, None);
        let line = handlers.first().unwrap().value["command"].as_str().unwrap().to_owned();
        let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("it's here");
    let script = |text: &str| {
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    };
    let (code, message) = run(&folder.path().join("missing"));
    assert!(code == Some(2) && message.contains("Sinew could not judge"), "{code:?} {message}");
    script("#!/bin/sh\nkill -9 $$\n");
    let (code, message) = run(&program);
    assert!(code == Some(2) && message.contains("Sinew could not judge"), "{code:?} {message}");
    script("#!/bin/sh\n[ \"$*\" = 'hook pre-tool-use --host codex' ]\n");
    assert_eq!(run(&program), (Some(0), String::new()));
}

#[test]
fn install_then_uninstall_restores_every_byte() {
    for text in [FOREIGN, "{\"a\":1}", "{\n  \"a\": 1\n}\n", "{}\n", "{\"hooks\":{\"Stop\":[]}}"] {
        let with = installed(text, "/usr/bin/sinew");
        let settings: Value = serde_json::from_str(&with).unwrap_or_else(|error| panic!("{error}\n{with}"));
        for handler in handlers_of(HostName::ClaudeCode, "sinew") {
            let groups = settings["hooks"][handler.event].as_array().unwrap();
            let ours = groups.last().unwrap();
            assert_eq!(ours["matcher"], "*");
            assert_eq!(ours["hooks"][0]["command"], "/usr/bin/sinew", "exec form: {ours}");
        }
        assert_eq!(
            settings["hooks"]["PreToolUse"].as_array().unwrap().last().unwrap()["hooks"][0]["onFailure"],
            "block"
        );
        assert!(with.len() > text.len());
        assert_eq!(installed(&with, "/usr/bin/sinew"), with, "installing twice changes nothing");
        assert_eq!(uninstalled(&with), text, "{with}");
        assert_eq!(uninstalled(text), text, "uninstalling without handlers changes nothing");
    }
    assert!(
        installed(FOREIGN, "/usr/bin/sinew").contains("12345678901234567890.50"),
        "numbers keep their spelling"
    );
}

#[test]
fn older_entry_is_updated_and_keeps_its_matcher() {
    let old =
        installed(FOREIGN, "/old/place/sinew").replace("\"matcher\": \"*\"", "\"matcher\": \"Write|Edit\"");
    let new = installed(&old, "/usr/bin/sinew");
    assert!(!new.contains("/old/place") && new.contains("/opt/other/sinew-guard"), "{new}");
    assert_eq!(new.matches("\"matcher\": \"Write|Edit\"").count(), 3, "the user chose the matcher: {new}");
    assert_eq!(uninstalled(&new), FOREIGN);
}

#[test]
fn uninstall_keeps_other_handlers_of_the_group() {
    let shared = r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "prompt"}, {"command": "/x/sinew", "args": ["hook", "pre-tool-use"]}]}]}}"#;
    assert_eq!(uninstalled(shared), r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "prompt"}]}]}}"#);
}

#[test]
fn settings_of_unexpected_structure_are_not_touched() {
    for text in [r#"{"hooks": []}"#, r#"{"hooks": {"PreToolUse": {}}}"#, r#"{"hooks": "x"}"#] {
        let handler = handlers_of(HostName::ClaudeCode, "/sinew").remove(0);
        assert_eq!(with_handler(text, &handler), None, "{text}");
        assert_eq!(without_handlers(text, &handler), None, "{text}");
    }
}

#[test]
fn custom_home_is_passed_as_argument() {
    let entries =
        |host: HostName| host_settings::handlers(host, Path::new("/sinew"), Some(Path::new("/else where")));
    let claude = entries(HostName::ClaudeCode);
    assert_eq!(claude[0].value["args"], json!(["hook", "pre-tool-use", "--home", "/else where"]));
    assert!(claude[1].value.get("onFailure").is_none(), "a completed call cannot be blocked");
    let codex = &entries(HostName::Codex)[1].value["command"];
    assert_eq!(codex, "'/sinew' hook post-tool-use --host codex --home '/else where'");
}
