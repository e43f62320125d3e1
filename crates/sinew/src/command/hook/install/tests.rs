//! Tests of installing and removing the hook handlers in a host's settings.

use super::*;

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

fn installed(text: &str, binary: &str) -> String {
    EVENTS.iter().fold(text.to_owned(), |text, (event, command)| {
        with_handler(&text, event, command, &handler(Path::new(binary), command, None)).unwrap()
    })
}

fn uninstalled(text: &str) -> String {
    EVENTS
        .iter()
        .fold(text.to_owned(), |text, (event, command)| without_handlers(&text, event, command).unwrap())
}

#[test]
fn install_then_uninstall_restores_every_byte() {
    for text in [FOREIGN, "{\"a\":1}", "{\n  \"a\": 1\n}\n", "{}\n", "{\"hooks\":{\"Stop\":[]}}"] {
        let with = installed(text, "/usr/bin/sinew");
        let settings: Value = serde_json::from_str(&with).unwrap_or_else(|error| panic!("{error}\n{with}"));
        for (event, _) in EVENTS {
            let groups = settings["hooks"][event].as_array().unwrap();
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
        let entry = handler(Path::new("/sinew"), "pre-tool-use", None);
        assert_eq!(with_handler(text, "PreToolUse", "pre-tool-use", &entry), None, "{text}");
        assert_eq!(without_handlers(text, "PreToolUse", "pre-tool-use"), None, "{text}");
    }
}

#[test]
fn custom_home_is_passed_as_argument() {
    let entry = handler(Path::new("/sinew"), "pre-tool-use", Some(Path::new("/elsewhere")));
    assert_eq!(entry["args"], json!(["hook", "pre-tool-use", "--home", "/elsewhere"]));
    assert!(
        handler(Path::new("/sinew"), "post-tool-use", None).get("onFailure").is_none(),
        "a completed call cannot be blocked"
    );
}
