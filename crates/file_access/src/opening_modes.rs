//! Runs the tests of this crate again with the other ways to open a path: by name, as on a system without `openat2`,
//! and with the handles of macOS. Faults and crashes at each system call are left to the ordinary run.

use std::process::Command;

/// Parts of test names that the second runs leave out: they trace the process, or are this test.
const LEFT_OUT: [&str; 2] = ["crashes::", "opening_modes::"];

fn tests_pass_when_opening(mode: &str) {
    if std::env::var_os("SINEW_TESTS_OPEN").is_some() {
        return;
    }
    let mut tests = Command::new(std::env::current_exe().expect("this program"));
    tests.env("SINEW_TESTS_OPEN", mode);
    tests.args(LEFT_OUT.iter().flat_map(|part| ["--skip", part]));
    let output = tests.output().expect("start the tests again");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{mode}: {text}{}", String::from_utf8_lossy(&output.stderr));
    let passed = text.lines().find_map(|line| line.strip_prefix("test result: ok. "));
    let passed: usize = passed.and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("a count");
    assert!(passed > 100, "{mode}: {passed} tests");
}

#[test]
fn tests_pass_without_openat2() {
    tests_pass_when_opening("by_name");
}

#[test]
fn tests_pass_with_the_handles_of_macos() {
    tests_pass_when_opening("as_macos");
}
