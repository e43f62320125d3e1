//! Meta tools: each call of a plan runs through the whole pipeline as a call of the original caller.

use serde_json::{Value, json};
use tests::{Daemon, Home};

use super::run::{code, put};

/// Meta tool whose helper returns this plan, and which may call these tools.
fn meta(id: &str, aggregates: &str, plan: &str) -> String {
    format!(
        "tool:\n  schema_version: 2.0\n  id: {id}\n  type: meta\n  name: Made of others\n  version: 1.0.0\n  description: d\n  \
         knowledge_strategy: executable\n  meta_specific: {{aggregates: [{aggregates}], orchestration: helpers.plan}}\n  \
         commands:\n    - name: look_{id}\n      category: read_only\n      risk_level: low\n      parameters:\n        \
         - {{name: folder, type: string, format: path}}\n  executable_knowledge:\n    helpers:\n      - id: plan\n        \
         language: javascript\n        runtime: isolated_vm\n        function: |\n          function plan(args) {{\n            \
         return {plan};\n          }}\n          module.exports = {{ plan }};\n"
    )
}

/// Plan that lists a folder and reads the first file in it.
const LIST_AND_READ: &str = r#"{ steps: [
              { id: "list", tool: "list_directory", arguments: { path: args.folder } },
              { id: "read", tool: "read_file", arguments: { path: { $from: "list.output.entries.0.name" } } },
            ], output: { first: { $from: "read.output.content" }, count: 1 } }"#;

fn daemon(manifests: &[(&str, String)]) -> Daemon {
    let home = Home::initialised().without_automatic_modes();
    manifests.iter().for_each(|(name, text)| put(&home, name, text));
    home.file("a.txt", "hello");
    Daemon::start_in(home)
}

fn look(daemon: &Daemon, id: &str) -> Value {
    let folder = daemon.home().workspace().display().to_string();
    daemon.agent().execute(&format!("look_{id}"), &json!({"folder": folder}))
}

#[test]
fn plan_uses_earlier_results_and_records_each_call() {
    let plan = meta("health", "list_directory, read_file", LIST_AND_READ);
    let daemon = daemon(&[("health.yaml", plan)]);
    let looked = look(&daemon, "health");
    assert_eq!(looked["output"], json!({"first": "hello", "count": 1}), "{looked}");
    let trace = looked["metadata"]["trace_id"].as_str().unwrap().to_owned();
    let home = daemon.stop();
    let ends = home.records().into_iter().filter(|record| record.to_string().contains(&trace));
    let ends: Vec<String> = ends
        .filter(|record| record.to_string().contains("\"outcome\""))
        .map(|record| record.to_string())
        .collect();
    for tool in ["health.look_health", "list_directory", "read_file"] {
        assert!(ends.iter().any(|record| record.contains(tool)), "{tool} is not in {ends:?}");
    }
}

/// A meta tool may not do what its caller may not do.
#[test]
fn refused_step_stops_the_plan_with_its_refusal() {
    let plan = r#"{ steps: [
              { id: "list", tool: "list_directory", arguments: { path: args.folder } },
              { id: "steal", tool: "read_file", arguments: { path: "/etc/shadow" } },
              { id: "after", tool: "list_directory", arguments: { path: "." } } ] }"#;
    let daemon = daemon(&[("sly.yaml", meta("sly", "list_directory, read_file", plan))]);
    let stopped = look(&daemon, "sly");
    assert!(code(&stopped).starts_with("path_"), "{stopped}");
    assert!(stopped["error"].as_str().unwrap().contains("the step `steal` (read_file)"), "{stopped}");
    assert_eq!(stopped["output"]["steps"]["list"]["success"], true, "what was done is told: {stopped}");
    assert!(stopped["output"]["steps"].get("after").is_none(), "{stopped}");
    let optional = plan.replace(
        "arguments: { path: \"/etc/shadow\" }",
        "arguments: { path: \"/etc/shadow\" }, optional: true",
    );
    let daemon = self::daemon(&[("sly.yaml", meta("sly", "list_directory, read_file", &optional))]);
    let continued = look(&daemon, "sly");
    assert_eq!(continued["success"], true, "{continued}");
    assert_eq!(continued["output"]["steal"], json!({}), "{continued}");
}

#[test]
fn invalid_plan_is_not_executed() {
    let cases = [
        (
            "other",
            r#"{ steps: [{ id: "x", tool: "list_directory", arguments: {} }] }"#,
            "is not among its aggregates",
        ),
        (
            "later",
            r#"{ steps: [{ id: "x", tool: "read_file", arguments: { path: { $from: "y.output" } } }] }"#,
            "refers to no result",
        ),
        (
            "many",
            "{ steps: Array(17).fill(0).map((_, n) => ({ id: String(n), tool: \"read_file\" })) }",
            "17 steps",
        ),
        ("none", "42", "it is not a plan"),
    ];
    let file = |(id, plan, _): &(&str, &str, &str)| (format!("{id}.yaml"), meta(id, "read_file", plan));
    let files: Vec<(String, String)> = cases.iter().map(file).collect();
    let daemon = daemon(&files.iter().map(|(name, text)| (name.as_str(), text.clone())).collect::<Vec<_>>());
    for (id, _, why) in cases {
        let stopped = look(&daemon, id);
        assert!(stopped["error"].as_str().unwrap().contains(why), "{why}: {stopped}");
    }
}

/// With one slot for all calls, a meta tool that waited for a slot for its own calls would deadlock.
#[test]
fn calls_of_a_meta_tool_share_its_slot() {
    let home = Home::initialised().without_automatic_modes();
    let modes = std::fs::read_to_string(home.root().join("config/governance/modes.yaml")).unwrap();
    home.configure(
        "governance/modes.yaml",
        &modes.replacen("max_concurrent_tasks: 64", "max_concurrent_tasks: 1", 1),
    );
    put(
        &home,
        "outer.yaml",
        &meta("outer", "inner", r#"{ steps: [{ id: "in", tool: "inner.look_inner", arguments: args }] }"#),
    );
    put(&home, "inner.yaml", &meta("inner", "list_directory, read_file", LIST_AND_READ));
    home.file("a.txt", "hello");
    let daemon = Daemon::start_in(home);
    let looked = look(&daemon, "outer");
    assert_eq!(looked["output"]["in"]["first"], "hello", "two within one another: {looked}");
}

#[test]
fn cycle_of_meta_tools_is_reported_and_not_loaded() {
    let home = Home::initialised();
    let plan = "{ steps: [] }";
    let folder = home.workspace().join("m");
    std::fs::create_dir(&folder).unwrap();
    for (id, others) in
        [("a", "b"), ("b", "a"), ("own", "own"), ("deep", "c1"), ("c1", "c2"), ("c2", "read_file")]
    {
        home.file(&format!("m/{id}.yaml"), &meta(id, others, plan));
    }
    let folder = folder.display().to_string();
    let answer = home.run(&["manifest", "check", &folder, "--json"]).must_exit(7).json();
    let loaded: Vec<&str> =
        answer["manifests"].as_array().unwrap().iter().filter_map(|one| one["id"].as_str()).collect();
    assert_eq!(loaded, ["c1", "c2"], "{answer}");
    assert!(
        answer["diagnostics"].to_string().contains("nested at most 2 levels deep, without cycles"),
        "{answer}"
    );
}
