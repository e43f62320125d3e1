//! Daemon killed in the middle of a write: the file is old or new, and a restart leaves no temporary files.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use tests::{Daemon, Home};

/// Attaches a tracer to the daemon that kills it at the nth system call of one kind.
fn kill_at_syscall(daemon: &Daemon, call: &str, nth: usize) -> Option<std::process::Child> {
    let inject = format!("inject={call}:signal=KILL:when={nth}");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject]);
    command.args(["-p", &daemon.pid().to_string()]);
    let tracer = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(mut tracer) = tracer else {
        tests::left_out("there is no strace here");
        return None;
    };
    let status = format!("/proc/{}/status", daemon.pid());
    let deadline = Instant::now() + Duration::from_secs(20);
    while !std::fs::read_to_string(&status).unwrap_or_default().lines().any(is_traced) {
        if tracer.try_wait().expect("ask for strace").is_some() {
            tests::left_out("strace may not attach to a process here");
            return None;
        }
        assert!(Instant::now() < deadline, "strace does not attach");
        std::thread::sleep(Duration::from_millis(2));
    }
    Some(tracer)
}

fn is_traced(line: &str) -> bool {
    line.strip_prefix("TracerPid:").is_some_and(|pid| pid.trim() != "0")
}

fn names(home: &Home) -> Vec<String> {
    let entries = std::fs::read_dir(home.workspace()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Kills the daemon at each system call of one kind while it overwrites a file, and restarts it. Returns the
/// number of kills.
fn check(call: &str, most: usize) -> usize {
    let mut hits = 0;
    for nth in 1..=most {
        let home = Home::initialised();
        home.file("f", "old");
        let daemon = Daemon::start_debuggable(home);
        let mut agent = daemon.agent();
        let Some(mut tracer) = kill_at_syscall(&daemon, call, nth) else { return 0 };
        let answer = agent.try_execute("write_file", &json!({"path": "f", "content": "new"}));
        drop(agent);
        let home = daemon.crash();
        tracer.wait().unwrap();
        let content = std::fs::read_to_string(home.workspace().join("f")).unwrap();
        assert!(["old", "new"].contains(&content.as_str()), "{call} {nth}: {content}");
        hits += usize::from(answer.is_none());
        let daemon = Daemon::start_in(home);
        assert_eq!(names(daemon.home()), ["f"], "{call} {nth}: litter");
        let after = std::fs::read_to_string(daemon.home().workspace().join("f")).unwrap();
        assert_eq!(after, content, "{call} {nth}: a start changes no content");
        let mut agent = daemon.agent();
        let result = agent.execute("write_file", &json!({"path": "f", "content": "newer"}));
        assert_eq!(result["success"], true, "{call} {nth}: {result}");
        let id = result["metadata"]["call_id"].as_str().unwrap();
        daemon.home().run(&["undo", id]).must_exit(0);
        assert_eq!(std::fs::read_to_string(daemon.home().workspace().join("f")).unwrap(), content);
        drop(agent);
        drop(daemon.stop());
    }
    hits
}

fn has_strace() -> bool {
    Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success())
}

#[test]
fn kill_during_rename_leaves_old_or_new_and_no_litter() {
    let hits = check("renameat2", 1) + check("renameat", 1);
    assert!(hits > 0 || !has_strace(), "no kill hit the write");
}

#[test]
fn kill_during_fsync_leaves_old_or_new_and_no_litter() {
    let hits = check("fsync", 3);
    assert!(hits > 0 || !has_strace(), "no kill hit the write");
}

#[test]
fn kill_during_mkdir_leaves_all_or_nothing_and_no_litter() {
    let mut hits = 0;
    for (call, most) in [("mkdirat", 3), ("renameat2", 1)] {
        for nth in 1..=most {
            let daemon = Daemon::start_debuggable(Home::initialised());
            let mut agent = daemon.agent();
            let Some(mut tracer) = kill_at_syscall(&daemon, call, nth) else { return };
            let arguments = json!({"path": "a/b/f", "content": "new", "create_dirs": true});
            let answer = agent.try_execute("write_file", &arguments);
            drop(agent);
            let home = daemon.crash();
            tracer.wait().unwrap();
            hits += usize::from(answer.is_none());
            let daemon = Daemon::start_in(home);
            let content = std::fs::read_to_string(daemon.home().workspace().join("a/b/f")).ok();
            match names(daemon.home()).as_slice() {
                [] => assert_eq!(content, None, "{call} {nth}"),
                [only] => assert_eq!((only.as_str(), content.as_deref()), ("a", Some("new")), "{call} {nth}"),
                more => panic!("{call} {nth}: litter {more:?}"),
            }
            drop(daemon.stop());
        }
    }
    assert!(hits > 0 || !has_strace(), "no kill hit the write");
}
