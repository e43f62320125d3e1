//! The door of a worker session, seen from inside the walls.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use tests::Daemon;

use super::{home, output, run};

#[test]
fn no_command_reaches_the_door_of_a_worker() {
    for network in ["off", "loopback", "full"] {
        let daemon = Daemon::start_in(home(&format!("    network: {network}\n")));
        let mut orchestrator = daemon.agent();
        let opened = orchestrator.request("sinew/session.open", &json!({"allowlist": ["run_command"]}));
        let socket = opened["result"]["socket"].as_str().expect("a path").to_owned();
        let code = "import socket, sys\ntry:\n socket.socket(socket.AF_UNIX).connect(sys.argv[1])\n print('inside')\nexcept OSError as error:\n print('outside', error.errno)";
        let without = Command::new("/usr/bin/python3")
            .args(["-c", code, &socket])
            .output()
            .expect("run it without walls");
        assert_eq!(String::from_utf8_lossy(&without.stdout), "inside\n", "the attempt is a real one");
        let within = run(&daemon, &["/usr/bin/python3", "-c", code, &socket]);
        assert!(output(&within).starts_with("outside"), "{within}");
        let looked = daemon.agent().execute("list_directory", &json!({"path": Path::new(&socket).parent()}));
        assert_eq!(looked["metadata"]["refusal"]["refused"], true, "nor does a tool see it: {looked}");
    }
}
