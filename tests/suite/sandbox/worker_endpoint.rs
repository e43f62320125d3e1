//! Sockets of the daemon, as seen from the sandbox.

use std::process::Command;

use serde_json::json;
use tests::Daemon;

use super::{home, output, run};

/// No sandboxed command reaches the agent socket, a worker socket, or the control socket, where it could
/// approve itself.
#[test]
fn no_command_reaches_a_socket_of_the_daemon() {
    for network in ["off", "loopback", "full"] {
        let daemon = Daemon::start_in(home(&format!("    network: {network}\n")));
        let mut orchestrator = daemon.agent();
        let opened = orchestrator.request("sinew/session.open", &json!({"allowlist": ["run_command"]}));
        let worker = opened["result"]["socket"].as_str().expect("a path").to_owned();
        let code = "import socket, sys\ntry:\n socket.socket(socket.AF_UNIX).connect(sys.argv[1])\n print('inside')\nexcept OSError as error:\n print('outside', error.errno)";
        let ours =
            ["agent.sock", "control.sock"].map(|name| daemon.home().socket(name).display().to_string());
        for socket in ours.into_iter().chain([worker]) {
            let mut without = Command::new("/usr/bin/python3");
            let without = without.args(["-c", code, &socket]).output().expect("run it without a sandbox");
            assert_eq!(String::from_utf8_lossy(&without.stdout), "inside\n", "the attempt is a real one");
            let within = run(&daemon, &["/usr/bin/python3", "-c", code, &socket]);
            assert!(output(&within).starts_with("outside"), "{socket}: {within}");
        }
        let folder = daemon.home().root().join("run");
        let looked = daemon.agent().execute("list_directory", &json!({"path": folder}));
        assert_eq!(looked["metadata"]["refusal"]["refused"], true, "nor does a tool see them: {looked}");
    }
}
