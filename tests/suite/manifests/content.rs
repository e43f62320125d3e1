//! Results of upstream servers and programs reach an MCP client as they are: content blocks, structured
//! content, errors and progress.

use serde_json::{Value, json};
use tests::{Client, Daemon, Home};

use super::run::put;

/// Home with the fixture server in its workspace, and a program that prints lines.
pub(crate) fn home() -> Home {
    let home = Home::initialised().without_automatic_modes();
    let server = home.file("fixtures_server.py", include_str!("../../fixtures/server.py"));
    let manifest =
        include_str!("../../fixtures/fixtures.yaml").replace("SERVER", &server.display().to_string());
    put(&home, "fixtures.yaml", &manifest);
    let lines = "tool:\n  id: lines\n  type: cli\n  name: Lines\n  version: 1.0.0\n  description: Prints lines\n  \
        cli_specific:\n    executable: python3\n  commands:\n    - name: print\n      category: read_only\n      risk_level: low\n      \
        parameters: []\n      argv: [-uc, \"import time\\nfor n in range(3):\\n print('line', n); time.sleep(0.05)\"]\n";
    put(&home, "lines.yaml", lines);
    home
}

fn connect(daemon: &Daemon) -> Client {
    let mut client = daemon.agent();
    super::super::mcp::shake(&mut client, "2025-11-25");
    client
}

/// Calls a tool and returns its progress notifications and its result.
fn call(client: &mut Client, tool: &str) -> (Vec<Value>, Value) {
    let params = json!({"name": tool, "arguments": {}, "_meta": {"progressToken": "t"}});
    let request = json!({"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": params});
    client.send(format!("{request}\n").as_bytes());
    let mut progress = Vec::new();
    loop {
        let message = client.receive().expect("a message");
        match message.get("id") {
            Some(_) => return (progress, message["result"].clone()),
            None => progress.push(message["params"].clone()),
        }
    }
}

#[test]
fn content_blocks_of_a_server_pass_through() {
    let daemon = Daemon::start_in(home());
    let mut client = connect(&daemon);
    let mut types = |tool: &str| {
        let (_, result) = call(&mut client, tool);
        let blocks = result["content"].as_array().cloned().unwrap_or_default();
        let types: Vec<String> =
            blocks.iter().map(|block| block["type"].as_str().unwrap().to_owned()).collect();
        (types.join(" "), result)
    };
    for (tool, expect) in [
        ("fixtures__test_simple_text", "text"),
        ("fixtures__test_image_content", "image"),
        ("fixtures__test_audio_content", "audio"),
        ("fixtures__test_embedded_resource", "resource"),
        ("fixtures__test_multiple_content_types", "text image resource"),
        ("fixtures.test_image_content", "image"),
    ] {
        let (found, result) = types(tool);
        assert_eq!((found.as_str(), &result["isError"]), (expect, &json!(false)), "{tool}: {result}");
    }
    let (found, result) = types("fixtures__test_structured");
    assert_eq!((found.as_str(), &result["structuredContent"]), ("text image", &json!({"answer": 42})));
    let (_, result) = types("fixtures__test_error_handling");
    assert_eq!(result["isError"], true, "{result}");
    let text = "This tool intentionally returns an error for testing";
    assert_eq!(result["content"], json!([{"type": "text", "text": text}]));
}

#[test]
fn progress_of_servers_and_programs_passes_through() {
    let daemon = Daemon::start_in(home());
    let mut client = connect(&daemon);
    let (progress, _) = call(&mut client, "fixtures__test_tool_with_progress");
    let amounts: Vec<_> =
        progress.iter().map(|note| (note["progress"].as_u64(), note["total"].as_u64())).collect();
    assert_eq!(
        amounts,
        [(Some(0), Some(100)), (Some(50), Some(100)), (Some(100), Some(100))],
        "{progress:?}"
    );
    assert_eq!(progress[1]["message"], "50 of 100");
    let (progress, result) = call(&mut client, "lines__print");
    let lines: Vec<&str> = progress.iter().filter_map(|note| note["message"].as_str()).collect();
    assert_eq!(lines, ["line 0", "line 1", "line 2"], "{result}");
    assert_eq!(result["content"][0]["text"], "line 0\nline 1\nline 2\n", "{result}");
}

/// Names with dots are not allowed in function-calling interfaces, so no listing for models has them.
#[test]
fn listed_names_have_no_dots_and_can_be_called() {
    let daemon = Daemon::start_in(home());
    let mut client = connect(&daemon);
    let listed = client.request("tools/list", &json!({}));
    for tool in listed["result"]["tools"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{name}");
    }
    assert!(listed.to_string().contains("\"fixtures__test_simple_text\""));
}
