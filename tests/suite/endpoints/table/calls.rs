//! Calls of the table, by subject.

use serde_json::{Value, json};
use tests::Home;

use super::{ApprovalUse, TableCase, TableStep};

fn call(tool: &str, arguments: Value) -> TableStep {
    TableStep::Call(TableCase::new(tool, arguments))
}

fn keyed(key: &'static str, tool: &str, arguments: Value) -> TableStep {
    TableStep::Call(TableCase { key: Some(key), ..TableCase::new(tool, arguments) })
}

fn call_with_approval(tool: &str, arguments: Value) -> TableStep {
    TableStep::Call(TableCase { approval_use: ApprovalUse::LastRequested, ..TableCase::new(tool, arguments) })
}

/// Returns paths of files, inside and outside.
fn paths(home: &Home) -> Vec<String> {
    let inside = |name: &str| home.workspace().join(name).display().to_string();
    let user = |name: &str| home.user_home().join(name).display().to_string();
    let fixed = [
        "README.md",
        "./README.md",
        "src/../README.md",
        "src/main.rs",
        "with space.txt",
        "é.txt",
        "deep/a/b/c.txt",
        "nothing.txt",
        "long.txt",
        "binary.bin",
        "missing.md",
        "missing/deep.md",
        "src",
        ".",
        "link",
        "way-out/hostname",
        "dangling",
        "loop",
        "to-env",
        ".env",
        "src/.env.local",
        ".git/config",
        ".git/hooks/pre-commit",
        "../x",
        "../../etc/passwd",
        "/etc/hostname",
        "/etc/shadow",
        "/proc/self/environ",
        "/dev/null",
        "/",
        "README.md/",
        "//etc//passwd",
        "README.md/x",
        "a//b",
        "id_rsa",
        "NOTES.TXT",
    ];
    let absolute = [
        inside("README.md"),
        inside("src/main.rs"),
        inside("missing.md"),
        user(".ssh/id_ed25519"),
        user(".bashrc"),
        user("elsewhere.txt"),
        home.root().join("config/governance/tools.yaml").display().to_string(),
        home.root().join("state/ledger/x").display().to_string(),
        format!("/{}", "x".repeat(5_000)),
    ];
    fixed.iter().map(|path| (*path).to_owned()).chain(absolute).collect()
}

pub(super) fn reads(home: &Home) -> Vec<TableStep> {
    paths(home).iter().map(|path| call("read_file", json!({"path": path}))).collect()
}

pub(super) fn listings() -> Vec<TableStep> {
    let mut steps = Vec::new();
    for arguments in [
        json!({"path": "long.txt", "offset": 10, "length": 20}),
        json!({"path": "long.txt", "offset": 1_000_000_000}),
        json!({"path": "notes.txt", "length": 0}),
    ] {
        steps.push(call("read_file", arguments));
    }
    for path in [".", "src", "deep", "empty", "missing", "/etc", "README.md", "way-out", ".git", ".."] {
        steps.push(call("list_directory", json!({"path": path})));
    }
    for arguments in [
        json!({"path": ".", "query": "milk"}),
        json!({"path": ".", "glob": "*.rs"}),
        json!({"path": ".", "query": "TOKEN", "include_hidden": true}),
        json!({"path": ".", "query": "(", "regex": true}),
        json!({"path": "/etc", "query": "root"}),
        json!({"path": "."}),
    ] {
        steps.push(call("search_files", arguments));
    }
    steps
}

pub(super) fn writes(home: &Home) -> Vec<TableStep> {
    paths(home).iter().map(|path| call("write_file", json!({"path": path, "content": TEXT}))).collect()
}

/// Longer than ten characters, which a guardrail for the host's tool requires.
const TEXT: &str = "more than ten letters\n";

pub(super) fn changes() -> Vec<TableStep> {
    let (text, mut steps) = (TEXT, Vec::new());
    for arguments in [
        json!({"path": "new.txt", "content": text, "mode": "create"}),
        json!({"path": "new.txt", "content": text, "mode": "create"}),
        json!({"path": "new.txt", "content": text, "mode": "append"}),
        json!({"path": "new.txt", "content": "", "mode": "overwrite"}),
        json!({"path": "new.txt", "content": text, "dry_run": true}),
        json!({"path": "new.txt", "content": text, "expected_sha256": "0".repeat(64)}),
        json!({"path": "key.pem", "content": "-----BEGIN PRIVATE KEY-----\n"}),
        json!({"path": "token.txt", "content": format!("ghp_{}", "a1".repeat(20))}),
        json!({"path": "large.txt", "content": "x".repeat(1_200_000)}),
    ] {
        steps.push(call("write_file", arguments));
    }
    let edit = |old: &str| json!({"path": "notes.txt", "edits": [{"old_text": old, "new_text": "butter"}]});
    for arguments in [
        edit("bread"),
        edit("milk"),
        edit("caviar"),
        json!({"path": ".git/config", "edits": [{"old_text": "core", "new_text": "x"}]}),
        json!({"path": "/etc/hosts", "edits": [{"old_text": "a", "new_text": "b"}]}),
    ] {
        steps.push(call("edit_file", arguments));
    }
    steps
}

/// Returns malformed calls, with and without a repair.
pub(super) fn malformed() -> Vec<TableStep> {
    let of_read = [
        json!({}),
        json!([]),
        json!("README.md"),
        json!(5),
        json!(null),
        json!(true),
        json!({"path": null}),
        json!({"path": ""}),
        json!({"path": 5}),
        json!({"path": ["README.md"]}),
        json!({"path": {}}),
        json!({"pth": "README.md"}),
        json!({"file_path": "README.md"}),
        json!({"path": "README.md", "mode": "fast"}),
        json!({"path": "README.md", "offset": "10"}),
        json!({"path": "README.md", "offset": -1}),
        json!({"path": "README.md", "offset": 1.5}),
        json!({"path": "README.md", "session_id": "x"}),
        json!({"PATH": "README.md"}),
        json!({"path": "README.md", "length": true}),
        json!({"path": "a\u{0001}b"}),
        json!({"arguments": {"path": "README.md"}}),
        json!({"path": "\"README.md\""}),
    ];
    let of_write = [
        json!({}),
        json!({"path": "x.txt"}),
        json!({"content": "x"}),
        json!({"path": "x.txt", "content": null}),
        json!({"path": "x.txt", "content": 5}),
        json!({"path": "x.txt", "content": {"a": 1}}),
        json!({"path": "x.txt", "text": "x"}),
        json!({"path": "x.txt", "content": "x", "mode": "OVERWRITE"}),
        json!({"path": "x.txt", "content": "x", "mode": "sideways"}),
        json!({"path": "x.txt", "content": "x", "dry_run": "true"}),
        json!({"path": "x.txt", "content": "x", "expected_sha256": "short"}),
        json!({"path": "x.txt", "content": "x", "approved": true}),
    ];
    let others = [
        ("edit_file", json!({"path": "notes.txt"})),
        ("edit_file", json!({"path": "notes.txt", "edits": []})),
        ("edit_file", json!({"path": "notes.txt", "edits": [{"old_text": "", "new_text": "x"}]})),
        ("list_directory", json!({"path": ".", "depth": 1_000})),
        ("list_directory", json!({"path": ".", "sort": "colour"})),
        ("run_command", json!({"command": "ls"})),
        ("run_command", json!({"command": []})),
        ("check_process_health", json!({})),
        ("fetch_url", json!({"url": "not a url"})),
        ("read_output", json!({"id": 5})),
    ];
    let read = of_read.into_iter().map(|arguments| call("read_file", arguments));
    let write = of_write.into_iter().map(|arguments| call("write_file", arguments));
    read.chain(write).chain(others.into_iter().map(|(tool, arguments)| call(tool, arguments))).collect()
}

/// Returns calls by aliases of a tool and by unknown names.
pub(super) fn names() -> Vec<TableStep> {
    let long = "x".repeat(200);
    let by_name = [
        "READ_FILE",
        "Read_File",
        "read_file@1",
        "read_file@2",
        "read_file@",
        "read_flie",
        "nope",
        "",
        " read_file",
        "read_file ",
        "read-file",
        "read_file<|im_end|>",
        "read_file(path=README.md)",
        "<tool>read_file</tool>",
        "../read_file",
        "ｒｅａｄ_file",
        "read\u{200b}_file",
        "mcp__sinew__read_file",
        "mcp__fs__read_file",
        "mcp__x__nope",
        "write_fil",
        "overwrite",
        "Read",
        "read_local_file",
        &long,
    ];
    let mut steps: Vec<TableStep> =
        by_name.iter().map(|name| call(name, json!({"path": "README.md"}))).collect();
    for (name, arguments) in [
        ("write", json!({"file_path": "x.txt", "content": "short"})),
        ("write", json!({"file_path": "x.txt", "content": "long enough by far"})),
        ("mcp__host__Write", json!({"file_path": "x.txt", "content": "short"})),
        ("write_local_file", json!({"path": "x.txt", "content": "short"})),
        ("write_local_file", json!({"path": "x.txt", "content": "long enough by far"})),
        ("mcp__gmail__gmail_send_email", json!({"subject": "x"})),
        ("gmail_send_email", json!({"subject": "x", "body": "y", "to": "ada@example.org"})),
        (
            "composio_multi_execute_tool",
            json!({"tools": [{"tool_slug": "COMPOSIO_SEARCH_WEB", "arguments": {}}]}),
        ),
    ] {
        steps.push(call(name, arguments));
    }
    steps
}

/// Returns calls about programs, hosts and system information.
pub(super) fn programs() -> Vec<TableStep> {
    let mut steps = Vec::new();
    for command in [
        json!(["true"]),
        json!(["cat", "README.md"]),
        json!(["ls", "no-such-file"]),
        json!(["rm", "-rf", "."]),
        json!(["/bin/sh", "-c", "true"]),
        json!(["git", "push"]),
        json!(["cat", "/etc/hostname"]),
    ] {
        steps.push(call("run_command", json!({"command": command})));
    }
    steps.push(call("run_command", json!({"command": ["true"], "cwd": "/etc"})));
    for url in [
        "http://127.0.0.1:9/",
        "http://[::1]/",
        "http://169.254.169.254/latest",
        "http://x.onion/",
        "file:///etc/passwd",
        "ftp://example.org/",
        "http://user:word@example.org/",
    ] {
        steps.push(call("fetch_url", json!({"url": url})));
    }
    steps.push(call("read_system_logs", json!({"file": "/etc/shadow"})));
    steps.push(call("git_status", json!({"path": "/etc"})));
    steps.push(call("run_linter", json!({"path": "/etc"})));
    steps
}

/// Returns calls that repeat an idempotency key.
pub(super) fn repeats() -> Vec<TableStep> {
    let text = json!({"path": "once.txt", "content": "written once\n"});
    vec![
        keyed("k-1", "write_file", text.clone()),
        keyed("k-1", "write_file", text),
        keyed("k-1", "write_file", json!({"path": "other.txt", "content": "another call\n"})),
        keyed("k-2", "write_file", json!({"path": ".env", "content": "refused or not\n"})),
        keyed("k-2", "write_file", json!({"path": ".git/config", "content": "never\n"})),
        keyed("k-3", "read_file", json!({"path": "README.md"})),
        call("read_output", json!({"id": "none"})),
    ]
}

/// Returns calls that reach a rate limit.
pub(super) fn rates() -> Vec<TableStep> {
    let names = ["d1.txt", "d2.txt", "src", "d3.txt", "d4.txt", "README.md"];
    names.into_iter().map(|name| call("delete_file", json!({"path": name}))).collect()
}

/// Returns reads, changes with and without operator approval, and network calls. Their files do not exist
/// yet: an approval for an existing file is bound to its inode, which differs each time the workspace is
/// created.
pub(super) fn in_another_mode(mode: &str) -> Vec<TableStep> {
    let text = |name: &str| json!({"path": name, "content": "more than ten letters\n"});
    let (yes, no) = (format!("yes-{mode}.txt"), format!("no-{mode}.txt"));
    vec![
        call("read_file", json!({"path": "README.md"})),
        call("read_file", json!({"path": ".env"})),
        call("read_file", json!({"path": "/etc/hostname"})),
        call("list_directory", json!({"path": "src"})),
        call("write_file", text(".git/hooks/pre-push")),
        call("write_file", json!({"path": "asked.txt"})),
        call("write_file", text(&no)),
        TableStep::Decide("deny"),
        call_with_approval("write_file", text(&no)),
        call("write_file", text(&yes)),
        TableStep::Decide("approve"),
        call_with_approval("write_file", text("other.txt")),
        call_with_approval("write_file", text(&yes)),
        call_with_approval("write_file", text(&yes)),
        call("write_file", json!({"path": "much.txt", "content": "x\n".repeat(2_000)})),
        call("write_file", json!({"path": "token.txt", "content": "token=v1/src/deploy.sh\n"})),
        call("edit_file", json!({"path": "notes.txt", "edits": [{"old_text": "caviar", "new_text": "x"}]})),
        call("edit_file", json!({"path": "binary.bin", "edits": [{"old_text": "x", "new_text": "y"}]})),
        call("delete_file", json!({"path": "nowhere.txt"})),
        call("run_command", json!({"command": ["rm", "x"]})),
        call("fetch_url", json!({"url": "http://127.0.0.1:9/"})),
        call("no_such_tool", json!({})),
    ]
}
