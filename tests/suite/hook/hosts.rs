//! Hooks of Codex, Gemini CLI and Cursor: recorded events of each host, and the exact replies.

use serde_json::{Value, json};
use tests::{Daemon, Home};

use super::{HookOutput, run};

/// Event of a host, as its version in docs/hooks.md sends it.
fn event(home: &Home, host: &str, tool: &str, input: &Value) -> Value {
    let cwd = home.workspace();
    match host {
        "codex" => json!({"session_id": "s-1", "turn_id": "t-1", "transcript_path": null, "cwd": cwd,
            "hook_event_name": "PreToolUse", "model": "gpt", "permission_mode": "default", "tool_name": tool,
            "tool_input": input, "tool_use_id": "call-1"}),
        "gemini-cli" => json!({"session_id": "s-1", "transcript_path": "/x.json", "cwd": cwd,
            "hook_event_name": "BeforeTool", "timestamp": "2026-11-18T12:00:00Z", "tool_name": tool,
            "tool_input": input}),
        _ => {
            json!({"conversation_id": "s-1", "generation_id": "g-1", "model": "default", "session_id": "s-1",
            "hook_event_name": "preToolUse", "cursor_version": "3.9.16", "workspace_roots": [cwd], "user_email": null,
            "transcript_path": null, "tool_name": tool, "tool_input": input, "tool_use_id": "tool_1", "cwd": ""})
        }
    }
}

fn judge(home: &Home, host: &str, tool: &str, input: &Value) -> HookOutput {
    let event = event(home, host, tool, input).to_string();
    run(home, &["pre-tool-use", "--host", host], event.as_bytes())
}

/// Returns the decision of a reply, which has the structure of its host.
fn decision<'r>(host: &str, reported: &'r HookOutput) -> (&'r str, &'r str) {
    assert_eq!(reported.code, Some(0), "{}{}", reported.stdout, reported.stderr);
    let object = &reported.object;
    let text = |value: &'r Value| value.as_str().unwrap_or_default();
    let (word, reason) = match host {
        "codex" => {
            let output = &object["hookSpecificOutput"];
            (&output["permissionDecision"], text(&output["permissionDecisionReason"]))
        }
        "gemini-cli" => {
            let shown = object.get("reason").or(object.get("systemMessage"));
            (&object["decision"], shown.map(text).unwrap_or_default())
        }
        _ => (&object["permission"], text(&object["agent_message"])),
    };
    (word.as_str().unwrap_or("none"), reason)
}

fn patch(header: &str) -> Value {
    json!({"command": format!("*** Begin Patch\n*** {header}\n+x\n*** End Patch\n")})
}

#[test]
fn calls_of_every_host_are_judged_and_denials_recorded() {
    let daemon = Daemon::start_in(Home::initialised().without_automatic_modes());
    let home = daemon.home();
    home.file("a.txt", "x");
    home.file(".env", "TOKEN=x");
    let (inside, env) = (home.workspace().join("a.txt"), home.workspace().join(".env"));
    let cases = [
        ("codex", "apply_patch", patch("Add File: new.txt"), "none", ""),
        ("codex", "apply_patch", patch("Update File: .env"), "deny", "forbidden_paths ("),
        ("codex", "apply_patch", patch("Add File: /etc/x"), "deny", "/etc/x"),
        ("codex", "apply_patch", patch("Update File: a.txt\n*** Move to: ../x"), "deny", "contains `..`"),
        ("codex", "apply_patch", patch("Rename: a.txt"), "deny", "not a patch"),
        ("codex", "Bash", json!({"command": "cargo test"}), "deny", "hosts/codex.yaml:"),
        ("codex", "mcp__sinew__read_file", json!({"path": "/etc/x"}), "none", ""),
        ("codex", "mcp__github__create_issue", json!({}), "deny", "Approval is required"),
        ("codex", "update_plan", json!({"plan": []}), "none", ""),
        ("gemini-cli", "read_file", json!({"file_path": "a.txt"}), "none", ""),
        ("gemini-cli", "read_file", json!({"file_path": ".env"}), "deny", "forbidden_paths ("),
        ("gemini-cli", "write_file", json!({"file_path": inside, "content": "x"}), "none", ""),
        ("gemini-cli", "write_file", json!({"file_path": "/etc/x", "content": "x"}), "deny", "/etc/x"),
        ("gemini-cli", "list_directory", json!({"dir_path": "."}), "deny", "contains a forbidden path"),
        ("gemini-cli", "run_shell_command", json!({"command": "ls"}), "ask", "hosts/gemini-cli.yaml:"),
        ("gemini-cli", "mcp_sinew_read_file", json!({"path": "/etc/x"}), "none", ""),
        ("gemini-cli", "mcp_sinew_other", json!({}), "ask", "mcp.requires_approval"),
        ("cursor", "Read", json!({"file_path": inside}), "allow", "Sinew permits `read_file`"),
        ("cursor", "Read", json!({"file_path": env}), "deny", "forbidden_paths ("),
        ("cursor", "Write", json!({"file_path": "/etc/x"}), "deny", "/etc/x"),
        ("cursor", "Shell", json!({"command": "ls", "cwd": "/"}), "deny", "hosts/cursor.yaml:"),
        ("cursor", "MCP:read_file", json!({"path": "/etc/x"}), "allow", ""),
        ("cursor", "MCP:tool_of_another_server", json!({}), "allow", ""),
        ("cursor", "Task", json!({}), "allow", ""),
    ];
    for (host, tool, input, expect, part) in &cases {
        let reported = judge(home, host, tool, input);
        let (word, reason) = decision(host, &reported);
        assert_eq!(word, *expect, "{host} {tool} {input}: {}", reported.object);
        assert!(reason.contains(part), "{host} {tool} {input}: {}", reported.object);
    }
    let records = home.records().into_iter().filter(|record| record["kind"] == "refusal");
    let recorded: Vec<(String, Value)> = records
        .map(|record| {
            (record["caller"]["client"].as_str().unwrap().to_owned(), record["facts"]["host"].clone())
        })
        .collect();
    let denied: Vec<_> = cases.iter().filter(|(_, _, _, expect, _)| *expect == "deny").collect();
    assert_eq!(recorded.len(), denied.len());
    for ((client, facts), (host, tool, ..)) in recorded.iter().zip(denied) {
        assert_eq!((client.as_str(), &facts["tool"]), (*host, &json!(tool)));
        assert_eq!(facts["session_id"], "s-1", "{facts}");
    }
}

#[test]
fn table_can_leave_approvals_to_the_host() {
    let home = Home::initialised();
    let table = include_str!("../../../config/hosts/codex.yaml");
    home.configure("hosts/codex.yaml", &table.replace("on_approval: deny", "on_approval: none"));
    assert_eq!(judge(&home, "codex", "Bash", &json!({"command": "cargo test"})).object, json!({}));
    assert_eq!(
        decision("codex", &judge(&home, "codex", "apply_patch", &patch("Add File: /etc/x"))).0,
        "deny"
    );
}

#[test]
fn input_of_another_host_blocks() {
    let home = Home::initialised();
    for host in ["codex", "gemini-cli", "cursor"] {
        let other = if host == "cursor" { "codex" } else { "cursor" };
        let event = event(&home, other, "Read", &json!({"file_path": "/x"})).to_string();
        let reported = run(&home, &["pre-tool-use", "--host", host], event.as_bytes());
        assert_eq!(reported.code, Some(2), "{host}: {}", reported.object);
        assert!(reported.object.to_string().contains("deny"), "{host}: {}", reported.object);
        assert!(reported.stderr.contains("Sinew cannot judge"), "{host}: {}", reported.stderr);
    }
}

#[test]
fn results_of_every_host_are_reviewed() {
    let home = Home::initialised();
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    for (host, event, field, pointer) in [
        ("codex", "PostToolUse", "tool_response", "/hookSpecificOutput/additionalContext"),
        ("gemini-cli", "AfterTool", "tool_response", "/hookSpecificOutput/additionalContext"),
        ("cursor", "postToolUse", "tool_output", "/additional_context"),
    ] {
        let event = json!({"hook_event_name": event, "tool_name": "Read", field: {"llmContent": secret}});
        let reported = run(&home, &["post-tool-use", "--host", host], event.to_string().as_bytes());
        let advice = reported.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        assert!(advice.contains("github_token"), "{host}: {}", reported.object);
    }
}

/// The file of a host that has none, the entry twice, and the line that the host's shell runs.
#[test]
fn installed_line_judges_and_is_removed() {
    for (host, file, event_name, pointer) in [
        ("codex", ".codex/hooks.json", "PreToolUse", "/0/hooks/0/command"),
        ("gemini-cli", ".gemini/settings.json", "BeforeTool", "/0/hooks/0/command"),
        ("cursor", ".cursor/hooks.json", "preToolUse", "/0/command"),
    ] {
        let home = Home::initialised();
        let file = home.user_home().join(file);
        home.run(&["hook", "install", host]).must_exit(0);
        let written = std::fs::read_to_string(&file).unwrap();
        assert!(home.run(&["hook", "install", host]).must_exit(0).stdout().starts_with("unchanged"));
        let settings: Value = serde_json::from_str(&written).unwrap();
        let line = settings["hooks"][event_name].pointer(pointer).and_then(Value::as_str).unwrap();
        let input = home.user_home().join("event.json");
        std::fs::write(&input, event(&home, host, "Bash", &json!({"command": "x"})).to_string()).unwrap();
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", line]).env_clear().env("HOME", home.user_home()).env("PATH", "/usr/bin:/bin");
        let output = shell.stdin(std::fs::File::open(&input).unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{host}: {output:?}");
        let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(reply.is_object(), "{host}: {reply}");
        home.run(&["hook", "uninstall", host]).must_exit(0);
        assert!(!file.exists(), "{host}: there was none before");
        home.run(&["hook", "install", host, "--scope", "local"]).must_exit(2);
        let printed = home.run(&["hook", "install", host, "--print"]).must_exit(0).json();
        assert_eq!(printed["hooks"], settings["hooks"], "{host}");
    }
}
