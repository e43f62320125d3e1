//! Every hostile program, with and without a sandbox.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use tests::hostile::{self, HostileTargets, PYTHON};
use tests::{Daemon, Home};

use super::{home, output, run};

/// Second workspace, which is read-only.
fn read_only(home: &Home) -> PathBuf {
    home.workspace().with_file_name("given")
}

fn furnish(home: &Home) {
    hostile::fill_workspace(&home.workspace(), &read_only(home));
}

fn described(outside: &HostileTargets, home: &Home) -> String {
    outside.to_json(&home.workspace(), &read_only(home))
}

fn names(home: &Home) -> Vec<String> {
    furnish(home);
    let script = home.workspace().join("attempts.py");
    let listed =
        Command::new(PYTHON).arg(script).arg("--list").output().expect("python3, which the attempts need");
    String::from_utf8(listed.stdout).expect("names").lines().map(str::to_owned).collect()
}

/// Output of an attempt without a sandbox, started as any program starts another.
fn unconfined(home: &Home, name: &str, outside: &HostileTargets) -> String {
    furnish(home);
    let open_for_all = outside.tcp.try_clone().expect("a descriptor");
    rustix_inheritable(&open_for_all);
    let mut command = Command::new(PYTHON);
    command.arg(home.workspace().join("attempts.py")).args([name, &described(outside, home)]);
    command.env("SINEW_CANARY", "leaked").stdin(Stdio::piped());
    let ran = command.output().expect("run an attempt");
    String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr)
}

/// Makes a descriptor inheritable, as a careless program does.
fn rustix_inheritable(socket: &TcpListener) {
    let flags = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty());
    nix::fcntl::fcntl(socket, flags).expect("an inheritable descriptor");
}

fn confined(daemon: &Daemon, name: &str, outside: &HostileTargets) -> Value {
    furnish(daemon.home());
    let script = daemon.home().workspace().join("attempts.py").display().to_string();
    run(daemon, &[PYTHON, &script, name, &described(outside, daemon.home())])
}

/// Each of these tests makes every fourth attempt, so that in parallel they take a quarter of the time.
#[test]
fn every_attempt_escapes_only_without_a_sandbox_1() {
    make_attempts(0);
}

#[test]
fn every_attempt_escapes_only_without_a_sandbox_2() {
    make_attempts(1);
}

#[test]
fn every_attempt_escapes_only_without_a_sandbox_3() {
    make_attempts(2);
}

#[test]
fn every_attempt_escapes_only_without_a_sandbox_4() {
    make_attempts(3);
}

fn make_attempts(which: usize) {
    let home = home("");
    std::fs::create_dir(read_only(&home)).expect("a second workspace");
    home.run(&["workspace", "add", "--read-only", read_only(&home).to_str().expect("text")]).must_exit(0);
    let daemon = Daemon::start_with(home, &[("SINEW_CANARY", "leaked")]);
    let names = names(daemon.home());
    assert!(names.len() >= 40, "{} attempts", names.len());
    let mut wrong = Vec::new();
    for name in names.iter().skip(which).step_by(4) {
        let without = unconfined(daemon.home(), name, &HostileTargets::create());
        if without.trim() != "escaped" {
            wrong.push(format!("{name} proves nothing: without a sandbox it printed {without}"));
        }
        let result = confined(&daemon, name, &HostileTargets::create());
        let within = output(&result);
        if !within.starts_with("contained:") {
            wrong.push(format!("{name} in the sandbox: {within}{}", result["output"]["stderr"]));
        }
    }
    assert!(wrong.is_empty(), "of {}:\n{}", names.len(), wrong.join("\n"));
}
