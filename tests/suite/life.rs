//! Lifecycle of the daemon: start, stop, crash and restart lose nothing, and one daemon owns its sockets.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use nix::sys::signal::Signal;
use serde_json::json;
use tests::{Daemon, Home, sinew};

fn mode_of(path: &std::path::Path) -> u32 {
    path.metadata().unwrap_or_else(|e| panic!("{}: {e}", path.display())).permissions().mode() & 0o777
}

#[test]
fn folders_and_sockets_are_private() {
    let daemon = Daemon::start();
    let root = daemon.home().root();
    for folder in ["run", "state", "state/ledger", "log"] {
        assert_eq!(mode_of(&root.join(folder)), 0o700, "{folder}");
    }
    for socket in ["agent.sock", "control.sock"] {
        assert_eq!(mode_of(&daemon.home().socket(socket)), 0o600, "{socket}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn memory_is_not_readable_and_no_core_is_dumped() {
    let look = |daemon: &Daemon| std::fs::File::open(format!("/proc/{}/mem", daemon.pid())).map(drop);
    let daemon = Daemon::start();
    assert_eq!(look(&daemon).unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().collect::<Vec<_>>()[4..6], ["0", "0"], "{core}");
    // With `--debuggable` the memory is readable, so the daemon and not this machine refused it above.
    let debuggable = Daemon::start_debuggable(Home::initialised());
    look(&debuggable).unwrap();
}

#[test]
fn run_folder_open_to_others_is_refused_with_the_remedy() {
    let home = Home::initialised();
    let run = home.root().join("run");
    std::fs::create_dir_all(&run).unwrap();
    std::fs::set_permissions(&run, PermissionsExt::from_mode(0o755)).unwrap();
    let refused = home.run(&["serve"]).must_exit(7);
    assert!(refused.stderr().contains("chmod 700"), "{refused}");
}

#[test]
fn second_daemon_is_refused_and_the_first_continues() {
    let daemon = Daemon::start();
    let second = daemon.home().run(&["serve"]);
    assert_eq!(second.output.status.code(), Some(8), "{second}");
    assert!(second.stderr().contains(&daemon.pid().to_string()), "names the running one: {second}");
    assert!(daemon.agent().request("sinew/status", &json!({}))["result"].is_object());
}

#[test]
fn stale_socket_is_replaced() {
    let home = Home::initialised();
    let daemon = Daemon::start_in(home);
    let home = daemon.crash();
    assert!(home.socket("agent.sock").exists(), "a crash leaves its sockets behind");
    let daemon = Daemon::start_in(home);
    assert!(daemon.agent().request("sinew/status", &json!({}))["result"].is_object());
    let home = daemon.stop();
    assert!(
        !home.socket("agent.sock").exists() && !home.socket("control.sock").exists(),
        "a clean stop removes them"
    );
}

#[test]
fn live_socket_of_another_process_is_never_removed() {
    let home = Home::initialised();
    let run = home.root().join("run");
    std::fs::create_dir_all(&run).unwrap();
    std::fs::set_permissions(&run, PermissionsExt::from_mode(0o700)).unwrap();
    let _holder = UnixListener::bind(home.socket("agent.sock")).unwrap();
    let refused = home.run(&["serve"]).must_exit(7);
    assert!(refused.stderr().contains("agent.sock"), "{refused}");
    assert!(home.socket("agent.sock").exists());
}

#[test]
fn path_too_long_for_a_socket_is_refused_with_the_limit() {
    let home = Home::new();
    let long = home.workspace().join("x".repeat(120));
    let mut command = sinew();
    let output = command.arg("serve").env("SINEW_HOME", long).output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("107") || text.contains("103"), "{text}");
}

#[test]
fn calls_in_flight_are_drained_on_sigterm() {
    let daemon = Daemon::start();
    let mut client = daemon.agent();
    let mut lines = String::new();
    for id in 0..50 {
        let params =
            json!({"tool_name": "write_file", "arguments": {"path": format!("f{id}"), "content": "x"}});
        lines.push_str(
            &json!({"jsonrpc": "2.0", "id": id, "method": "sinew/execute", "params": params}).to_string(),
        );
        lines.push('\n');
    }
    client.send(lines.as_bytes());
    let first = client.receive().expect("the first answer");
    assert!(first["result"].is_object(), "{first}");
    let home = daemon.stop();
    let records = home.records();
    let count = |kind: &str| records.iter().filter(|record| record["kind"] == kind).count();
    assert_eq!(count("decision"), count("outcome"), "nothing is left open");
    assert_eq!(count("stop"), 1, "a clean stop is on record");
}

#[test]
fn control_socket_can_stop_it_and_agent_socket_cannot() {
    let mut daemon = Daemon::start();
    let refused = daemon.agent().request("control/shutdown", &json!({}));
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
    let crossed =
        daemon.control().request("sinew/execute", &json!({"tool_name": "read_file", "arguments": {}}));
    assert_eq!(crossed["error"]["code"], -32601, "{crossed}");
    assert!(daemon.control().request("control/shutdown", &json!({}))["result"].is_object());
    assert!(daemon.wait().success());
}

#[test]
fn second_signal_ends_it_at_once() {
    let mut daemon = Daemon::start();
    daemon.signal(Signal::SIGTERM);
    daemon.signal(Signal::SIGTERM);
    daemon.wait();
}

#[test]
fn after_a_crash_open_calls_are_closed_and_the_chain_continues() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "x");
    let result = daemon.agent().execute("read_file", &json!({"path": "a.txt"}));
    let home = daemon.crash();
    let before = home.records();
    assert!(
        before.iter().any(|r| r["call_id"] == result["metadata"]["call_id"] && tests::holds(r, "outcome"))
    );
    let daemon = Daemon::start_in(home);
    let after = daemon.home().records();
    assert_eq!(after.get(..before.len()).unwrap(), before, "nothing that was written changes");
    let seqs: Vec<u64> = after.iter().map(|record| record["seq"].as_u64().unwrap()).collect();
    assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seqs:?}");
}

#[test]
fn bad_configuration_is_refused_with_file_and_line() {
    for (file, content, part) in [
        ("governance/tools.yaml", "tools:\n  read_file:\n    categroy: read_only\n", "categroy"),
        ("governance/modes.yaml", "", "modes.yaml"),
        ("governance/safety.yaml", "rate_limits:\n  SAFE: {tool_calls_per_minute: 1}\n", "SAFE"),
        ("sinew.yaml", "workspces: []\n", "workspces"),
    ] {
        let home = Home::initialised();
        home.configure(file, content);
        let refused = home.run(&["serve"]).must_exit(7);
        assert!(refused.stderr().contains(file) && refused.stderr().contains(part), "{refused}");
    }
}

#[test]
fn built_in_file_applies_where_the_home_has_none() {
    let home = Home::initialised();
    std::fs::remove_file(home.root().join("config/governance/safety.yaml")).unwrap();
    home.run(&["check"]).must_exit(0);
    assert_eq!(
        home.run(&["config", "get", "human_approval.timeout_seconds"]).must_exit(0).stdout().trim(),
        "300"
    );
}

#[test]
fn policy_that_others_can_write_is_refused() {
    let home = Home::initialised();
    let file = home.root().join("config/governance/tools.yaml");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
    let refused = home.run(&["serve"]).must_exit(7);
    assert!(refused.stderr().contains("tools.yaml") && refused.stderr().contains("chmod"), "{refused}");
}

/// Whatever `check` accepts, `serve` starts with, and whatever `check` refuses, `serve` refuses or leaves out.
#[test]
fn check_and_serve_agree_on_every_file() {
    let shipped = |home: &Home, name: &str| {
        std::fs::read_to_string(home.root().join("config").join(name)).expect("it is shipped")
    };
    type Change = fn(&str) -> String;
    let changes: &[(&str, Change)] = &[
        ("unknown key", |text| format!("{text}\nzebra: 1\n")),
        ("quoted number", |text| text.replacen(": 64 ", ": \"64\" ", 1).replacen(": 600,", ": \"600\",", 1)),
        ("separator", |text| text.replacen(": 256 ", ": 2_56 ", 1).replacen(": 64 ", ": 6_4 ", 1)),
        ("link", |text| text.to_owned()),
        ("writable by all", |text| text.to_owned()),
    ];
    for name in ["sinew.yaml", "governance/tools.yaml", "governance/modes.yaml", "governance/safety.yaml"] {
        for (what, change) in changes {
            let home = Home::initialised();
            let file = home.root().join("config").join(name);
            home.configure(name, &change(&shipped(&home, name)));
            match *what {
                "link" => {
                    std::fs::rename(&file, home.user_home().join("elsewhere")).expect("moved");
                    std::os::unix::fs::symlink(home.user_home().join("elsewhere"), &file).expect("linked");
                }
                "writable by all" => {
                    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).expect("changed");
                }
                _ => {}
            }
            let checked = home.run(&["check"]);
            match checked.output.status.code() {
                Some(0) => drop(Daemon::start_in(home).stop()),
                _ => drop(home.run(&["serve"]).must_exit(7)),
            }
        }
    }
}
