//! Texts that a model receives: the content itself, and refusals that fit into few tokens.

use serde_json::{Value, json};
use tests::{Client, Daemon};

use super::shake;

/// Upper bound of the number of tokens of a text. Common tokenizers need about four characters of English or
/// JSON per token.
fn tokens(text: &str) -> usize {
    text.chars().count().div_ceil(4)
}

/// Calls a tool and returns the texts of its result, joined.
#[allow(clippy::needless_pass_by_value)] // callers write the value in place
fn text_of(client: &mut Client, tool: &str, arguments: Value) -> String {
    let response = client.request("tools/call", &json!({"name": tool, "arguments": arguments}));
    let message = response["error"]["message"].as_str().map(str::to_owned);
    let blocks = response["result"]["content"].as_array().cloned().unwrap_or_default();
    let text = |block: &Value| block["text"].as_str().unwrap_or_default().to_owned();
    message.unwrap_or_else(|| blocks.iter().map(text).collect::<Vec<_>>().join("\n"))
}

fn connect(daemon: &Daemon) -> Client {
    let mut client = daemon.agent();
    shake(&mut client, "2025-11-25");
    client
}

#[test]
fn text_tools_answer_with_the_text_itself() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "one\ntwo\n");
    let mut client = connect(&daemon);
    let mut check = |tool: &str, arguments: Value, expect: &str| {
        assert_eq!(text_of(&mut client, tool, arguments), expect, "{tool}");
    };
    check("read_file", json!({"path": "a.txt"}), "one\ntwo\n");
    check("run_command", json!({"command": ["cat", "a.txt"]}), "one\ntwo\n");
    check("run_command", json!({"command": ["true"]}), "exit code 0, no output");
    check("search_files", json!({"query": "two"}), "a.txt:2:two");
    check("list_directory", json!({"path": "."}), "a.txt (8 bytes)");
    check("search_files", json!({"query": "three"}), "no matches (files searched: 1)");
    let cut = text_of(&mut client, "read_file", json!({"path": "a.txt", "head": 1}));
    assert_eq!(cut, "one\n\n[4 of 8 bytes shown; call again with offset=4]");
    let missing = text_of(&mut client, "run_command", json!({"command": ["cat", "missing"]}));
    assert_eq!(missing, "exit code 1\nstderr:\ncat: missing: No such file or directory\n");
    assert!(tokens("exit code 0, no output") <= 30);
}

#[test]
fn refusals_are_short_and_free_of_operator_words() {
    let daemon = Daemon::start();
    let mut client = connect(&daemon);
    for (tool, arguments) in [
        ("read_file", json!({})),
        ("read_file", json!({"path": 5, "foo": 1})),
        ("read_file", json!({"path": "/etc/shadow"})),
        ("read_file", json!({"path": "/etc/hostname"})),
        ("write_file", json!({"path": "a.txt"})),
        ("write_file", json!({"path": ".git/hooks/x", "content": "twenty characters at least"})),
        ("edit_file", json!({"path": "a.txt", "old_text": "a", "new_text": "b"})),
        ("edit_file", json!({"path": "a.txt", "old_string": "a", "new_string": "b", "extra": 1})),
        ("run_command", json!({"argv": ["true"]})),
        ("run_command", json!({"command": ["curl", "-s", "example.com"]})),
        ("run_command", json!({"command": "ls | wc"})),
        ("fetch_url", json!({"url": "http://127.0.0.1/"})),
        ("fetch_url", json!({"url": "ftp://example.com/"})),
        ("raed_file", json!({"path": "a.txt"})),
    ] {
        let text = text_of(&mut client, tool, arguments);
        assert!(!text.is_empty() && tokens(&text) <= 120, "{} tokens: {text}", tokens(&text));
        for internal in ["`sinew ", ".yaml", "`repair`", "`example`", "Rule:", "⚠"] {
            assert!(!text.contains(internal), "{internal}: {text}");
        }
        for line in text.lines().filter(|line| line.len() > 8) {
            assert_eq!(text.matches(line).count(), 1, "said twice: {text}");
        }
    }
}

#[test]
fn command_that_needs_a_shell_is_explained() {
    let daemon = Daemon::start();
    let text = text_of(&mut connect(&daemon), "run_command", json!({"command": "ls | wc"}));
    assert!(text.contains("no shell runs it") && text.contains("Example: {\"command\":["), "{text}");
}

#[test]
fn refusal_lists_the_permitted_commands() {
    let daemon = Daemon::start();
    let text = text_of(&mut connect(&daemon), "run_command", json!({"command": ["curl", "x"]}));
    assert!(text.contains("permits only these commands: ls, cat, "), "{text}");
}

/// These hosts give their model the structured content, if there is any, and not the text.
#[test]
fn hosts_that_hide_text_get_only_text() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "one\ntwo\n");
    for name in ["claude-code", "codex-mcp-client"] {
        let mut client = daemon.agent();
        let hello =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": name}});
        client.request("initialize", &hello);
        let listed = client.request("tools/list", &json!({}));
        assert!(!listed.to_string().contains("outputSchema") && listed["result"]["tools"].is_array());
        for (tool, arguments, expect) in [
            ("read_file", json!({"path": "a.txt"}), "one\ntwo\n"),
            ("run_command", json!({"command": ["true"]}), "exit code 0, no output"),
        ] {
            let called = client.request("tools/call", &json!({"name": tool, "arguments": arguments}));
            let result = &called["result"];
            assert_eq!(result["content"], json!([{"type": "text", "text": expect}]), "{called}");
            assert_eq!(
                (&result["isError"], result.get("structuredContent")),
                (&json!(false), None),
                "{called}"
            );
        }
    }
}
