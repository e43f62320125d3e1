//! Operator PIN: with a PIN set, another process of the same user cannot approve calls.

use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use super::*;

/// Runs `sinew` with these arguments and this standard input; returns its exit code and output.
fn run(home: &Home, words: &[&str], input: &str) -> (Option<i32>, String) {
    let mut command = tests::sinew();
    command
        .args(words)
        .current_dir(home.workspace())
        .env("SINEW_HOME", home.root())
        .env("HOME", home.user_home());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("run sinew");
    child.stdin.take().unwrap().write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn approval_and_mode_relaxation_need_the_pin() {
    let home = home_requiring_approval(300);
    assert_eq!(run(&home, &["init", "--pin", "--pin-stdin"], "correct horse\n").0, Some(0));
    use std::os::unix::fs::PermissionsExt;
    let file = home.root().join("state/operator-pin");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(kept.starts_with("$argon2id$") && !kept.contains("horse"), "{kept}");

    let daemon = Daemon::start_in(home);
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    let arguments = json!({"path": "a.txt", "content": "x"});
    let id = request_approval(&mut agent, &arguments);
    assert_eq!(decide(&mut control, &id, "approve")["error"]["data"]["code"], "pin_needed");
    let edit = json!({"id": id, "answer": "edit", "arguments": {}});
    assert_eq!(control.request("control/approvals.decide", &edit)["error"]["data"]["code"], "pin_needed");
    let with = |pin: &str| json!({"id": id, "answer": "approve", "pin": pin});
    let wrong = control.request("control/approvals.decide", &with("wrong horse"));
    assert_eq!(wrong["error"]["data"]["code"], "pin_wrong", "{wrong}");
    // A running daemon keeps requiring the PIN after its file was removed.
    std::fs::remove_file(&file).unwrap();
    assert_eq!(decide(&mut control, &id, "approve")["error"]["data"]["code"], "pin_needed");
    std::fs::write(&file, kept).unwrap();

    // A stricter mode needs no PIN; a less strict one does.
    for (mode, answer) in [("LOCKDOWN", "result"), ("RECOVERY", "error"), ("NORMAL", "error")] {
        let set = control.request("control/mode.set", &json!({"mode": mode, "reason": "test"}));
        assert!(set[answer].is_object(), "{mode}: {set}");
    }
    for mode in ["RECOVERY", "NORMAL"] {
        let params = json!({"mode": mode, "reason": "test", "pin": "correct horse"});
        let set = control.request("control/mode.set", &params);
        assert!(set["result"].is_object(), "{mode}: {set}");
    }
    // DEGRADED needs the PIN too, because a transition rule leads from there to NORMAL.
    let set = |control: &mut Client, mode: &str| {
        control.request("control/mode.set", &json!({"mode": mode, "reason": "test"}))
    };
    assert!(set(&mut control, "ALERT")["result"].is_object());
    assert_eq!(set(&mut control, "DEGRADED")["error"]["data"]["code"], "pin_needed");
    // The command line applies the same rules.
    for (mode, input, exit) in
        [("ALERT", "", 0), ("NORMAL", "wrong horse\n", 3), ("NORMAL", "correct horse\n", 0)]
    {
        let (ended, text) = run(daemon.home(), &["mode", "set", mode, "--pin-stdin"], input);
        assert_eq!(ended, Some(exit), "{mode}: {text}");
    }
    daemon
        .home()
        .configure("governance/tools.yaml", "tools:\n  write_file: {allowed_in_modes: [NORMAL, ALERT]}\n");
    let accept = ["reload", "--accept", "--pin-stdin"];
    assert_eq!(run(daemon.home(), &accept, "wrong horse\n").0, Some(3), "what loosens takes the PIN");
    daemon.home().configure(
        "governance/tools.yaml",
        "tools:\n  write_file: {requires_approval: true, allowed_in_modes: [NORMAL, ALERT, RECOVERY]}\n",
    );
    let (ended, text) = run(daemon.home(), &accept, "correct horse\n");
    assert_eq!(ended, Some(0), "{text}");
    let id = request_approval(&mut agent, &arguments);
    assert_eq!(decide(&mut control, &id, "deny")["result"]["decided"], true, "a no takes no PIN");
    let arguments = json!({"path": "b.txt", "content": "x"});
    let id = request_approval(&mut agent, &arguments);
    let (exit, text) = run(daemon.home(), &["approve", &id, "--pin-stdin"], "correct horse\n");
    assert_eq!(exit, Some(0), "{text}");
    assert_eq!(write_with_approval(&mut agent, &arguments, &id)["success"], true);
    let (exit, text) = run(daemon.home(), &["pin", "clear", "--pin-stdin"], "wrong\n");
    assert_ne!(exit, Some(0), "{text}");
    let (exit, text) = run(daemon.home(), &["pin", "clear", "--pin-stdin"], "correct horse\n");
    assert_eq!(exit, Some(0), "{text}");
    assert!(!file.exists());
}

#[test]
fn pin_guessing_is_slowed_down() {
    let home = home_requiring_approval(300);
    let (short, text) = run(&home, &["pin", "set", "--pin-stdin"], "25801\n");
    assert!(short != Some(0) && text.contains("6 to 128 characters"), "too easily guessed: {text}");
    assert_eq!(run(&home, &["pin", "set", "--pin-stdin"], "258013\n").0, Some(0));
    let kept = std::fs::read_to_string(home.root().join("state/operator-pin")).unwrap();
    assert!(kept.contains("$m=65536,t=3,"), "a guess costs something: {kept}");
    // After the next wrong PIN the delay is longer than this test runs.
    std::fs::write(home.root().join("state/operator-pin-tries"), r#"{"wrong": 8, "not_before": null}"#)
        .unwrap();
    let daemon = Daemon::start_in(home);
    let mut control = daemon.control();
    let id = request_approval(&mut daemon.agent(), &json!({"path": "a.txt", "content": "x"}));
    let words = ["000001", "000002"].map(|pin| {
        let params = json!({"id": id, "answer": "approve", "pin": pin});
        let tried = control.request("control/approvals.decide", &params);
        tried["error"]["data"]["code"].as_str().unwrap_or_else(|| panic!("{tried}")).to_owned()
    });
    assert_eq!(words, ["pin_wrong", "pin_locked"]);
    let right = json!({"id": id, "answer": "approve", "pin": "258013"});
    let locked = control.request("control/approvals.decide", &right);
    assert_eq!(locked["error"]["data"]["code"], "pin_locked", "the right one has to wait too: {locked}");
    // The delay is stored on disk, so that a restart of the daemon does not reset it.
    let tries = daemon.home().root().join("state/operator-pin-tries");
    let counted = std::fs::read_to_string(&tries).unwrap();
    assert!(counted.contains("\"wrong\":9") && !counted.contains("null"), "{counted}");
    let home = daemon.crash();
    std::fs::write(&tries, r#"{"wrong": 9, "not_before": "2099-01-01T00:00:00Z"}"#).unwrap();
    let daemon = Daemon::start_in(home);
    let locked = daemon.control().request("control/approvals.decide", &right);
    assert_eq!(locked["error"]["data"]["code"], "pin_locked", "{counted}: {locked}");
}

#[test]
fn undo_needs_the_pin() {
    let home = Home::initialised();
    assert_eq!(run(&home, &["pin", "set", "--pin-stdin"], "correct horse\n").0, Some(0));
    let daemon = Daemon::start_in(home);
    let written = daemon.agent().execute("write_file", &json!({"path": "a.txt", "content": "x"}));
    assert_eq!(written["success"], true, "{written}");
    let (id, file) =
        (written["metadata"]["call_id"].as_str().unwrap(), daemon.home().workspace().join("a.txt"));
    let mut control = daemon.control();
    let undo = |control: &mut Client, more: Value| {
        let mut params = json!({"call_id": id});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        control.request("control/undo", &params)
    };
    for (more, word) in [(json!({}), "pin_needed"), (json!({"pin": "wrong horse"}), "pin_wrong")] {
        let refused = undo(&mut control, more);
        assert_eq!(refused["error"]["data"]["code"], word, "{refused}");
    }
    let looked = undo(&mut control, json!({"dry_run": true}));
    assert_eq!(looked["result"]["dry_run"], true, "looking changes nothing: {looked}");
    assert!(file.exists());
    let (exit, text) = run(daemon.home(), &["undo", id, "--pin-stdin"], "correct horse\n");
    assert_eq!(exit, Some(0), "{text}");
    assert!(!file.exists());
    // The same holds without a daemon.
    let again = daemon.agent().execute("write_file", &json!({"path": "a.txt", "content": "x"}));
    let id = again["metadata"]["call_id"].as_str().unwrap();
    let home = daemon.stop();
    let (exit, text) = run(&home, &["undo", id, "--pin-stdin"], "wrong horse\n");
    assert!(exit == Some(3) && text.contains("the PIN is wrong") && file.exists(), "{exit:?}: {text}");
    let (exit, text) = run(&home, &["undo", id, "--pin-stdin"], "correct horse\n");
    assert!(exit == Some(0) && !file.exists(), "{exit:?}: {text}");
}

#[test]
fn unreadable_pin_file_approves_nothing() {
    let home = home_requiring_approval(300);
    let home = Daemon::start_in(home).stop();
    std::fs::write(home.root().join("state/operator-pin"), "nonsense").unwrap();
    let daemon = Daemon::start_in(home);
    let id = request_approval(&mut daemon.agent(), &json!({"path": "a.txt", "content": "x"}));
    let refused = decide(&mut daemon.control(), &id, "approve");
    assert_eq!(refused["error"]["data"]["code"], "pin_unusable", "{refused}");
}
