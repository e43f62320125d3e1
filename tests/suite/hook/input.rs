//! The hook gives one of the two answers the host understands, whatever the input and whatever is broken.

use std::fs::File;
use std::os::unix::fs::DirBuilderExt;
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;
use serde_json::json;
use tests::{Daemon, Home};

use super::{event, run, run_pre_tool_use};

/// Returns inputs that no host sends.
fn hostile(home: &Home) -> Vec<(&'static str, Vec<u8>)> {
    let good = event(home, "Read", &json!({"file_path": "/etc/shadow"}));
    let with = |key: &str, value: serde_json::Value| {
        let mut event = good.clone();
        event[key] = value;
        event.to_string().into_bytes()
    };
    let text = good.to_string();
    vec![
        ("empty", Vec::new()),
        ("not JSON", b"hello".to_vec()),
        ("not UTF-8", b"{\"tool_name\":\"\xff\"}".to_vec()),
        ("an array", b"[]".to_vec()),
        ("cut", text.as_bytes()[..text.len() - 1].to_vec()),
        ("two objects", format!("{text}{text}").into_bytes()),
        ("deep", format!("{{\"a\":{}", "[".repeat(100_000)).into_bytes()),
        ("huge", format!("{{\"a\":\"{}\"}}", "x".repeat(17 << 20)).into_bytes()),
        (
            "larger than the daemon reads",
            with("tool_input", json!({"file_path": "/x", "content": "x".repeat(5 << 20)})),
        ),
        ("a key twice", text.replacen('{', "{\"tool_name\":\"Task\",", 1).into_bytes()),
        ("NUL", text.replace("/etc/shadow", "/etc/shadow\\u0000.md").into_bytes()),
        ("a lone surrogate", text.replace("/etc/shadow", "/etc/\\ud800").into_bytes()),
        ("another event", with("hook_event_name", json!("PostToolUse"))),
        ("no tool", with("tool_name", json!(null))),
        ("a tool of the wrong type", with("tool_name", json!({}))),
        ("a tool of great length", with("tool_name", json!("x".repeat(1000)))),
        ("a folder of the wrong type", with("cwd", json!(7))),
        ("no folder", with("cwd", json!(null))),
        ("a relative folder", with("cwd", json!("work"))),
        ("a session of the wrong type", with("session_id", json!([]))),
    ]
}

#[test]
fn hostile_input_blocks_or_is_reported_and_never_decides() {
    let home = Home::initialised();
    let settings = std::fs::read_to_string(home.root().join("config/sinew.yaml")).unwrap();
    home.configure("sinew.yaml", &settings.replace("max_line_bytes: 16777216", "max_line_bytes: 4194304"));
    let daemon = Daemon::start_in(home);
    for (what, bytes) in hostile(daemon.home()) {
        let reported = run(daemon.home(), &["pre-tool-use"], &bytes);
        assert!(reported.stdout.len() < 5000, "{what}: {} bytes", reported.stdout.len());
        reported.must_block();
        let reported = run(daemon.home(), &["pre-tool-use", "--fail=open"], &bytes);
        assert_eq!(reported.code, Some(0), "{what}");
        assert!(reported.object["systemMessage"].as_str().unwrap().contains("could not judge"), "{what}");
        assert!(reported.object.get("hookSpecificOutput").is_none(), "{what}: no decision");
        let reported = run(daemon.home(), &["post-tool-use"], &bytes);
        assert_eq!(reported.code, Some(0), "{what}: what is done is done");
        assert!(reported.object.get("decision").is_none(), "{what}");
    }
    assert_eq!(
        run_pre_tool_use(daemon.home(), "Task", &json!({})).decision(),
        "none",
        "and the daemon is well"
    );
}

#[test]
fn unresponsive_daemon_blocks() {
    let daemon = Daemon::start();
    let call = event(daemon.home(), "Read", &json!({"file_path": daemon.home().file("a", "x")})).to_string();
    daemon.signal(Signal::SIGSTOP);
    let asked = Instant::now();
    run(daemon.home(), &["pre-tool-use", "--deadline-ms", "300"], call.as_bytes()).must_block();
    assert!(asked.elapsed() < Duration::from_secs(8), "its own deadline, not that of the host");
    daemon.signal(Signal::SIGCONT);
    assert_eq!(run(daemon.home(), &["pre-tool-use"], call.as_bytes()).decision(), "allow");
    // The daemon holds the lock, and its socket is gone.
    std::fs::remove_file(daemon.home().socket("agent.sock")).unwrap();
    run(daemon.home(), &["pre-tool-use", "--deadline-ms", "300"], call.as_bytes()).must_block();
}

#[test]
fn input_that_never_ends_blocks() {
    let home = Home::initialised();
    let mut command = tests::sinew();
    command.args(["hook", "pre-tool-use", "--deadline-ms", "300"]).env("SINEW_HOME", home.root());
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let held = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(held);
    assert_eq!(output.status.code(), Some(2));
    assert!(serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap().is_object());
}

/// A host that does not read the output must not take the missing output for an approval.
#[test]
fn denial_that_cannot_be_delivered_blocks() {
    let home = Home::initialised();
    let input = home.user_home().join("event.json");
    let denied = super::event(&home, "Read", &serde_json::json!({"file_path": "/etc/shadow"}));
    std::fs::write(&input, denied.to_string()).unwrap();
    let mut command = tests::sinew();
    command.args(["hook", "pre-tool-use"]).env("SINEW_HOME", home.root()).env("HOME", home.user_home());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.stdin(File::open(&input).unwrap()).stdout(writer).stderr(std::process::Stdio::null());
    assert_eq!(command.status().unwrap().code(), Some(2));
    // The Rust runtime opens a closed output on the null device before the program starts, so the hook has to
    // detect the null device.
    command.stdin(File::open(input).unwrap()).stdout(std::process::Stdio::null());
    assert_eq!(command.status().unwrap().code(), Some(2));
}

#[test]
fn broken_configuration_blocks_and_names_file_and_line() {
    let check = |file: &str, text: &str, message: &str| {
        let home = Home::initialised();
        home.configure(file, text);
        let reported = run_pre_tool_use(&home, "Read", &json!({"file_path": "/x"}));
        reported.must_block();
        assert!(reported.reason().contains(message), "{file}: {}", reported.object);
        let after = json!({"hook_event_name": "PostToolUse", "tool_name": "Read", "tool_response": "x"});
        let reported = run(&home, &["post-tool-use"], after.to_string().as_bytes());
        let has_message = reported.object["systemMessage"].is_string();
        assert_eq!(
            (reported.code, has_message),
            (Some(0), file.contains("tools")),
            "{file}: {}",
            reported.object
        );
    };
    check("governance/tools.yaml", "tolls: {}\n", "tools.yaml:1:1");
    check("hosts/claude-code.yaml", "tools:\n  Read: {}\n", "claude-code.yaml:2:3");
    check("sinew.yaml", "workspaces: [/nowhere/at/all]\n", "/nowhere/at/all");
}

/// Holds the lock of the state folder, as another process would, until it is dropped.
fn hold_state_lock(home: &Home, how: FlockArg) -> Flock<File> {
    let path = home.root().join("state/daemon.lock");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap()).unwrap();
    Flock::lock(File::options().create(true).truncate(false).write(true).open(path).unwrap(), how).unwrap()
}

#[test]
fn concurrent_hooks_without_a_daemon_all_answer() {
    let home = Home::initialised();
    let file = home.file("a.txt", "x");
    // Another reader holds the shared lock throughout: a hook that only judges needs no more than a shared
    // lock.
    let _reader = hold_state_lock(&home, FlockArg::LockShared);
    std::thread::scope(|scope| {
        let asked = || run_pre_tool_use(&home, "Read", &json!({"file_path": file})).decision().to_owned();
        let hooks: Vec<_> = (0..4).map(|_| scope.spawn(asked)).collect();
        for hook in hooks {
            assert_eq!(hook.join().unwrap(), "allow");
        }
    });
    assert!(home.root().join("state/ledger").read_dir().is_err(), "and writes nothing");
}

#[test]
fn hook_judges_by_the_ledger_and_only_denials_extend_it() {
    let daemon = Daemon::start();
    daemon.home().run(&["mode", "set", "LOCKDOWN"]).must_exit(0);
    let home = daemon.stop();
    let before = home.records().len();
    let file = home.file("a.txt", "x");
    assert_eq!(run_pre_tool_use(&home, "Read", &json!({"file_path": file})).decision(), "allow");
    assert_eq!(home.records().len(), before, "a permit leaves no trace");
    let reported = run_pre_tool_use(&home, "Write", &json!({"file_path": file, "content": "twelve words"}));
    assert!(reported.decision() == "deny" && reported.reason().contains("LOCKDOWN"), "{}", reported.object);
    let records = home.records();
    assert_eq!(records.last().map(|record| &record["kind"]), Some(&json!("refusal")), "{records:?}");
    let held = hold_state_lock(&home, FlockArg::LockExclusive);
    let call = event(&home, "Read", &json!({"file_path": file})).to_string();
    run(&home, &["pre-tool-use", "--deadline-ms", "300"], call.as_bytes()).must_block();
    drop(held);
}

#[test]
fn post_hook_names_secrets_and_shows_how_to_repair() {
    let home = Home::initialised();
    let after = |event: serde_json::Value| run(&home, &["post-tool-use"], event.to_string().as_bytes());
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    let context = |reported: &super::HookOutput| {
        assert_eq!(reported.code, Some(0));
        reported.object["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned()
    };
    let done = |response: serde_json::Value| {
        after(json!({"hook_event_name": "PostToolUse", "tool_name": "Read", "tool_response": response}))
    };
    let reported = done(json!({"file": {"content": [format!("x = {secret}")]}}));
    assert!(context(&reported).contains("github_token"), "{}", reported.object);
    assert!(!reported.stdout.contains(&secret), "it is not repeated");
    assert_eq!(reported.object["hookSpecificOutput"]["hookEventName"], "PostToolUse");
    assert_eq!(done(json!({"content": "nothing here"})).object, json!({}));
    let failed = |tool: &str, error: &str| {
        after(json!({"hook_event_name": "PostToolUseFailure", "tool_name": tool, "error": error}))
    };
    let reported = failed("Write", "InputValidationError: The required parameter `content` is missing");
    assert!(context(&reported).contains("\"content\":\"Remember the milk.\""), "{}", reported.object);
    assert_eq!(reported.object["hookSpecificOutput"]["hookEventName"], "PostToolUseFailure");
    let curated = failed("mcp__mail__GMAIL_SEND_EMAIL", "1 validation error: Field required");
    assert!(context(&curated).contains("recipient_email"), "{}", curated.object);
    let content = json!([{"type": "text", "text": "1 validation error: Field required"}]);
    let reported =
        after(json!({"hook_event_name": "PostToolUse", "tool_name": "mcp__mail__GMAIL_SEND_EMAIL",
        "tool_response": {"isError": true, "content": content}}));
    assert!(context(&reported).contains("recipient_email"), "an error in a result: {}", reported.object);
    assert_eq!(failed("Write", "disk full").object, json!({}), "that is not the call's fault");
    assert_eq!(failed("Task", "a parameter is required").object, json!({}), "no example is known");
    assert!(
        home.root().join("state/ledger").read_dir().is_err(),
        "looking back takes no lock and writes nothing"
    );
}
