//! Upgrade of a running daemon: the program file is replaced, and the daemon hands its sockets to the new program in the
//! same process. No call is lost, and none runs twice.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tests::{Bridge, Daemon, Home, sinew, wait_until};

/// Copies the program under test. The copies differ in bytes that the loader does not read. A child makes the copy: if
/// this process wrote it, a child that another thread starts meanwhile could keep it open, and it could not be run.
fn install(program: &Path, version: u8) {
    let script =
        "cp \"$1\" \"$2.new\" && echo \"$3\" >> \"$2.new\" && chmod 755 \"$2.new\" && mv \"$2.new\" \"$2\"";
    let mut copy = Command::new("sh");
    copy.args(["-c", script, "sh"]).arg(sinew().get_program()).arg(program).arg(version.to_string());
    assert!(copy.status().expect("sh").success());
}

/// Daemon of an installed program.
fn installed_daemon() -> (Daemon, PathBuf) {
    let home = Home::initialised().without_rate_limits().without_automatic_modes();
    let program = home.user_home().join("sinew");
    install(&program, 1);
    home.file("a.txt", "content");
    (Daemon::start_from(home, &program), program)
}

/// Inode of the program that the daemon runs, which may have been removed.
fn program_of(daemon: &Daemon) -> u64 {
    std::fs::metadata(format!("/proc/{}/exe", daemon.pid())).expect("the program of the daemon").ino()
}

#[test]
fn upgrade_under_load_loses_no_call() {
    let (daemon, program) = installed_daemon();
    let home = daemon.home();
    let pid = daemon.pid();
    let stop = AtomicBool::new(false);
    let is_running = || !stop.load(Ordering::Acquire);
    let (commands, bridged, written) = std::thread::scope(|scope| {
        // Each command makes a connection of its own.
        let commands: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut calls = 0;
                    while is_running() {
                        home.run_in(&home.workspace(), &["call", "read_file", "path=a.txt"]).must_exit(0);
                        calls += 1;
                    }
                    calls
                })
            })
            .collect();
        // An agent's host keeps one connection, with several calls at a time.
        let bridged = scope.spawn(|| {
            let mut bridge = Bridge::start(home, &["--no-start"]);
            bridge.handshake();
            let mut calls = 0;
            while is_running() {
                let ids = calls..calls + 4;
                for id in ids.clone() {
                    bridge.send(&tool_call(id, "read_file", &json!({"path": "a.txt"})));
                }
                for _ in ids {
                    let reply = bridge.receive();
                    assert!(!reply["result"]["isError"].as_bool().unwrap_or(false), "{reply}");
                    assert!(reply.get("error").is_none(), "{reply}");
                }
                calls += 4;
            }
            calls
        });
        // Calls that change the machine: each must run exactly once.
        let written = scope.spawn(|| {
            let mut bridge = Bridge::start(home, &["--no-start"]);
            bridge.handshake();
            let mut calls = 0;
            while is_running() {
                let path = format!("out-{calls}.txt");
                let arguments = json!({"path": path, "content": "x"});
                bridge.send(&tool_call(calls, "write_file", &arguments));
                let reply = bridge.receive();
                assert_ne!(reply["result"]["isError"], true, "{reply}");
                calls += 1;
            }
            calls
        });
        for version in 2..5 {
            // The load of each version.
            let records = home.records().len();
            wait_until("calls run", || home.records().len() > records + 20);
            install(&program, version);
            let run = daemon.home().run(&["restart"]).must_exit(0);
            assert!(run.stdout().contains("restarted:"), "{run}");
            assert_eq!(daemon.pid(), pid, "the process stays the same");
            let installed = std::fs::metadata(&program).expect("the program").ino();
            assert_eq!(program_of(&daemon), installed, "it runs the new file");
        }
        stop.store(true, Ordering::Release);
        let commands: u64 = commands.into_iter().map(|thread| thread.join().expect("commands")).sum();
        (commands, bridged.join().expect("bridge"), written.join().expect("writer"))
    });
    assert!(commands > 5 && bridged > 20 && written > 5, "{commands} {bridged} {written}");
    let records = home.complete_records();
    let done = |tool: &str| {
        let outcomes = records.iter().filter(|record| tests::holds(record, "outcome"));
        outcomes.filter(|record| record.to_string().contains(tool)).count() as u64
    };
    assert_eq!(done("write_file"), written, "each write has one outcome");
    let files = std::fs::read_dir(home.workspace()).expect("a folder");
    let files = files.filter(|entry| {
        entry.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("out-"))
    });
    assert_eq!(files.count() as u64, written);
    home.run(&["ledger", "verify"]).must_exit(0);
}

fn tool_call(id: u64, tool: &str, arguments: &Value) -> String {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

#[test]
fn program_that_cannot_serve_does_not_replace_the_daemon() {
    let (daemon, program) = installed_daemon();
    let before = program_of(&daemon);
    let mut agent = daemon.agent();
    let check = |why: &str| {
        let run = daemon.home().run(&["restart"]).must_exit(1);
        assert!(run.stderr().contains("was not restarted and continues"), "{run}");
        assert!(run.stderr().contains(why), "{why}: {run}");
    };
    std::fs::remove_file(&program).expect("remove");
    check("No such file");
    std::fs::write(&program, "#!/bin/sh\necho a broken program >&2\nexit 3\n").expect("write");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("permissions");
    check("a broken program");
    // A program of an earlier version does not know the state of this one.
    install(&program, 2);
    let version = daemon.home().root().join("state/version");
    std::fs::write(&version, "2\n").expect("write");
    check("newer version of Sinew");
    std::fs::write(&version, "1\n").expect("write");
    assert_eq!(
        agent.execute("read_file", &json!({"path": "a.txt"}))["success"],
        true,
        "the connection is open"
    );
    assert_eq!(program_of(&daemon), before);
}

#[test]
fn sockets_are_removed_when_a_restarted_daemon_stops() {
    let (daemon, _program) = installed_daemon();
    daemon.home().run(&["restart"]).must_exit(0);
    let inode = || std::fs::metadata(daemon.home().socket("agent.sock")).expect("the socket").ino();
    let before = inode();
    daemon.home().run(&["restart"]).must_exit(0);
    assert_eq!(before, inode(), "the socket is the same");
    let home = daemon.stop();
    assert!(!home.socket("agent.sock").exists() && !home.socket("control.sock").exists());
}
