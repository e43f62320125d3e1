//! Processing of arguments before a tool receives them and of its result before the caller does, and install
//! checks.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tests::{Daemon, Home};

use super::run::put;

/// Script that returns its arguments under `given`, merged with the object in `answer`.
const ECHO: &str = "import json, sys\n\
    given = json.load(sys.stdin)['arguments']\n\
    json.dump({**json.loads(given.pop('answer', '{}')), 'given': given}, sys.stdout)\n";

/// Manifest of the echo script, with extra lines for its command and extra knowledge.
fn echo(command: &str, more: &str) -> String {
    format!(
        "tool:\n  schema_version: 2.0\n  id: echo\n  type: local\n  name: Echo\n  version: 1.2.3\n  description: d\n  \
         local_specific: {{entry_point: echo.py, runtime: python}}\n  commands:\n    - name: say\n      category: read_only\n      \
         risk_level: low\n      parameters:\n        - {{name: answer, type: string, default: \"{{}}\"}}\n        \
         - {{name: text, type: string, default: x}}\n        - {{name: path, type: string, format: path, default: \".\"}}\n{command}{more}"
    )
}

fn daemon(command: &str, more: &str) -> Daemon {
    let home = Home::initialised().without_automatic_modes();
    put(&home, "echo.yaml", &echo(command, more));
    put(&home, "echo.py", ECHO);
    Daemon::start_in(home)
}

fn say(daemon: &Daemon, arguments: &Value) -> Value {
    daemon.agent().execute("echo.say", arguments)
}

/// Processor `p` that returns this expression.
fn processor(gives: &str) -> String {
    format!(
        "  executable_knowledge:\n    processors:\n      - id: p\n        language: javascript\n        function: |\n          \
         module.exports = (data) => ({gives});\n"
    )
}

#[test]
fn processor_rewrites_arguments_the_judge_did_not_see() {
    let command = "      process_input: p\n";
    let daemon = daemon(command, &processor("{ ...data, text: data.text.toUpperCase(), more: 1 }"));
    let result = say(&daemon, &json!({"text": "quiet"}));
    assert_eq!(
        (&result["output"]["given"]["text"], &result["output"]["given"]["more"]),
        (&json!("QUIET"), &json!(1)),
        "{result}"
    );
}

#[test]
fn processor_rewrites_the_output() {
    let command = "      process_output: p\n";
    let daemon = daemon(command, &processor("{ text: data.given.text, letters: data.given.text.length }"));
    let said = say(&daemon, &json!({"text": "quiet"}));
    assert_eq!(said["output"], json!({"text": "quiet", "letters": 5}), "{said}");
}

#[test]
fn processor_that_changes_judged_arguments_stops_the_call() {
    let home = Home::initialised().without_automatic_modes();
    let cases = [
        ("moves", "{ ...data, path: \"/etc\" }", "changed `path`, which was judged"),
        ("drops", "{ text: data.text }", "changed `path`, which was judged"),
        ("lists", "[data]", "did not return an object"),
        ("loops", "(() => { for (;;) {} })()", "exceeded 1s timeout"),
        ("swells", "{ ...data, list: new Array(140000).fill(0) }", "more than 131072 values"),
    ];
    for (id, gives, _) in cases {
        let text =
            echo("      process_input: p\n", &processor(gives)).replace("id: echo", &format!("id: {id}"));
        put(&home, &format!("{id}.yaml"), &text);
    }
    put(&home, "echo.py", ECHO);
    let daemon = Daemon::start_in(home);
    for (id, _, why) in cases {
        let stopped = daemon.agent().execute(&format!("{id}.say"), &json!({}));
        let reported = stopped["error"].as_str().unwrap();
        assert!(reported.contains(why) && reported.contains("nothing was run"), "{why}: {stopped}");
    }
}

/// Every result of a tool is validated against the `output_schema` of its manifest.
#[test]
fn result_that_breaks_its_schema_is_a_protocol_error() {
    let command =
        "      output_schema: {type: object, required: [count], properties: {count: {type: integer}}}\n";
    let daemon = daemon(command, "");
    assert_eq!(say(&daemon, &json!({"answer": "{\"count\": 3}"}))["output"]["count"], 3);
    let broken = say(&daemon, &json!({"answer": "{\"count\": \"three\"}"}));
    assert!(broken["error"].as_str().unwrap().contains("(tool_protocol_error): at /count"), "{broken}");
    assert_eq!(broken["output"]["count"], "three", "{broken}");
}

const MAPPINGS: &str = r#"  executable_knowledge:
    helpers:
      - id: extract
        language: javascript
        runtime: isolated_vm
        function: |
          module.exports = (args) => {
            const found = args.custom_fields.find((field) => field.id === args.id);
            return found === undefined ? null : found.value;
          };
  api_complexity:
    payload_schemas:
      - {type: hook, detection: webhook_id field, payload_path: data.task}
    field_mappings:
      custom_fields:
        place: {structure: {lat: number}, extraction: helpers.extract}
        owner: {structure: string, extraction: helpers.extract}
      status: {structure: string}
"#;

#[test]
fn payload_and_mapped_fields_are_extracted() {
    let daemon = daemon("", MAPPINGS);
    let task =
        json!({"name": "t", "status": 5, "custom_fields": [{"id": "place", "value": {"lat": "north"}}]});
    let answer = json!({"webhook_id": 1, "data": {"task": task}}).to_string();
    let output = say(&daemon, &json!({"answer": answer}))["output"].clone();
    assert_eq!((&output["payload_type"], &output["payload"]), (&json!("hook"), &task), "{output}");
    assert_eq!(output["fields"], json!({"place": {"lat": "north"}}), "{output}");
    let problems = json!(["`place.lat` is string, not number", "`status` is number, not string"]);
    assert_eq!(output["field_problems"], problems, "{output}");
    let plain = say(&daemon, &json!({"answer": "{\"status\": \"open\"}"}))["output"].clone();
    assert!(plain.get("fields").is_none() && plain.get("field_problems").is_none(), "{plain}");
}

#[test]
fn external_knowledge_is_only_referred_to() {
    let knowledge = "  anti_patterns:\n    - {pattern: numbers, description: A number, wrong: \"say({text: 5})\", correct: \
                     \"say({text: five})\"}\n";
    for (strategy, reported, untold) in [
        ("external", "see the documentation of Echo 1.2.3", "`numbers`"),
        ("embedded", "`numbers`", "see the documentation"),
    ] {
        let daemon = daemon("", &format!("  knowledge_strategy: {strategy}\n{knowledge}"));
        let refused = say(&daemon, &json!({"text": 5}));
        let reason = refused["error"].as_str().unwrap();
        assert!(reason.contains(reported) && !reason.contains(untold), "{strategy}: {reason}");
    }
}

const CHECKED: &str = "tool:\n  id: checked\n  type: cli\n  name: C\n  version: 1.0.0\n  description: d\n  cli_specific:\n    \
                       executable: CHECKED\n    install_check: CHECKED --version\n    install_guide: Get a new one.\n  commands:\n    \
                       - {name: go, category: read_only, risk_level: low, parameters: [], argv: [go]}\n";

/// Program outside of all workspaces, where a sandboxed run cannot have written it.
fn program(home: &Home, text: &str) -> String {
    let file = home.user_home().join("program");
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
    home.user_home().canonicalize().unwrap().join("program").display().to_string()
}

/// Home with a program in a read-only workspace: the sandbox shows programs only in the system's directories
/// and in granted paths.
fn home_with(text: &str) -> Home {
    let home = Home::initialised().without_automatic_modes();
    let bin = home.user_home().canonicalize().unwrap().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let moved = bin.join("program");
    std::fs::rename(program(&home, text), &moved).unwrap();
    home.run(&["workspace", "add", "--read-only", &bin.display().to_string()]).must_exit(0);
    put(&home, "checked.yaml", &CHECKED.replace("CHECKED", &moved.display().to_string()));
    home
}

#[test]
fn failed_install_check_stops_the_call_with_the_guide() {
    let daemon = Daemon::start_in(home_with("#!/bin/sh\n[ \"$1\" = --version ] && exit 3\necho ran\n"));
    let stopped = daemon.agent().execute("checked.go", &json!({}));
    assert!(stopped["error"].as_str().unwrap().contains("--version` failed"), "{stopped}");
    assert_eq!(stopped["metadata"]["failure"]["hint"], "Get a new one.", "{stopped}");
    let daemon = Daemon::start_in(home_with("#!/bin/sh\necho \"$1\"\n"));
    let ran = daemon.agent().execute("checked.go", &json!({}));
    assert_eq!(ran["output"]["stdout"], "go\n", "{ran}");
}

/// The program changes while no daemon runs, so no watcher sees the change. It needs acceptance all the same.
#[test]
fn program_replaced_while_stopped_waits_for_acceptance() {
    let daemon = Daemon::start_in(home_with("#!/bin/sh\necho one\n"));
    let run = |daemon: &Daemon| daemon.agent().execute("checked.go", &json!({}));
    assert_eq!(run(&daemon)["output"]["stdout"], "one\n");
    let home = daemon.stop();
    std::fs::write(home.user_home().join("bin/program"), "#!/bin/sh\necho two\n").unwrap();
    let daemon = Daemon::start_in(home);
    let stopped = run(&daemon);
    assert!(stopped["error"].as_str().unwrap().contains("is not the accepted one"), "{stopped}");
    let daemon = Daemon::start_in(daemon.stop());
    assert_eq!(run(&daemon)["success"], false, "starting again accepts nothing");
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert_eq!(run(&daemon)["output"]["stdout"], "two\n");
    let daemon = Daemon::start_in(daemon.stop());
    assert_eq!(run(&daemon)["output"]["stdout"], "two\n", "and it stays accepted");
}

#[test]
fn unusable_schema_is_found_before_loading() {
    let home = Home::new();
    for (name, schema) in [
        ("remote", "parameters: [{name: a, type: object, schema: {$ref: \"https://example.org/a.json\"}}]"),
        ("nowhere", "parameters: [{name: a, type: object, schema: {$ref: \"#/$defs/none\"}}]"),
        ("answer", "output_schema: {$ref: \"https://example.org/a.json\"}"),
        ("pattern", "parameters: [{name: a, type: string, schema: {pattern: \"(\"}}]"),
    ] {
        let text = format!(
            "tool:\n  id: t\n  type: cli\n  name: n\n  version: 1.0.0\n  description: d\n  commands:\n    - name: c\n      {schema}\n"
        );
        let file = home.file(&format!("{name}.yaml"), &text).display().to_string();
        let answer = home.run(&["manifest", "check", &file, "--json"]).must_exit(7).json();
        let reported = &answer["diagnostics"][0];
        assert_eq!(reported["code"], "INVALID_VALUE", "{name}: {answer}");
    }
}
