//! Approval requests for calls whose effect is not in their arguments: the entries of a folder, the text of a
//! script, the network request. An approval is bound to that effect.

use serde_json::json;

use super::*;

/// Requests approval for a call, and returns the approval id and the effect lines of the request.
pub(super) fn request_effect(daemon: &Daemon, tool: &str, arguments: &Value) -> (String, Vec<String>) {
    let pending = daemon.agent().execute_with(tool, arguments, &json!({"approval": "async"}));
    let id = pending["metadata"]["refusal"]["approval_id"].as_str();
    let id = id.unwrap_or_else(|| panic!("{pending}")).to_owned();
    let approval_request =
        daemon.control().request("control/approvals.show", &json!({"id": id}))["result"].clone();
    let facts = approval_request["effect"].as_array().unwrap_or_else(|| panic!("{approval_request}")).iter();
    let text = |fact: &Value, key: &str| fact[key].as_str().unwrap().to_owned();
    (id, facts.map(|fact| format!("{} {}", text(fact, "label"), text(fact, "text"))).collect())
}

pub(super) fn call_with_approval(daemon: &Daemon, tool: &str, arguments: &Value, id: &str) -> Value {
    daemon.agent().execute_with(tool, arguments, &json!({"approval": "async", "approval_id": id}))
}

fn daemon_with_tools(tools: &str) -> Daemon {
    let home = home_requiring_approval(300);
    home.configure("governance/tools.yaml", tools);
    Daemon::start_in(home)
}

/// A path that matches a secret pattern is shown unmasked, because it is the target of the call.
#[test]
fn file_named_like_a_secret_can_be_approved() {
    let daemon = daemon_requiring_approval();
    for name in ["token=Zm9vYmFyYmF6cXV4.txt", "api_key=3f9a8b7c.d/x.txt"] {
        let path = daemon.home().workspace().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let arguments = json!({"path": name, "content": "x"});
        let (id, facts) = request_effect(&daemon, "write_file", &arguments);
        let place = format!("writes {} (", path.display());
        assert!(facts.iter().any(|fact| fact.starts_with(&place)), "{facts:?}");
        decide(&mut daemon.control(), &id, "approve");
        assert_eq!(call_with_approval(&daemon, "write_file", &arguments, &id)["success"], true);
    }
    let arguments = json!({"path": "secret=Zm9vYmFyYmF6cXV4/sub/x.txt", "content": "x", "create_dirs": true});
    let (_, facts) = request_effect(&daemon, "write_file", &arguments);
    assert!(!facts.iter().any(|fact| fact.contains("redacted")), "nor what it makes on the way: {facts:?}");
}

#[test]
fn request_names_every_folder_a_write_would_create() {
    let daemon = daemon_requiring_approval();
    let arguments = json!({"path": "a/b/f", "content": "x", "create_dirs": true});
    let (id, facts) = request_effect(&daemon, "write_file", &arguments);
    let made: Vec<String> = ["a", "a/b"]
        .map(|name| format!("creates directory {}", daemon.home().workspace().join(name).display()))
        .to_vec();
    let shown: Vec<&String> = facts.iter().filter(|fact| fact.starts_with("creates directory")).collect();
    assert_eq!(shown, made.iter().collect::<Vec<_>>(), "{facts:?}");
    decide(&mut daemon.control(), &id, "approve");
    // The effect changed after it was shown: the write would create fewer folders.
    std::fs::create_dir(daemon.home().workspace().join("a")).unwrap();
    let other = call_with_approval(&daemon, "write_file", &arguments, &id);
    assert_eq!(other["success"], false, "{other}");
    std::fs::remove_dir(daemon.home().workspace().join("a")).unwrap();
    assert_eq!(call_with_approval(&daemon, "write_file", &arguments, &id)["success"], true);
}

#[test]
fn folder_deletion_approval_is_bound_to_every_entry() {
    let daemon = daemon_with_tools("tools:\n  delete_file: {requires_approval: true}\n");
    let folder = daemon.home().workspace().join("old");
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    for (name, text) in [("a.txt", "1234"), ("sub/b.txt", "5678"), ("line\nbreak", "")] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    std::os::unix::fs::symlink("/etc/passwd", folder.join("link")).unwrap();
    let arguments = json!({"path": "old", "recursive": true});
    let (id, facts) = request_effect(&daemon, "delete_file", &arguments);
    for line in [
        "deletes a directory with 6 entries and 8 bytes",
        "with a.txt (4 bytes)",
        "with \"line\\nbreak\" (0 bytes)",
        "with link -> /etc/passwd",
        "with sub/",
        "with sub/b.txt (4 bytes)",
    ] {
        assert!(facts.iter().any(|fact| fact == line), "{line}: {facts:?}");
    }
    decide(&mut daemon.control(), &id, "approve");
    // The same number of entries and bytes, with different content.
    let time = std::fs::metadata(folder.join("sub/b.txt")).unwrap().modified().unwrap();
    let put_back = |name: &str| {
        std::fs::File::options().write(true).open(folder.join(name)).unwrap().set_modified(time).unwrap();
    };
    std::fs::write(folder.join("sub/b.txt"), "WORK").unwrap();
    let refused = call_with_approval(&daemon, "delete_file", &arguments, &id);
    assert_eq!(detail(&refused), "approval_mismatch", "another content: {refused}");
    put_back("sub/b.txt");
    std::fs::rename(folder.join("a.txt"), folder.join("c.txt")).unwrap();
    let refused = call_with_approval(&daemon, "delete_file", &arguments, &id);
    assert_eq!(detail(&refused), "approval_mismatch", "another name: {refused}");
    assert!(folder.join("c.txt").exists());
    // A new request covers the present entries, and the deletion runs.
    let (id, _) = request_effect(&daemon, "delete_file", &arguments);
    decide(&mut daemon.control(), &id, "approve");
    assert_eq!(call_with_approval(&daemon, "delete_file", &arguments, &id)["success"], true);
    assert!(!folder.exists());
}

#[test]
fn folder_with_too_many_entries_to_show_is_refused() {
    let daemon = daemon_with_tools("tools:\n  delete_file: {requires_approval: true}\n");
    let folder = daemon.home().workspace().join("many");
    std::fs::create_dir(&folder).unwrap();
    (0..201).for_each(|n| std::fs::write(folder.join(format!("{n:03}")), "").unwrap());
    let arguments = json!({"path": "many", "recursive": true});
    let refused = daemon.agent().execute("delete_file", &arguments);
    assert_eq!(detail(&refused), "not_foreseeable", "{refused}");
    let hint = refused["metadata"]["refusal"]["hint"].as_str().unwrap();
    assert!(hint.contains("part by part"), "{refused}");
    pending_approvals(&mut daemon.control(), 0);
    assert!(folder.join("200").exists());
    std::fs::remove_file(folder.join("200")).unwrap();
    let (_, facts) = request_effect(&daemon, "delete_file", &arguments);
    assert_eq!(facts.iter().filter(|fact| fact.starts_with("with ")).count(), 200, "{facts:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn command_approval_ends_with_a_new_workspace_or_mode() {
    let daemon = daemon_with_tools(
        "tools:\n  run_command: {requires_approval: true, allowed_commands: [ls], allowed_in_modes: [NORMAL, ALERT]}\n",
    );
    let added = daemon.home().user_home().join("added");
    std::fs::create_dir(&added).unwrap();
    let command = json!({"command": ["ls"]});
    let (id, facts) = request_effect(&daemon, "run_command", &command);
    let workspace = format!("may write {:?}", daemon.home().workspace().canonicalize().unwrap());
    assert!(facts.iter().any(|fact| fact.starts_with("bounds ") && fact.ends_with(&workspace)), "{facts:?}");
    let mut control = daemon.control();
    decide(&mut control, &id, "approve");
    let mut set = |mode: &str| {
        let set = control.request("control/mode.set", &json!({"mode": mode, "reason": "test"}));
        assert!(set["result"].is_object(), "{set}");
    };
    set("ALERT");
    let refused = call_with_approval(&daemon, "run_command", &command, &id);
    assert_eq!(detail(&refused), "approval_mismatch", "another mode: {refused}");
    set("NORMAL");
    let path = added.canonicalize().unwrap();
    daemon.home().run(&["workspace", "add", path.to_str().unwrap()]).must_exit(0);
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    let refused = call_with_approval(&daemon, "run_command", &command, &id);
    assert_eq!(detail(&refused), "approval_mismatch", "another folder: {refused}");
}

#[test]
fn approval_is_void_in_another_mode_with_the_same_rules() {
    let home = home_requiring_approval(300);
    let modes = std::fs::read_to_string(home.root().join("config/governance/modes.yaml")).unwrap();
    let asks = "require_approval_for: [high_risk_tools, any_write_operation, network]";
    assert!(modes.contains(asks), "{modes}");
    home.configure("governance/modes.yaml", &modes.replace(asks, "require_approval_for: []"));
    let daemon = Daemon::start_in(home);
    let arguments = json!({"path": "a.txt", "content": "x"});
    let (id, _) = request_effect(&daemon, "write_file", &arguments);
    decide(&mut daemon.control(), &id, "approve");
    let set = daemon.control().request("control/mode.set", &json!({"mode": "ALERT", "reason": "test"}));
    assert!(set["result"].is_object(), "{set}");
    let refused = call_with_approval(&daemon, "write_file", &arguments, &id);
    assert_eq!(detail(&refused), "approval_mismatch", "{refused}");
    assert!(!daemon.home().workspace().join("a.txt").exists());
}

#[test]
fn failed_preview_does_not_reveal_file_content() {
    let daemon = daemon_with_tools("tools:\n  edit_file: {requires_approval: true}\n");
    daemon.home().file("notes.txt", "first line\nSECRET_WORD=hunter2banana\n");
    let edits = json!([{"old_text": "first line\nSECRET_WORDX=", "new_text": "x"}]);
    let refused = daemon.agent().execute("edit_file", &json!({"path": "notes.txt", "edits": edits}));
    assert_eq!(detail(&refused), "not_foreseeable", "{refused}");
    assert!(!refused.to_string().contains("hunter2banana"), "{refused}");
    pending_approvals(&mut daemon.control(), 0);
}

#[test]
fn masking_of_secrets_hides_no_path() {
    let daemon = daemon_requiring_approval();
    let mut agent = daemon.agent();
    for (path, content) in [
        ("settings.json", "{\"apiKeyHelper\": \"/home/u/ws/evil.sh\"}\n"),
        ("run", "token=v1/src/deploy.sh\n"),
        ("run", "SECRET_CMD=run-the-payload.sh\n"),
    ] {
        let arguments = json!({"path": path, "content": content});
        let answer = agent.execute_with("write_file", &arguments, &json!({"approval": "async"}));
        if code(&answer) == "approval_pending" {
            let id = answer["metadata"]["refusal"]["approval_id"].as_str().unwrap();
            let request = daemon.control().request("control/approvals.show", &json!({"id": id}));
            assert!(!request.to_string().contains("redacted"), "{request}");
        } else {
            assert_eq!(detail(&answer), "too_much_to_show", "{answer}");
        }
    }
    let mut named = super::callers::named_client(&daemon, "sinew (uid 0)");
    let id = request_approval(&mut named, &json!({"path": "a.txt", "content": "x"}));
    let request = daemon.control().request("control/approvals.show", &json!({"id": id}))["result"].clone();
    let caller = request["caller"].as_str().unwrap();
    assert!(caller.starts_with("\"sinew (uid 0)\" (uid "), "its own word, between quotes: {request}");
}

#[test]
#[cfg(target_os = "linux")]
fn approval_is_bound_to_folder_limits_and_definition() {
    let rules =
        "tools:\n  run_command: {requires_approval: true, allowed_commands: [ls], timeout_seconds: 60}\n";
    let daemon = daemon_with_tools(rules);
    std::fs::create_dir(daemon.home().workspace().join("sub")).unwrap();
    let command = json!({"command": ["ls"]});
    let (id, _) = request_effect(&daemon, "run_command", &command);
    decide(&mut daemon.control(), &id, "approve");
    let elsewhere = [json!({"command": ["ls"], "cwd": "sub"}), json!({"command": ["ls", "-l"]})];
    for other in &elsewhere {
        let refused = call_with_approval(&daemon, "run_command", other, &id);
        assert_eq!(detail(&refused), "approval_mismatch", "{other}: {refused}");
    }
    // The timeout and the sandbox limits are part of the effect that was shown.
    for (before, after) in [
        ("timeout_seconds: 60", "timeout_seconds: 50"),
        ("50}", "50, memory_mb: 64}"),
        ("timeout_seconds: 50, memory_mb: 64", "timeout_seconds: 60, min_isolation: reduced"),
        ("min_isolation: reduced", "forbidden_paths: [\"**/secret\"]"),
    ] {
        let file = daemon.home().root().join("config/governance/tools.yaml");
        let text = std::fs::read_to_string(&file).unwrap();
        daemon.home().configure("governance/tools.yaml", &text.replace(before, after));
        daemon.home().run(&["reload", "--accept"]).must_exit(0);
        let refused = call_with_approval(&daemon, "run_command", &command, &id);
        assert_eq!(detail(&refused), "approval_mismatch", "{after}: {refused}");
    }
    daemon.home().configure("governance/tools.yaml", rules);
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert_eq!(
        call_with_approval(&daemon, "run_command", &command, &id)["success"],
        true,
        "the very same is agreed to"
    );
}

#[test]
#[cfg(target_os = "linux")]
fn script_given_to_an_interpreter_is_bound() {
    let daemon = daemon_with_tools(
        "tools:\n  run_command: {requires_approval: true, allowed_commands: [sh, python3]}\n",
    );
    for (program, name, command) in [
        ("sh", "x.sh", json!({"command": ["sh", "x.sh"]})),
        ("python3", "x.py", json!({"command": ["python3", "x.py"]})),
        ("sh", "y.sh", json!({"command": ["sh"], "stdin": ". ./y.sh\n"})),
    ] {
        daemon.home().file(name, "exit(0)\n");
        let (id, facts) = request_effect(&daemon, "run_command", &command);
        assert!(facts.iter().any(|fact| fact.starts_with("reads ") && fact.contains(name)), "{facts:?}");
        decide(&mut daemon.control(), &id, "approve");
        daemon.home().file(name, "exit(1)\n");
        let refused = call_with_approval(&daemon, "run_command", &command, &id);
        assert_eq!(detail(&refused), "approval_mismatch", "{program}: {refused}");
    }
}

#[test]
fn web_tool_request_shows_host_and_payload() {
    let daemon = daemon_with_tools(
        "tools:\n  fetch_url: {requires_approval: true}\n  web_search: {requires_approval: true}\n",
    );
    let url = "https://example.org/page?token=1";
    let (_, facts) = request_effect(&daemon, "fetch_url", &json!({"url": url}));
    let text = facts.join("\n");
    for part in [
        "host example.org",
        &format!("requests GET {url}"),
        "sends user-agent: Mozilla",
        "no cookie, no body",
        "the daemon makes the network request",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("network off") && !text.contains("runs programs"), "{text}");
    let (_, facts) = request_effect(&daemon, "web_search", &json!({"query": "herons"}));
    let text = facts.join("\n");
    assert!(text.contains("requests duckduckgo_html at https://html.duckduckgo.com/"), "{text}");
}
