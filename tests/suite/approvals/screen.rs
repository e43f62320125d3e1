//! Only printable characters of an approval request reach the terminal, whichever field they come from.

use serde_json::json;

use super::*;

/// Characters that a terminal would execute, hide, or show as a space.
const HOSTILE: [&str; 14] = [
    "\u{1b}[2K\u{1b}[1A",
    "\u{1b}]0;title\u{7}",
    "\r",
    "\u{8}\u{8}",
    "\u{9b}31m",
    "\u{202e}",
    "\u{200b}",
    "\u{e0041}",
    "\u{fe0f}",
    "\u{a0}",
    "\u{3000}",
    "\u{2028}",
    "\u{feff}",
    "\u{7f}",
];

fn is_printable(c: char) -> bool {
    let odd_space = c != ' ' && c.is_whitespace();
    let hostile = !c.is_ascii() && HOSTILE.iter().any(|text| text.contains(c));
    !c.is_control() && !odd_space && !hostile
}

#[test]
fn every_field_is_escaped_on_every_output() {
    let daemon = daemon_requiring_approval();
    let hostile = HOSTILE.concat();
    let mut agent = daemon.agent();
    let client = json!({"name": format!("evil{hostile}"), "version": "1"});
    agent.request(
        "initialize",
        &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}),
    );
    let content = format!("start{hostile}\n{}end\n", " ".repeat(10_000));
    let name = format!("n{}.txt", hostile.replace('/', ""));
    let asked = agent.request(
        "tools/call",
        &json!({"name": "write_file", "arguments": {"path": name, "content": content},
            "_meta": {"sinew/approval": "async"}}),
    );
    let refusal = &asked["result"]["_meta"]["sinew/refusal"];
    let id = refusal["approval_id"].as_str().unwrap_or_else(|| panic!("{asked}")).to_owned();
    for words in [
        ["approvals", "list"].as_slice(),
        &["approvals", "show", &id],
        &["approvals", "list", "--json"],
        &["approvals", "show", &id, "--json"],
        &["approve", &id, "--for", "10m", "--yes"],
        &["approvals", "grants"],
        &["approvals", "grants", "--json"],
        &["ps"],
    ] {
        let run = daemon.home().run(words).must_exit(0);
        for text in [run.stdout(), run.stderr()] {
            let bad: Vec<char> = text.chars().filter(|c| *c != '\n' && !is_printable(*c)).collect();
            assert!(bad.is_empty(), "{words:?}: {bad:?} in {text}");
        }
    }
    check_history_output(&daemon, &mut agent, &hostile);
    let shown = ask_and_show(&daemon, &content);
    assert!(
        shown.contains("\\u{1b}[2K") && shown.contains("\\{20×10000}end"),
        "seen for what it is: {shown}"
    );
}

/// Checks the commands that show past calls in the same way.
fn check_history_output(daemon: &Daemon, agent: &mut Client, hostile: &str) {
    agent.execute(&format!("tool{hostile}"), &json!({}));
    let name = format!("s{}", hostile.replace('/', ""));
    let path = daemon.home().workspace().join(&name);
    std::fs::write(&path, "").unwrap();
    let home = daemon.home();
    let deleted = agent.execute("delete_file", &json!({"path": path}));
    assert_eq!(deleted["success"], true, "{deleted}");
    let id = deleted["metadata"]["call_id"].as_str().unwrap().to_owned();
    for words in [
        ["ledger", "tail", "-n", "50"].as_slice(),
        &["ledger", "query", "--kind", "refusal"],
        &["ledger", "show", &id],
        &["trace", &id],
        &["undo", &id, "--dry-run"],
        &["logs"],
        &["sessions", "list"],
        &["call", "read_file", &format!("path={name}")],
    ] {
        let run = home.run(words);
        for text in [run.stdout(), run.stderr()] {
            let bad: Vec<char> = text.chars().filter(|c| *c != '\n' && !is_printable(*c)).collect();
            assert!(bad.is_empty(), "{words:?}: {bad:?} in {text}");
        }
    }
}

fn ask_and_show(daemon: &Daemon, content: &str) -> String {
    let id = request_approval(&mut daemon.agent(), &json!({"path": "plain.txt", "content": content}));
    daemon.home().run(&["approvals", "show", &id]).must_exit(0).stdout()
}
