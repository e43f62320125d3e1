//! A reader may close the output of a command at any time. The command then ends quietly, without an error.

use std::io::{BufRead, BufReader};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use tests::{Daemon, Home, sinew};

/// Timeout for a loaded machine; only a failing test reaches it.
const TIMEOUT: Duration = Duration::from_secs(20);

fn spawn(home: &Home, words: &[&str], stdout: impl Into<Stdio>) -> Child {
    let mut command = sinew();
    command
        .args(words)
        .current_dir(home.workspace())
        .env("SINEW_HOME", home.root())
        .env("HOME", home.user_home());
    command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped()).spawn().expect("start sinew")
}

/// Waits for the process to exit by itself.
fn wait_for_exit(mut child: Child, words: &[&str]) -> Output {
    let deadline = Instant::now() + TIMEOUT;
    while child.try_wait().expect("ask for the child").is_none() {
        if Instant::now() > deadline {
            child.kill().expect("it is ours");
            panic!("`sinew {}` continues although its output is closed", words.join(" "));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("it has ended")
}

/// Runs a command whose output has no reader from the start.
fn run_without_reader(home: &Home, words: &[&str]) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = wait_for_exit(spawn(home, words, writer), words);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Returns a home with a daemon log and a few records.
fn used_home() -> Home {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "x");
    let mut agent = daemon.agent();
    for _ in 0..3 {
        agent.execute("read_file", &json!({"path": "a.txt"}));
    }
    daemon.stop()
}

#[test]
fn closed_output_ends_every_command_quietly() {
    let home = used_home();
    let call =
        home.records().iter().find_map(|record| record["call_id"].as_str().map(str::to_owned)).unwrap();
    let commands: [&[&str]; 15] = [
        &["schema"],
        &["schema", "tools"],
        &["completions", "bash"],
        &["tools", "list"],
        &["tools", "show", "read_file"],
        &["workspace", "list"],
        &["init"],
        &["logs"],
        &["logs", "--json", "--follow"],
        &["ledger", "tail"],
        &["ledger", "tail", "--follow"],
        &["ledger", "export"],
        &["ledger", "export", "--format", "csv"],
        &["ledger", "verify"],
        &["trace", &call],
    ];
    for words in commands {
        assert_eq!(run_without_reader(&home, words), (Some(0), String::new()), "sinew {}", words.join(" "));
    }
    let (code, _) = run_without_reader(&home, &["call", "read_file", "path=a.txt"]);
    assert_eq!(code, Some(0));
    let (code, _) = run_without_reader(&home, &["call", "read_file", "path=/etc/hostname", "--json"]);
    assert_eq!(code, Some(3), "how a call ended does not depend on who listens");
}

#[test]
fn demo_without_a_reader_leaves_nothing_behind() {
    let home = Home::new();
    let temporary = home.workspace();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = sinew();
    command.arg("demo").env("TMPDIR", &temporary).env("HOME", home.user_home()).stdout(writer);
    let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let output = wait_for_exit(child, &["demo"]);
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "its folder is still there");
}

#[test]
fn following_ends_with_its_reader_even_without_output() {
    let home = used_home();
    for words in [["ledger", "tail"].as_slice(), &["ledger", "tail", "--json"], &["logs"]] {
        let shown = home.run(words).must_exit(0).stdout().lines().count();
        let following = [words, &["-f"]].concat();
        let mut child = spawn(&home, &following, Stdio::piped());
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Reads every line there is: from here on nothing is written, so no write can fail.
        assert_eq!(lines.take(shown).filter(Result::is_ok).count(), shown);
        let output = wait_for_exit(child, &following);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), text.as_ref()), (Some(0), ""), "sinew {}", following.join(" "));
    }
}

#[test]
fn following_shows_new_entries() {
    let daemon = Daemon::start();
    let words = ["ledger", "tail", "-f", "--json"];
    let mut child = spawn(daemon.home(), &words, Stdio::piped());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut wait_for = |word: &str| lines.by_ref().map_while(Result::ok).any(|line| line.contains(word));
    assert!(wait_for("\"start\""), "first, what is there already");
    let result = daemon.agent().execute("read_file", &json!({"path": "/etc/hostname"}));
    assert!(wait_for(result["metadata"]["call_id"].as_str().unwrap()), "then what comes");
    drop(lines);
    assert_eq!(wait_for_exit(child, &words).status.code(), Some(0));
}

#[test]
#[cfg(target_os = "linux")]
fn failed_write_to_output_is_an_error() {
    let home = used_home();
    for words in [["schema", "tools"].as_slice(), &["ledger", "export"], &["call", "read_file", "path=a.txt"]]
    {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = wait_for_exit(spawn(&home, words, full), words);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "sinew {}: {text}", words.join(" "));
        assert!(text.contains("standard output cannot be written"), "{text}");
    }
}
