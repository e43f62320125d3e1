//! Approval requests for manifest tools: they show the exact argv and input, and an approval is bound to
//! them.

use serde_json::json;

use super::effects::{call_with_approval, request_effect};
use super::*;

const COUNTER: &str = r#"
tool:
  id: counter
  type: cli
  name: Counter
  version: 1.0.0
  description: Count lines
  cli_specific: {executable: wc, install_guide: Install wc.}
  commands:
    - name: count_lines
      category: system_write
      risk_level: high
      argv: [-l, --, "{files}"]
      parameters:
        - {name: files, type: array, schema: {items: {type: string, format: path, x-sinew-access: read}}}
"#;

const TEACHER: &str = r#"
tool:
  id: teacher
  type: local
  name: Teacher
  version: 1.0.0
  description: Say what it was told
  local_specific: {entry_point: say.py, runtime: python}
  commands:
    - name: say_again
      category: system_write
      risk_level: high
      parameters:
        - {name: files, type: array, schema: {items: {type: string, format: path, x-sinew-access: read}}}
"#;

const SAY: &str = "import json, sys\njson.dump(json.load(sys.stdin), sys.stdout)\n";

#[test]
fn manifest_tool_request_shows_the_exact_argv() {
    let home = home_requiring_approval(300);
    home.configure(
        "governance/tools.yaml",
        "tools:\n  counter.count_lines: {requires_approval: true, allowed_in_modes: [NORMAL]}\n  \
         teacher.say_again: {requires_approval: true, allowed_in_modes: [NORMAL]}\n",
    );
    for (name, text) in [("counter.yaml", COUNTER), ("teacher.yaml", TEACHER), ("say.py", SAY)] {
        home.put_tool(name, text);
    }
    let daemon = Daemon::start_in(home);
    let files = ["a b.txt", "c.txt"].map(|name| daemon.home().file(name, "1\n2\n").display().to_string());
    let arguments = json!({"files": ["./a b.txt", "c.txt"]});
    let (id, facts) = request_effect(&daemon, "counter.count_lines", &arguments);
    let has =
        |facts: &[String], line: &str| assert!(facts.iter().any(|fact| fact == line), "{line}: {facts:?}");
    has(&facts, &format!("argv {}", json!(["wc", "-l", "--", files[0], files[1]])));
    has(&facts, &format!("runs in {}", daemon.home().workspace().display()));
    has(&facts, "stdin nothing");
    assert!(
        facts.iter().any(|fact| fact.starts_with("program /") && fact.contains("/wc (sha256 ")),
        "{facts:?}"
    );
    assert!(facts.iter().any(|fact| fact.starts_with("sees the variables PATH, HOME")), "{facts:?}");
    decide(&mut daemon.control(), &id, "approve");
    let done = call_with_approval(&daemon, "counter.count_lines", &arguments, &id);
    let stdout = done["output"]["stdout"].as_str().unwrap_or_else(|| panic!("{done}"));
    assert!(
        stdout.contains("4 total") && stdout.contains("a b.txt") && stdout.contains("c.txt"),
        "every file: {stdout}"
    );

    let (id, facts) = request_effect(&daemon, "teacher.say_again", &arguments);
    let input = json!({"command": "say_again", "arguments": {"files": files}});
    has(&facts, &format!("stdin {input}"));
    assert!(
        facts.iter().any(|fact| fact.starts_with("argv [\"python3\",\"-I\",\"-c\",\"(the script: ")),
        "{facts:?}"
    );
    decide(&mut daemon.control(), &id, "approve");
    let done = call_with_approval(&daemon, "teacher.say_again", &arguments, &id);
    assert_eq!(done["output"], input, "what was shown is what it was told: {done}");

    // A changed manifest voids the approval, even after the change was accepted.
    let (id, _) = request_effect(&daemon, "counter.count_lines", &arguments);
    decide(&mut daemon.control(), &id, "approve");
    let changed = COUNTER.replace("Count lines", "Count all lines");
    std::fs::write(daemon.home().root().join("tools/counter.yaml"), changed).unwrap();
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    let refused = call_with_approval(&daemon, "counter.count_lines", &arguments, &id);
    assert_eq!(detail(&refused), "approval_mismatch", "{refused}");
}

/// Processor of these tests: it replaces `{text}` by its upper-case form.
const SHOUT: &str = "      process_input: shout\n  executable_knowledge:\n    processors:\n      - id: shout\n        \
                     language: javascript\n        function: |\n          \
                     module.exports = (data) => ({ ...data, text: data.text.toUpperCase() + '!', more: 1 });\n";

/// Returns a manifest of this type whose only command runs a text through the processor and prints it.
fn manifest_with_processor(kind: &str, section: &str, more: &str) -> String {
    format!(
        "tool:\n  schema_version: 2.0\n  id: {kind}-shout\n  type: {kind}\n  name: Shout\n  version: 1.0.0\n  \
         description: Say it louder\n  {kind}_specific: {section}\n  commands:\n    - name: echo\n      \
         category: system_write\n      risk_level: high\n      timeout_seconds: 15\n{more}      \
         parameters: [{{name: text, type: string}}]\n{SHOUT}"
    )
}

/// The approval request shows the output of the processor, and the tool receives exactly that.
#[test]
fn request_shows_the_output_of_the_processor() {
    let home = home_requiring_approval(300);
    let kinds = ["cli", "local", "mcp"];
    let asked_about: String = kinds
        .map(|kind| format!("  {kind}-shout.echo: {{requires_approval: true, allowed_in_modes: [NORMAL]}}\n"))
        .concat();
    home.configure("governance/tools.yaml", &format!("tools:\n{asked_about}"));
    let server = home.file("server.py", include_str!("../manifests/server.py")).display().to_string();
    home.put_tool("say.py", SAY);
    home.put_tool(
        "cli.yaml",
        &manifest_with_processor("cli", "{executable: echo}", "      argv: [\"{text}\"]\n"),
    );
    home.put_tool(
        "local.yaml",
        &manifest_with_processor("local", "{entry_point: say.py, runtime: python}", ""),
    );
    let section = format!("{{server_command: python3 {server}, transport: stdio}}");
    home.put_tool("mcp.yaml", &manifest_with_processor("mcp", &section, ""));
    let daemon = Daemon::start_in(home);
    let arguments = json!({"text": "quiet"});
    let given = json!({"text": "QUIET!", "more": 1});
    let rewrite_line = format!("gets arguments rewritten by the processor `shout`: {given}");
    for (kind, shown) in [
        ("cli", format!("argv {}", json!(["echo", "QUIET!"]))),
        ("local", format!("stdin {}", json!({"command": "echo", "arguments": given}))),
        ("mcp", rewrite_line.clone()),
    ] {
        let tool = format!("{kind}-shout.echo");
        let (id, facts) = request_effect(&daemon, &tool, &arguments);
        for line in [&shown, &rewrite_line] {
            assert!(facts.contains(line), "{kind}: {line}: {facts:?}");
        }
        decide(&mut daemon.control(), &id, "approve");
        let ran = call_with_approval(&daemon, &tool, &arguments, &id);
        assert!(ran["output"].to_string().contains("QUIET!"), "{kind}: {ran}");
    }
}

/// A call whose effect cannot be computed in advance is refused.
#[test]
fn failing_processor_creates_no_approval_request() {
    let home = home_requiring_approval(300);
    home.configure(
        "governance/tools.yaml",
        "tools:\n  cli-shout.echo: {requires_approval: true, allowed_in_modes: [NORMAL]}\n",
    );
    let text = manifest_with_processor("cli", "{executable: echo}", "      argv: [\"{text}\"]\n");
    home.put_tool("cli.yaml", &text.replace("data.text.toUpperCase()", "data.none.none"));
    let daemon = Daemon::start_in(home);
    let refused = daemon.agent().execute("cli-shout.echo", &json!({"text": "quiet"}));
    assert_eq!(detail(&refused), "not_foreseeable", "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("`shout`"), "{refused}");
    pending_approvals(&mut daemon.control(), 0);
}
