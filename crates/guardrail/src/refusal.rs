//! Refusal of a malformed call: all problems at once, and an example of a valid call.

use serde_json::Value;
use tool::{Refusal, RefusalCode};

use crate::findings::Findings;
use crate::problem;

/// Builds the refusal of a call to `tool`. The guardrail has checked that the example, if any, is accepted.
pub(crate) fn refusal(tool: &str, findings: Findings, example: Option<Value>) -> Refusal {
    let Findings { problems, count, examples } = findings;
    let missing = problem::missing_fields(&problems);
    let mut reason = format!("⚠️ Invalid {} call.", tool.escape_debug());
    if !missing.is_empty() {
        reason.push_str(&format!(" Missing required fields: {}.", missing.join(", ")));
    }
    for problem in problems.iter().filter(|problem| !problem.is_missing()) {
        reason.push_str(&format!(" {}.", problem.message.trim_end_matches('?')));
    }
    if count > problems.len() {
        reason.push_str(&format!(" And {} more.", counted(count - problems.len())));
    }
    for inner in examples {
        reason.push_str(&format!(" {inner}."));
    }
    let detail = if missing.is_empty() { "invalid_value" } else { "missing_field" };
    let mut hint = format!("send the call again with the {} corrected", corrected(count));
    if let Some(example) = &example {
        reason.push_str(&format!(" Example: {example}"));
        hint.push_str("; `example` is accepted");
    }

    let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    let schema_error = messages.join("; ");
    let mut refusal = Refusal::new(tool, RefusalCode::InvalidArguments, reason).detail(detail).hint(hint);
    refusal.example = example;
    refusal.problems = problems;
    refusal.schema_error = Some(schema_error);
    refusal
}

fn corrected(problems: usize) -> String {
    if problems == 1 { "problem".into() } else { counted(problems) }
}

fn counted(problems: usize) -> String {
    if problems == 1 { "1 problem".into() } else { format!("{problems} problems") }
}
