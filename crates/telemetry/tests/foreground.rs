//! Output of a daemon in the foreground: short lines without control characters and secrets, even for a
//! panic.
//!
//! The test runs itself as a child process with its standard error in a pipe.
#![allow(clippy::unwrap_used, clippy::panic)] // test code, also run by the child

use std::process::{Command, Output};
use std::time::Duration;

use telemetry::{FlushOutcome, LogTarget, TelemetrySettings, init};

const CHILD: &str = "SINEW_TEST_FOREGROUND";
const SECRET: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";

fn child(filter: Option<&str>, directory: &std::path::Path) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "foreground_output_is_short_and_safe", "--nocapture"]);
    command.env(CHILD, directory).env_remove("SINEW_LOG").env_remove("RUST_BACKTRACE");
    if let Some(filter) = filter {
        command.env("SINEW_LOG", filter);
    }
    command.output().unwrap()
}

#[test]
fn foreground_output_is_short_and_safe() {
    if let Some(directory) = std::env::var_os(CHILD) {
        return serve(directory.as_ref());
    }
    let home = tempfile::tempdir().unwrap();
    let output = child(None, home.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 2, "{shown}");
    let (time, rest) = lines.first().unwrap().split_once(' ').unwrap();
    assert_eq!((time.len(), rest), (12, r"WARN  x two\u{a}lines \u{1b}[31m path=/a"));
    assert!(
        lines.last().unwrap().contains("sinew::panic panic: no [redacted:github_token] here thread=worker")
    );
    assert!(!shown.contains('\u{1b}') && !shown.contains(SECRET), "{shown}");
    let log = std::fs::read_to_string(home.path().join("sinew.log")).unwrap();
    assert_eq!(log.lines().count(), 2);
    assert!(!log.contains(SECRET));

    let chatty = child(Some("x=debug,warn"), home.path());
    assert!(
        String::from_utf8_lossy(&chatty.stderr).contains("DEBUG x detail"),
        "SINEW_LOG overrides the settings"
    );
    let wrong = child(Some("deubg"), home.path());
    assert!(!wrong.status.success());
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("`deubg` is not one of error, warn, info"));
}

/// Body of the child process.
fn serve(directory: &std::path::Path) {
    let target = LogTarget::DirectoryAndStderr(directory.to_owned());
    let guard = match init(&TelemetrySettings::default(), &target) {
        Ok(guard) => guard,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    tracing::debug!(target: "x", "detail");
    tracing::warn!(target: "x", path = "/a", "two\nlines \u{1b}[31m");
    let worker = std::thread::Builder::new().name("worker".to_owned());
    let panicked = worker.spawn(|| std::panic::panic_any(format!("no {SECRET} here"))).unwrap().join();
    assert!(panicked.is_err());
    assert_eq!(guard.shutdown(Duration::from_secs(20)), FlushOutcome::Complete);
}
