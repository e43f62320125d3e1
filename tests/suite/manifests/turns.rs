//! Fair scheduling of validator processes between callers: however many calls one caller sends, another waits
//! for one turn only.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tests::{Daemon, Home, wait_until};

use super::run::{code, put};

const SLOW: &str = "tool:
  schema_version: 2.0
  id: slow
  type: cli
  name: n
  version: 1.0.0
  description: d
  cli_specific: {executable: echo}
  commands:
    - {name: say_slowly, category: read_only, risk_level: low, parameters: [{name: text, type: string}], argv: ['{text}']}
  executable_knowledge:
    validators:
      - id: looks-long
        validates: say_slowly
        language: javascript
        function: |
          module.exports = (args) => {
            if (args.text === 'long') { for (;;) {} }
            return { valid: false, errors: ['not today'] };
          };
";

/// Number of calls in the flood, more than another caller could wait for.
const FLOOD: usize = 128;

#[test]
fn slow_validators_of_one_caller_do_not_block_another() {
    let home = Home::initialised().without_automatic_modes();
    put(&home, "slow.yaml", SLOW);
    let daemon = Daemon::start_in(home);
    let mut flooding = daemon.agent();
    let params = json!({"tool_name": "slow.say_slowly", "arguments": {"text": "long"}});
    for id in 0..FLOOD {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "sinew/execute", "params": params});
        flooding.send(format!("{message}\n").as_bytes());
    }
    let answered = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&answered);
    std::thread::spawn(move || {
        while flooding.receive().is_some() {
            counter.fetch_add(1, Ordering::SeqCst);
        }
    });
    wait_until("the first of many is answered", || answered.load(Ordering::SeqCst) > 0);
    // Another caller is another process: connections of one process share their slots.
    let run = daemon.home().run(&["call", "slow.say_slowly", "--json", "text=short"]).must_exit(3);
    let refused = run.json();
    assert_eq!(code(&refused), "validator_rejected", "{refused}");
    let before = answered.load(Ordering::SeqCst);
    assert!(before < FLOOD / 2, "{before} of {FLOOD} came first");
}
