//! The hook as a host runs it: a process with JSON input, one JSON object as output, and an exit code.

mod hosts;
mod input;
mod reading_lines;
mod settings;

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};
use tests::{Daemon, Home, sinew};

/// Output and exit code of a hook.
pub(crate) struct HookOutput {
    code: Option<i32>,
    object: Value,
    stdout: String,
    stderr: String,
}

impl HookOutput {
    /// Returns the decision of the hook: `none`, `allow`, `ask` or `deny`.
    pub(crate) fn decision(&self) -> &str {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        let output = &self.object["hookSpecificOutput"];
        match output["permissionDecision"].as_str() {
            None => {
                assert_eq!(self.object, json!({}), "silence says nothing at all");
                "none"
            }
            Some(word) => {
                assert_eq!(output["hookEventName"], "PreToolUse", "{}", self.object);
                word
            }
        }
    }

    pub(crate) fn reason(&self) -> &str {
        self.object["hookSpecificOutput"]["permissionDecisionReason"].as_str().unwrap_or_default()
    }

    /// Checks that the hook blocked, by exit code and by its object.
    fn must_block(&self) {
        assert_eq!(self.code, Some(2), "{}{}", self.stdout, self.stderr);
        assert_eq!(self.object["hookSpecificOutput"]["permissionDecision"], "deny", "{}", self.object);
        assert!(self.stderr.contains("Sinew"), "a host that reads no JSON shows this: {}", self.stderr);
    }
}

/// Runs a hook with this input. Standard output must be exactly one JSON object in every case.
fn run(home: &Home, words: &[&str], stdin: &[u8]) -> HookOutput {
    run_with(home, words, stdin, &[])
}

/// Like `run`, with further variables of the host.
fn run_with(home: &Home, words: &[&str], stdin: &[u8], variables: &[(&str, String)]) -> HookOutput {
    let mut command = sinew();
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command
        .arg("hook")
        .args(words)
        .current_dir("/")
        .env("SINEW_HOME", home.root())
        .env("HOME", home.user_home());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("start the hook");
    let mut pipe = child.stdin.take().expect("its input");
    let bytes = stdin.to_vec();
    // The hook may answer before it has read all of its input, so a failed write is no error.
    let writer = std::thread::spawn(move || drop(pipe.write_all(&bytes)));
    let output = child.wait_with_output().expect("wait for the hook");
    writer.join().expect("the writer");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    let object: Value =
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}{stderr}"));
    assert!(object.is_object() && stdout.lines().count() == 1, "{stdout}");
    HookOutput { code: output.status.code(), object, stdout, stderr }
}

/// Returns the event of a tool call whose working directory is the workspace.
fn event(home: &Home, tool: &str, input: &Value) -> Value {
    json!({"session_id": "s-1", "prompt_id": "p-1", "transcript_path": "/x.jsonl", "cwd": home.workspace(),
        "permission_mode": "default", "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input,
        "tool_use_id": "toolu_1", "agent_id": "a-1"})
}

pub(crate) fn run_pre_tool_use(home: &Home, tool: &str, input: &Value) -> HookOutput {
    run(home, &["pre-tool-use"], event(home, tool, input).to_string().as_bytes())
}

/// Returns calls with the expected decision and a part of the reason.
fn cases(home: &Home) -> Vec<(&'static str, Value, &'static str, &'static str)> {
    let inside = |name: &str| home.workspace().join(name).display().to_string();
    let ssh = home.user_home().join(".ssh/authorized_keys").display().to_string();
    home.file("README.md", "# Hello\n");
    home.file(".env", "TOKEN=x\n");
    std::fs::create_dir_all(home.workspace().join("src")).expect("a folder");
    home.file("src/main.rs", "fn main() {}\n");
    vec![
        ("Read", json!({"file_path": inside("README.md")}), "allow", "Sinew permits `"),
        ("Read", json!({"file_path": inside("missing.md")}), "allow", "Sinew permits `"),
        ("Read", json!({"file_path": inside(".env")}), "deny", "rule: forbidden_paths ("),
        ("Read", json!({"file_path": "/etc/hostname"}), "deny", "hint: use a path inside"),
        ("Read", json!({"file_path": " /etc/hostname"}), "deny", "could name two different files"),
        ("Read", json!({"file_path": "~/.ssh/id_rsa"}), "deny", "is forbidden"),
        ("Read", json!({"file_path": 5}), "deny", "README.md"),
        ("Read", json!({}), "deny", "file_path"),
        ("Read", json!([]), "deny", "object"),
        (
            "Write",
            json!({"file_path": inside("new.txt"), "content": "twelve words"}),
            "allow",
            "Sinew permits `",
        ),
        ("Write", json!({"file_path": ssh, "content": "twelve words"}), "deny", "no policy can allow this"),
        (
            "Write",
            json!({"file_path": inside(".claude/settings.json"), "content": "{\"hooks\": {}}"}),
            "deny",
            "built_in",
        ),
        (
            "Write",
            json!({"file_path": inside("k"), "content": "-----BEGIN PRIVATE KEY-----"}),
            "deny",
            "private_key",
        ),
        (
            "Edit",
            json!({"file_path": "/etc/hosts", "old_string": "a", "new_string": "b"}),
            "deny",
            "forbidden",
        ),
        ("MultiEdit", json!({"file_path": inside(".git/hooks/pre-commit"), "edits": []}), "deny", "built_in"),
        (
            "NotebookEdit",
            json!({"notebook_path": inside("a.ipynb"), "new_source": "1"}),
            "allow",
            "Sinew permits `",
        ),
        ("LS", json!({}), "deny", "rule: forbidden_paths ("),
        ("LS", json!({"path": inside("src")}), "allow", "Sinew permits `"),
        ("Glob", json!({"pattern": "**/*.md"}), "allow", "Sinew permits `"),
        ("Glob", json!({"pattern": "/etc/*"}), "deny", "not in allowed paths"),
        ("Glob", json!({"pattern": "~/.ssh/*"}), "deny", "is forbidden"),
        ("Glob", json!({"pattern": "*/../../*"}), "deny", "contains `..`"),
        ("Glob", json!({"pattern": "*", "path": "/etc"}), "deny", "/etc"),
        ("Glob", json!({"pattern": "**/*"}), "deny", "contains a forbidden path"),
        ("Glob", json!({"pattern": "src/*"}), "allow", "Sinew permits `"),
        ("Grep", json!({"pattern": "x"}), "deny", "rule: forbidden_paths ("),
        ("Grep", json!({"pattern": "x", "glob": "*.{rs,md}"}), "allow", "Sinew permits `"),
        ("Grep", json!({"pattern": "x", "path": inside("src")}), "allow", "Sinew permits `"),
        ("Grep", json!({"pattern": "x", "path": "../.."}), "deny", "contains `..`"),
        ("Bash", json!({"command": "cargo test"}), "ask", "bash.requires_approval (hosts/claude-code.yaml:"),
        ("Bash", json!({}), "deny", "command"),
        ("WebFetch", json!({"url": "https://example.org/", "prompt": "x"}), "allow", "Sinew permits `"),
        ("WebFetch", json!({"url": "http://127.0.0.1:8080/", "prompt": "x"}), "deny", "127.0.0.1"),
        ("WebFetch", json!({"url": "http://x.onion/", "prompt": "x"}), "deny", "safety.yaml:"),
        ("WebSearch", json!({"query": "x"}), "allow", "Sinew permits `"),
        ("mcp__github__create_issue", json!({"title": "x"}), "ask", "mcp"),
        ("mcp__gmail__gmail_send_email", json!({"subject": "x"}), "deny", "recipient_email"),
        ("Write", json!({"file_path": inside("new.txt"), "content": "short"}), "deny", "guardrails.write ("),
        ("Write", json!({"file_path": "/etc/x", "content": "short"}), "deny", "/etc/x"),
        ("mcp__sinew__write_file", json!({"path": "/etc/x", "content": ""}), "none", ""),
        // The server may be called `sinew__x` or `sinew_`; the name alone does not tell.
        ("mcp__sinew__x__write_file", json!({"title": "x"}), "ask", "mcp"),
        ("mcp__sinew___read_file", json!({"title": "x"}), "ask", "mcp"),
        ("Task", json!({"prompt": "x"}), "none", ""),
        // The curated map covers names without a row in the host table.
        ("GMAIL_SEND_EMAIL", json!({"subject": "x"}), "deny", "recipient_email"),
        ("gmail_send_email", json!({"subject": "x"}), "deny", "guardrails.gmail_send_email ("),
        ("mcp__x__GMAIL_SEND_EMAIL", json!({"subject": "x"}), "deny", "recipient_email"),
        ("COMPOSIO_SEARCH_NEWS", json!({}), "deny", "query"),
        (
            "COMPOSIO_MULTI_EXECUTE_TOOL",
            json!({"tools": [{"tool_slug": "GMAIL_SEND_EMAIL", "arguments": {}}]}),
            "deny",
            "subject",
        ),
        (
            "write",
            json!({"file_path": inside("new.txt"), "content": "short"}),
            "deny",
            "at least 11 characters",
        ),
        ("list_directory", json!({}), "deny", "path"),
        ("GMAIL_SEND_EMAIL", json!({"subject": "x", "body": "y", "to": "z"}), "none", ""),
        ("read", json!({"file_path": "/etc/shadow"}), "none", ""),
    ]
}

fn refusals(home: &Home) -> Vec<Value> {
    home.records().into_iter().filter(|record| record["kind"] == "refusal").collect()
}

#[test]
fn every_verdict_is_given_and_denials_are_recorded() {
    let daemon = Daemon::start_in(Home::initialised().without_automatic_modes());
    let cases = cases(daemon.home());
    for (tool, input, decision, reason) in &cases {
        let reported = run_pre_tool_use(daemon.home(), tool, input);
        assert_eq!(reported.decision(), *decision, "{tool} {input}: {}", reported.object);
        assert!(reported.reason().contains(reason), "{tool} {input}: {}", reported.object);
    }
    let refusals = refusals(daemon.home());
    assert_eq!(refusals.len(), cases.iter().filter(|(_, _, decision, _)| *decision == "deny").count());
    for record in &refusals {
        let caller = &record["caller"];
        assert_eq!(
            (&caller["endpoint"], &caller["client"]),
            (&json!("hook"), &json!("claude-code")),
            "{record}"
        );
        let host = &record["facts"]["host"];
        let reported = ["session_id", "tool_use_id", "agent_id", "prompt_id"].map(|key| host[key].as_str());
        assert_eq!(reported, [Some("s-1"), Some("toolu_1"), Some("a-1"), Some("p-1")], "{record}");
    }
    let of_write =
        |record: &Value| record["facts"]["host"]["tool"] == "Write" && record["tool"] == "write_file";
    assert!(refusals.iter().any(of_write));
    assert!(!refusals.iter().any(|record| record.to_string().contains("PRIVATE KEY")), "no content is kept");
    daemon.home().run(&["ledger", "verify"]).must_exit(0);
}

#[test]
fn decision_and_record_are_the_same_without_a_daemon() {
    let home = Home::initialised().without_automatic_modes();
    let cases: Vec<_> = cases(&home).into_iter().step_by(4).collect();
    let reported = |home: &Home| -> Vec<Value> {
        cases.iter().map(|(tool, input, ..)| run_pre_tool_use(home, tool, input).object).collect()
    };
    let essence = |records: Vec<Value>| -> Vec<[Value; 4]> {
        records
            .iter()
            .map(|record| ["tool", "code", "rule", "reason"].map(|key| record[key].clone()))
            .collect()
    };
    let alone = reported(&home);
    let recorded = essence(refusals(&home));
    assert!(!recorded.is_empty());
    let daemon = Daemon::start_in(home);
    assert_eq!(reported(daemon.home()), alone);
    let both = essence(refusals(daemon.home()));
    assert_eq!(both, [recorded.clone(), recorded].concat());
}

/// A change that loosens the policy waits for the operator, also if no daemon runs.
#[test]
fn loosening_waits_for_the_operator_without_a_daemon() {
    let home = Home::initialised();
    home.file("a.txt", "x");
    let rule = "  read_file:\n    forbidden_paths: [\"**/a.txt\"]\n";
    home.configure_layer("governance/tools.yaml", &format!("tools:\n{rule}"));
    let home = Daemon::start_in(home).stop();
    let file = json!({"file_path": home.workspace().join("a.txt")});
    home.configure_layer("governance/tools.yaml", "tools: {}\n");
    assert_eq!(run_pre_tool_use(&home, "Read", &file).decision(), "deny");
    let daemon = Daemon::start_in(home);
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert_eq!(run_pre_tool_use(&daemon.stop(), "Read", &file).decision(), "allow");
}

#[test]
fn mode_applies_to_host_tools() {
    let daemon = Daemon::start();
    let home = daemon.home();
    let file = json!({"file_path": home.workspace().join("a.txt"), "content": "twelve words"});
    let check = |mode: &str, expect: [&str; 5]| {
        home.run(&["mode", "set", mode]).must_exit(0);
        let calls = [
            ("Read", file.clone()),
            ("Write", file.clone()),
            ("Bash", json!({"command": "make"})),
            ("WebFetch", json!({"url": "https://example.org/"})),
            ("mcp__a__b", json!({})),
        ];
        let got: Vec<String> = calls
            .iter()
            .map(|(tool, input)| run_pre_tool_use(home, tool, input).decision().to_owned())
            .collect();
        assert_eq!(got, expect, "{mode}");
    };
    check("NORMAL", ["allow", "allow", "ask", "allow", "ask"]);
    check("ALERT", ["allow", "ask", "ask", "ask", "ask"]);
    check("LOCKDOWN", ["allow", "deny", "deny", "deny", "deny"]);
    let reported = run_pre_tool_use(home, "Bash", &json!({"command": "ls"}));
    assert!(reported.reason().contains("Tool not allowed in LOCKDOWN mode"), "{}", reported.object);
    assert!(reported.reason().contains("modes.yaml:"), "the rule with its place: {}", reported.object);
}

#[test]
fn line_of_a_built_in_table_is_named_as_such() {
    let home = Home::initialised();
    std::fs::remove_file(home.root().join("config/hosts/claude-code.yaml")).expect("it was written");
    let asked = run_pre_tool_use(&home, "Bash", &json!({"command": "cargo test"}));
    assert!(asked.reason().contains("(built-in/hosts/claude-code.yaml:"), "{}", asked.object);
}

#[test]
fn policy_files_apply_to_host_tools() {
    let home = Home::initialised();
    let replace = |file: &str, from: &str, to: &str| {
        let text = std::fs::read_to_string(home.root().join("config").join(file)).unwrap();
        assert!(text.contains(from), "{file}: {from}");
        home.configure(file, &text.replacen(from, to, 1));
    };
    let rules = "tools:\n  bash:\n    forbidden_in_modes: [NORMAL]\n";
    replace("governance/tools.yaml", "tools:\n", rules);
    let reported = run_pre_tool_use(&home, "Bash", &json!({"command": "ls"}));
    assert_eq!(reported.decision(), "deny");
    assert!(
        reported.reason().contains("rule: bash.forbidden_in_modes (")
            && reported.reason().contains("tools.yaml:")
    );
    let commands = "  bash:\n    forbidden_commands: [curl]\n    allowed_commands: [cargo, curl]\n";
    replace("governance/tools.yaml", "  bash:\n    forbidden_in_modes: [NORMAL]\n", commands);
    for (line, decision) in
        [("cargo test", "ask"), ("curl x", "deny"), ("make", "deny"), ("cargo test; make", "deny")]
    {
        assert_eq!(run_pre_tool_use(&home, "Bash", &json!({"command": line})).decision(), decision, "{line}");
    }
    let reported = run_pre_tool_use(&home, "Grep", &json!({"pattern": "x"}));
    assert_eq!(reported.decision(), "allow");
    assert!(
        reported.reason().contains("`read_file` in NORMAL mode: ") && reported.reason().contains(".yaml:"),
        "{}",
        reported.object
    );
    replace("hosts/claude-code.yaml", "on_permit: allow", "on_permit: none");
    assert_eq!(run_pre_tool_use(&home, "Grep", &json!({"pattern": "x"})).decision(), "none");
    assert_eq!(
        run_pre_tool_use(&home, "Bash", &json!({"command": "cargo test"})).decision(),
        "ask",
        "a question is always asked"
    );
    replace("hosts/claude-code.yaml", "on_permit: none", "on_permit: allow");
    assert_eq!(
        run_pre_tool_use(&home, "Task", &json!({})).decision(),
        "none",
        "an unknown tool is never allowed"
    );
    replace("governance/tools.yaml", "  write_file:\n", "  write_file:\n    rate_limit_per_hour: 2\n");
    let daemon = Daemon::start_in(home);
    let write = json!({"file_path": daemon.home().workspace().join("a"), "content": "twelve words"});
    let decisions: Vec<String> =
        (0..3).map(|_| run_pre_tool_use(daemon.home(), "Write", &write).decision().to_owned()).collect();
    assert_eq!(decisions, ["allow", "allow", "deny"], "a configured limit applies here too");
}

#[test]
fn host_may_not_run_what_must_be_sandboxed() {
    let home = Home::initialised().without_automatic_modes();
    let text = std::fs::read_to_string(home.root().join("config/governance/tools.yaml")).unwrap();
    let check = |home: &Home, rule: &str| {
        let rules = format!("tools:\n  bash:\n    {rule}\n");
        home.configure("governance/tools.yaml", &text.replacen("tools:\n", &rules, 1));
        let reported = run_pre_tool_use(home, "Bash", &json!({"command": "ls"}));
        assert_eq!(reported.decision(), "deny", "{rule}: {}", reported.object);
        let key = rule.split(':').next().unwrap();
        assert!(reported.reason().contains(&format!("rule: bash.{key} (")), "{}", reported.object);
        assert!(reported.reason().contains("Sinew has no tool for this"), "{}", reported.object);
    };
    for rule in ["requires_sandbox: true", "min_isolation: reduced", "memory_mb: 512", "network: off"] {
        check(&home, rule);
    }
    let last = refusals(&home).pop().unwrap();
    assert_eq!(last["code"], "sandbox_unavailable", "{last}");
    // The daemon has probed what the machine supports, and decides the same.
    let daemon = Daemon::start_in(home);
    let reported = run_pre_tool_use(daemon.home(), "Bash", &json!({"command": "ls"}));
    assert!(
        reported.decision() == "deny" && reported.reason().contains("bash.network"),
        "{}",
        reported.object
    );
}

#[test]
fn host_working_directory_opens_nothing() {
    let home = Home::new();
    let file = home.file("README.md", "x");
    let reported = run_pre_tool_use(&home, "Read", &json!({"file_path": file}));
    assert_eq!(reported.decision(), "deny", "the folder was never added");
    assert!(reported.reason().contains("sinew workspace add"), "{}", reported.object);
    home.run(&["workspace", "add", "."]).must_exit(0);
    assert_eq!(run_pre_tool_use(&home, "Read", &json!({"file_path": file})).decision(), "allow");
    let mut elsewhere = event(&home, "Grep", &json!({"pattern": "x"}));
    elsewhere["cwd"] = json!("/");
    assert_eq!(run(&home, &["pre-tool-use"], elsewhere.to_string().as_bytes()).decision(), "deny");
}

#[test]
fn host_tool_cannot_be_executed() {
    let daemon = Daemon::start();
    for tool in ["Bash", "bash", "Read", "mcp", "webfetch"] {
        let result =
            daemon.agent().execute(tool, &json!({"command": "touch /tmp/x", "file_path": "/etc/hosts"}));
        assert_eq!(result["metadata"]["refusal"]["code"], "unknown_tool", "{result}");
    }
}

/// An almost empty write is often the start of a loop, but an empty `__init__.py` can be intended.
#[test]
fn short_write_is_refused_once_and_then_permitted() {
    let daemon = Daemon::start_in(Home::initialised().without_automatic_modes());
    let write = |name: &str, content: &str| {
        let path = daemon.home().workspace().join(name);
        let input = json!({"file_path": path, "content": content});
        run_pre_tool_use(daemon.home(), "Write", &input).decision().to_owned()
    };
    assert_eq!(write("__init__.py", ""), "deny");
    assert_eq!(write("other.py", ""), "deny", "only the same call counts as a repetition");
    assert_eq!(write("__init__.py", ""), "allow");
    assert_eq!(write("__init__.py", ""), "deny", "a loop is still caught");
    let empty = json!({"file_path": daemon.home().workspace().join("advised.py"), "content": ""});
    let advice = run_pre_tool_use(daemon.home(), "Write", &empty);
    assert!(advice.reason().contains("send exactly the same call again"), "{}", advice.reason());
    let missing = json!({"file_path": daemon.home().workspace().join("a")});
    let mistake = run_pre_tool_use(daemon.home(), "Write", &missing);
    assert!(!mistake.reason().contains("the same call again"), "{}", mistake.reason());
    for _ in 0..2 {
        assert_eq!(run_pre_tool_use(daemon.home(), "Write", &missing).decision(), "deny");
    }
    let forbidden =
        json!({"file_path": daemon.home().user_home().join(".ssh/authorized_keys"), "content": ""});
    for _ in 0..2 {
        assert_eq!(
            run_pre_tool_use(daemon.home(), "Write", &forbidden).decision(),
            "deny",
            "policy is first"
        );
    }
}
