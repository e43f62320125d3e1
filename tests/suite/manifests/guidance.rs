//! Guidance of a manifest: it appears in refusals, and neither in the list of tools nor in results.

use serde_json::json;
use tests::{Daemon, Home};

use super::run::{code, put};

const GREETER: &str = r#"
tool:
  schema_version: 2.0
  id: greeter
  type: cli
  name: Greeter
  version: 1.0.0
  description: Print a greeting
  cli_specific: {executable: echo}
  commands:
    - name: greet
      category: read_only
      risk_level: low
      argv: ["{text}"]
      parameters: [{name: text, type: string}]
  api_complexity:
    api_quirks:
      - {quirk: text_is_printed_once, description: text is not repeated, mitigation: Call again}
  anti_patterns:
    - {pattern: number_as_text, description: A number, wrong: "greet({text: 5})", correct: "greet({text: five})"}
"#;

#[test]
fn guidance_appears_only_in_a_refusal() {
    let home = Home::initialised().without_automatic_modes();
    put(&home, "greeter.yaml", GREETER);
    let daemon = Daemon::start_in(home);
    let mut agent = daemon.agent();
    let refused = agent.execute("greeter.greet", &json!({"text": 5}));
    assert_eq!(code(&refused), "invalid_arguments", "{refused}");
    let done = agent.execute("greeter.greet", &json!({"text": "hello"}));
    assert_eq!(done["output"]["stdout"], "hello\n", "{done}");
    let listed = agent.request("sinew/tools", &json!({}));
    assert!(listed.to_string().contains("greeter.greet"), "{listed}");
    for words in ["number_as_text", "text_is_printed_once"] {
        assert!(refused["error"].as_str().unwrap().contains(words), "{refused}");
        assert!(!done.to_string().contains(words) && !listed.to_string().contains(words), "{words}");
    }
}
