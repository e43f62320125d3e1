//! Cost that a tool's own JavaScript validator adds to a judgement: a round trip to a sandboxed worker and a
//! fresh context, compared with node in the same rounds.
//!
//! Each judgement is requested with and without the validator, one after the other; the difference is the
//! added cost.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use super::Length;
use super::conversation::{BenchRequest, Conversation, ask, time};
use super::daemon::Home;
use super::peers::Installed;
use super::results::{Bound, RATIO, Results};

const GROUP: &str = "a validator in a fresh context, worker round trip included";
const SINEW: &str = "Sinew: added to a judgement";
const NODE: &str = "node vm in its own process, not sandboxed";
const ISOLATED: &str = "isolated-vm in a process of its own";
const ROUNDS: usize = 20;
const CALLS: usize = 100;

const SOURCE: &str = "function validate(args) { \
    if (args.text.length > 20) return { valid: false, errors: ['text must have at most 20 characters'] }; \
    return { valid: true, errors: [] }; }";

const MANIFEST: &str = r#"
tool:
  schema_version: 2.0
  id: notes
  type: cli
  name: Notes
  version: 1.0.0
  description: Takes a note
  knowledge_strategy: executable
  cli_specific: {executable: "true", install_guide: Part of every system.}
  commands:
    - {name: checked, category: read_only, risk_level: low, argv: ["{text}"], parameters: [{name: text, type: string}]}
    - {name: plain, category: read_only, risk_level: low, argv: ["{text}"], parameters: [{name: text, type: string}]}
  executable_knowledge:
    validators:
      - id: short-notes
        validates: checked
        language: javascript
        checks: [{required_fields: [text]}]
        function: |
          SOURCE
          module.exports = { validate };
"#;

pub(crate) fn measure(
    binary: &Path,
    folder: &Path,
    (peers, length): (&Installed, Length),
    results: &mut Results,
) -> Result<()> {
    let home = Home::make(binary, &folder.join("validator"))?;
    home.put_manifest("notes.yaml", &MANIFEST.replace("SOURCE", SOURCE))?;
    let daemon = home.start()?;
    let mut conversation = daemon.connect()?;
    let explain = |tool: &str| {
        let params = json!({"tool_name": tool, "arguments": {"text": "Buy milk"}});
        BenchRequest::new("sinew/explain", &params, "\"permit\"")
    };
    let (checked, plain) = (explain("notes.checked"), explain("notes.plain"));
    let mut others = others(peers, results);
    let mut times = Vec::new();
    for _ in 0..length.of(ROUNDS) {
        for _ in 0..CALLS {
            let (mut with, mut without) = (0.0, 0.0);
            ask(&mut conversation, &checked, 1, |time, _| {
                with = time;
                Ok(())
            })?;
            ask(&mut conversation, &plain, 1, |time, _| {
                without = time;
                Ok(())
            })?;
            times.push(with - without);
        }
        for (_, conversation, times) in &mut others {
            let arguments = json!({"input": json!({"text": "Buy milk"}).to_string()});
            let request = BenchRequest::new("validate", &arguments, "\"valid\":true");
            time(conversation, &request, CALLS, times)?;
        }
    }
    let median = results.add(GROUP, SINEW, times);
    for (name, _, times) in others {
        results.add(GROUP, name, times);
    }
    let faster = results.ratio(GROUP, NODE, SINEW);
    results.claim("validator overhead, p50", Some(median), "µs", Bound::AtMost(100.0));
    results.claim("validator: node vm to Sinew, p50", faster, RATIO, Bound::AtLeast(1.0));
    Ok(())
}

/// Starts node with `node:vm`, which needs no package, and with `isolated-vm` if that is installed.
fn others(peers: &Installed, results: &mut Results) -> Vec<(&'static str, Conversation, Vec<f64>)> {
    let script = peers.sources.join("validator.js");
    let node = |engine: &str, folder: Option<&Path>| {
        let mut command = Command::new("node");
        command.arg(&script).arg(engine).arg(SOURCE);
        if let Some(folder) = folder {
            command.env("NODE_PATH", folder.join("node_modules"));
        }
        command
    };
    let mut commands = vec![];
    if peers.node.is_some() {
        commands.push((NODE, node("vm", None)));
    }
    if let Some(folder) = &peers.isolated_vm {
        commands.push((ISOLATED, node("isolated-vm", Some(folder))));
    }
    let mut started = Vec::new();
    for (name, mut command) in commands {
        match Conversation::on_pipes(&mut command).with_context(|| name.to_owned()) {
            Ok(conversation) => started.push((name, conversation, Vec::new())),
            Err(error) => results.absent.push(format!("{error:#}")),
        }
    }
    started
}
