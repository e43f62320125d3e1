//! The refusal of a malformed call: what is wrong, all at once, and a call that would be accepted.

use tool::{Problem, Refusal, RefusalCode, ToolDefinition};

use crate::example;
use crate::findings::Findings;
use crate::schema::InputSchema;

pub(crate) fn refusal(definition: &ToolDefinition, schema: &InputSchema, findings: Findings) -> Refusal {
    let Findings { problems, count } = findings;
    let tool = definition.name().as_str();
    let example = example::of(definition, schema);
    let (missing, others): (Vec<&Problem>, Vec<&Problem>) = problems.iter().partition(|p| p.is_missing());

    let mut reason = format!("⚠️ Invalid {tool} call.");
    if !missing.is_empty() {
        let fields: Vec<String> = missing.iter().map(|problem| field(problem)).collect();
        reason.push_str(&format!(" Missing required fields: {}.", fields.join(", ")));
    }
    for problem in others {
        reason.push_str(&format!(" {}.", problem.message.trim_end_matches('?')));
    }
    let detail = if missing.is_empty() { "invalid_value" } else { "missing_field" };
    let mut hint = format!("send the call again with the {} corrected", counted(count));
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

/// The missing field, as a person would name it.
fn field(problem: &Problem) -> String {
    problem.pointer.trim_start_matches('/').escape_debug().to_string()
}

fn counted(problems: usize) -> String {
    if problems == 1 { "problem".into() } else { format!("{problems} problems") }
}
