//! Every name that `docs/telemetry.md` documents arrives at a collector.

use serde_json::{Value, json};
use tests::{Client, Daemon, Home};

use super::collector::{self, Collector};

const PAGE: &str = include_str!("../../../docs/telemetry.md");

/// Names in the first column of the tables below a heading.
fn documented(heading: &str) -> Vec<&'static str> {
    let (_, below) = PAGE.split_once(heading).expect("the page has the heading");
    let section = below.split("\n#").next().unwrap_or_default();
    let first_cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    first_cells.flat_map(|cell| cell.split(", ")).map(|name| name.trim_matches('`')).collect()
}

fn approve_one(control: &mut Client) {
    loop {
        let reply = control.request("control/approvals.list", &json!({}));
        if let Some(id) = reply["result"]["approvals"][0]["id"].as_str() {
            let decided =
                control.request("control/approvals.decide", &json!({"id": id, "answer": "approve"}));
            assert_eq!(decided["result"]["decided"], true, "{decided}");
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Makes calls of every kind: refused, sandboxed, approved, truncated, of a worker, by MCP.
fn work(daemon: &Daemon) {
    let home = daemon.home();
    home.file("long.txt", &"line\n".repeat(2000));
    (0..9).for_each(|n| drop(home.file(&format!("{n}.txt"), "x")));
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    let done = |result: &Value| assert_eq!(result["success"], true, "{result}");
    done(&agent.execute("read_file", &json!({"path": "long.txt", "head": 3})));
    let listed = agent.execute("list_directory", &json!({"path": ".", "max_entries": 3}));
    assert_eq!(listed["metadata"]["truncated"]["unit"], "entries", "{}", listed["metadata"]);
    agent.execute("read_file", &json!({"path": "/etc/hostname"}));
    done(&agent.execute("run_command", &json!({"command": ["ls"]})));
    let session = agent.request("sinew/session.open", &json!({"allowlist": ["read_file"]}))["result"].clone();
    let mut worker = Client::connect(session["socket"].as_str().expect("a socket").as_ref());
    done(&worker.execute("read_file", &json!({"path": "long.txt", "head": 1})));
    let mut mcp = daemon.agent();
    let client = json!({"name": "test", "version": "1"});
    mcp.request(
        "initialize",
        &json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}),
    );
    mcp.request("tools/call", &json!({"name": "read_file", "arguments": {"path": "long.txt", "head": 1}}));
    control.request("control/mode.set", &json!({"mode": "ALERT", "reason": "test"}));
    let write = json!({"path": "a.txt", "content": "x"});
    let waiting = std::thread::spawn(move || agent.execute("write_file", &write));
    approve_one(&mut control);
    done(&waiting.join().expect("an answer"));
}

#[test]
fn every_documented_name_arrives() {
    let collector = Collector::start();
    let home = Home::initialised();
    collector::capture_content(&home);
    let daemon = Daemon::start_with(home, &[collector.variable()]);
    work(&daemon);
    drop(daemon.stop());
    let got = collector.received();
    let spans = documented("### Spans");
    assert!(spans.len() > 20 && documented("### Metrics").len() >= 10, "the page was read: {spans:?}");
    for name in spans {
        assert!(got.has("/v1/traces", name.as_bytes()), "{name} is not among the spans");
    }
    for name in documented("### Metrics") {
        assert!(got.has("/v1/metrics", name.as_bytes()), "{name} is not among the metrics");
    }
    let events = documented("## The log");
    for name in [
        "tool_call_started",
        "tool_call_completed",
        "tool_call_blocked",
        "worker_inner_call",
        "mode_transition",
        "approval_requested",
        "approval_decided",
    ] {
        assert!(
            events.contains(&name) && got.has("/v1/logs", name.as_bytes()),
            "{name} is not among the logs"
        );
    }
}
