//! Session id passed to a tool: the caller's own, added after the arguments are checked, and never a forged
//! one.

use serde_json::{Value, json};
use tests::{Daemon, Home};

use super::{open, worker};

const ECHO: &str = r#"
tool:
  id: echo
  type: local
  name: Echo
  version: 1.0.0
  description: Say what it was handed
  local_specific: {entry_point: echo.py, runtime: python}
  commands:
    - name: tell
      category: read_only
      wants_session: true
      parameters: [{name: text, type: string}]
    - name: plain
      category: read_only
      parameters: [{name: session_id, type: string, required: false}]
    - name: anything
      category: read_only
"#;

/// Prints its arguments. Each run is visible in its answer only, so a call without an answer did not run.
const SAY: &str = "import json, sys\njson.dump(json.load(sys.stdin)['arguments'], sys.stdout)\n";

fn daemon() -> Daemon {
    let home = Home::initialised();
    for (name, text) in [("echo.yaml", ECHO), ("echo.py", SAY)] {
        home.put_tool(name, text);
    }
    Daemon::start_in(home)
}

fn code(result: &Value) -> &str {
    result["metadata"]["refusal"]["code"].as_str().unwrap_or("none")
}

#[test]
fn tool_receives_the_callers_own_session_only() {
    let daemon = daemon();
    let mut orchestrator = daemon.agent();
    let allowlist = json!({"allowlist": ["echo.tell", "echo.plain", "echo.anything"], "hop_budget": 9});
    let (one, two) = (open(&mut orchestrator, &allowlist), open(&mut orchestrator, &allowlist));
    for session in [&one, &two] {
        let mut worker = worker(session);
        let reported = worker.execute("echo.tell", &json!({"text": "hello"}));
        let handed = json!({"text": "hello", "session_id": session["session_id"]});
        assert_eq!(reported["output"], handed, "its own, and nothing was missing: {reported}");
        // A caller that supplies any session id, its own, another's or none, is refused before the tool runs.
        for forged in [&one["session_id"], &two["session_id"], &json!("made up"), &json!(null)] {
            let refused = worker.execute("echo.tell", &json!({"text": "hello", "session_id": forged}));
            assert_eq!(code(&refused), "invalid_arguments", "{forged}: {refused}");
            let error = refused["metadata"]["refusal"]["schema_error"].as_str().expect("a schema error");
            assert!(error.contains("session_id"), "{error}");
        }
        // A tool that does not request the session may have an argument of that name; its value comes from
        // the caller.
        let plain = worker.execute("echo.plain", &json!({"session_id": "mine"}));
        assert_eq!(plain["output"], json!({"session_id": "mine"}), "{plain}");
        // A tool that declares no parameters accepts any arguments.
        let anything = worker.execute("echo.anything", &json!({"a": [1, {"b": null}]}));
        assert_eq!(anything["output"], json!({"a": [1, {"b": null}]}), "{anything}");
    }
    let outside = daemon.agent().execute("echo.tell", &json!({"text": "hello"}));
    assert_eq!(outside["output"], json!({"text": "hello"}), "outside of sessions there is none: {outside}");
    let records = daemon.home().records();
    let ran = records.iter().filter(|r| tests::holds(r, "decision") && r["tool"] == "echo.tell").count();
    assert_eq!(ran, 3, "refused calls never reach the tool");
}
