//! What is written, what is left alone, and what comes back when it is taken out again.

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
fn in_and_out_again_leaves_every_byte() {
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
        assert_eq!(installed(&with, "/usr/bin/sinew"), with, "twice is once");
        assert_eq!(uninstalled(&with), text, "{with}");
        assert_eq!(uninstalled(text), text, "what is not there cannot be taken out");
    }
    assert!(
        installed(FOREIGN, "/usr/bin/sinew").contains("12345678901234567890.50"),
        "numbers stay as written"
    );
}

#[test]
fn an_older_entry_is_brought_up_to_date_under_its_own_matcher() {
    let old =
        installed(FOREIGN, "/old/place/sinew").replace("\"matcher\": \"*\"", "\"matcher\": \"Write|Edit\"");
    let new = installed(&old, "/usr/bin/sinew");
    assert!(!new.contains("/old/place") && new.contains("/opt/other/sinew-guard"), "{new}");
    assert_eq!(new.matches("\"matcher\": \"Write|Edit\"").count(), 3, "somebody chose that: {new}");
    assert_eq!(uninstalled(&new), FOREIGN);
}

#[test]
fn a_handler_that_shares_its_group_goes_alone() {
    let shared = r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "prompt"}, {"command": "/x/sinew", "args": ["hook", "pre-tool-use"]}]}]}}"#;
    assert_eq!(uninstalled(shared), r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "prompt"}]}]}}"#);
}

#[test]
fn another_shape_is_not_touched() {
    for text in [r#"{"hooks": []}"#, r#"{"hooks": {"PreToolUse": {}}}"#, r#"{"hooks": "x"}"#] {
        let entry = handler(Path::new("/sinew"), "pre-tool-use", None);
        assert_eq!(with_handler(text, "PreToolUse", "pre-tool-use", &entry), None, "{text}");
        assert_eq!(without_handlers(text, "PreToolUse", "pre-tool-use"), None, "{text}");
    }
}

#[test]
fn a_home_of_its_own_is_named() {
    let entry = handler(Path::new("/sinew"), "pre-tool-use", Some(Path::new("/elsewhere")));
    assert_eq!(entry["args"], json!(["hook", "pre-tool-use", "--home", "/elsewhere"]));
    assert!(
        handler(Path::new("/sinew"), "post-tool-use", None).get("onFailure").is_none(),
        "afterwards nothing blocks"
    );
}
