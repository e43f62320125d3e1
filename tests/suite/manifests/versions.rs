//! Two major versions of one tool side by side, each in its own manifest.

use serde_json::{Value, json};
use tests::{Daemon, Home};

use super::run::{code, put};

/// Manifest of a script that prints its version.
fn manifest(version: &str, entry_point: &str) -> String {
    format!(
        "tool:\n  schema_version: 2.0\n  id: teller\n  type: local\n  name: Teller\n  version: {version}\n  \
         description: Prints its version\n  knowledge_strategy: executable\n  \
         local_specific: {{entry_point: {entry_point}, runtime: python}}\n  commands:\n    \
         - {{name: tell, category: read_only, risk_level: low, timeout_seconds: 15, parameters: []}}\n"
    )
}

fn put_version(home: &Home, major: u32) {
    let script = format!("v{major}.py");
    put(home, &script, &format!("import json\nprint(json.dumps({{'version': {major}}}))\n"));
    put(home, &format!("teller-{major}.yaml"), &manifest(&format!("{major}.2.0"), &script));
}

fn version(result: &Value) -> &Value {
    assert_eq!(result["success"], true, "{result}");
    &result["output"]["version"]
}

#[test]
fn two_majors_of_one_manifest_tool_can_be_called() {
    let home = Home::initialised().without_automatic_modes();
    put_version(&home, 2);
    let daemon = Daemon::start_in(home);
    let mut agent = daemon.agent();
    assert_eq!(version(&agent.execute("teller.tell", &json!({}))), 2);
    let refused = agent.execute("teller.tell@1", &json!({}));
    assert_eq!(code(&refused), "unknown_tool", "{refused}");
    let hint = refused["metadata"]["refusal"]["hint"].as_str().unwrap();
    assert!(hint.contains("has only version 2.2.0 here"), "{hint}");

    put_version(daemon.home(), 1);
    let shown = daemon.home().run(&["reload"]).must_exit(4).stdout();
    assert!(shown.contains("the tool teller.tell is new"), "the operator accepts each version: {shown}");
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    for (name, expect) in
        [("teller.tell", 2), ("tell", 2), ("teller.tell@2", 2), ("teller.tell@1", 1), ("tell@1", 1)]
    {
        assert_eq!(version(&agent.execute(name, &json!({}))), expect, "{name}");
    }
    let refused = agent.execute("teller.tell@3", &json!({}));
    let hint = refused["metadata"]["refusal"]["hint"].as_str().unwrap();
    assert!(hint.contains("only versions 2.2.0 and 1.2.0"), "{hint}");

    let daemon = Daemon::start_in(daemon.stop());
    let mut agent = daemon.agent();
    for (name, expect) in [("teller.tell", 2), ("teller.tell@1", 1)] {
        assert_eq!(version(&agent.execute(name, &json!({}))), expect, "after a restart: {name}");
    }
    put(daemon.home(), "v1.py", "import json\nprint(json.dumps({'version': 666}))\n");
    let shown = daemon.home().run(&["reload"]).must_exit(4).stdout();
    assert!(shown.contains("teller.tell is redefined"), "a lower version is watched too: {shown}");
    assert_eq!(version(&agent.execute("teller.tell@1", &json!({}))), 1);
}

#[test]
fn policy_of_a_tool_binds_all_its_versions() {
    let home = Home::initialised().without_automatic_modes();
    home.configure("governance/tools.yaml", "tools:\n  teller.tell:\n    forbidden_in_modes: [NORMAL]\n");
    put_version(&home, 1);
    put_version(&home, 2);
    let daemon = Daemon::start_in(home);
    for name in ["teller.tell", "teller.tell@1", "teller.tell@2"] {
        let refused = daemon.agent().execute(name, &json!({}));
        assert_eq!(code(&refused), "mode_denied", "{name}: {refused}");
    }
}
