//! Advice for the model of a host after the host has used one of its tools. Nothing is blocked, recorded or
//! undone.

use std::collections::BTreeSet;

use guardrail::CuratedGuardrails;
use serde_json::{Map, Value};
use telemetry::redact::{self, Redactor};
use telemetry::{CallContext, TelemetryEvent, emit};
use tool::text::{MAX_QUOTED_CHARS, shorten};
use tool::{CallId, Failure, FailureKind, Mode, TraceContext};

use crate::host::{Host, HostTool, UnknownHost};
use crate::layer::ToolExecutionLayer;
use crate::secret_screening::for_each_text;

/// Outcome of a host call.
#[derive(Clone, Debug)]
pub enum HostCallOutcome {
    /// The tool returned a value. An MCP tool may report an error in it.
    Succeeded {
        /// Tool name in the host's spelling.
        tool: String,
        /// Value that the host reports.
        answer: Value,
    },
    /// The tool failed.
    Failed {
        /// Tool name in the host's spelling.
        tool: String,
        /// Error message.
        error: String,
    },
}

/// Text for the model, or `None` if there is no advice.
pub type Advice = Option<String>;

impl ToolExecutionLayer {
    /// Returns the advice about a finished host call.
    pub async fn review_host_call(&self, host: &str, review: HostCallOutcome) -> Result<Advice, UnknownHost> {
        let snapshot = self.current.snapshot.load_full();
        let host = snapshot.host(host)?;
        Ok(match review {
            HostCallOutcome::Failed { tool, error } => {
                nudge(self.mode(), &tool, &error, host.example_advice(&snapshot.curated, &tool, &error))
            }
            HostCallOutcome::Succeeded { tool, answer } => {
                let error = reported_error(&answer);
                let advice =
                    error.as_ref().and_then(|error| host.example_advice(&snapshot.curated, &tool, error));
                let nudge = nudge(self.mode(), &tool, error.as_deref().unwrap_or_default(), advice);
                let search = move || secrets_advice(&redact::shared(), &answer);
                // A result can have megabytes, and other calls wait for this thread.
                joined(nudge, tokio::task::spawn_blocking(search).await.unwrap_or_default())
            }
        })
    }
}

/// Returns the advice on a malformed host call, and emits its event if there is any. The host reports no
/// id of the call.
fn nudge(mode: Mode, tool: &str, error: &str, advice: Advice) -> Advice {
    advice.as_ref()?;
    let (trace, tool) = (TraceContext::root(), shorten(tool, MAX_QUOTED_CHARS));
    let call = CallContext { tool: &tool, call_id: CallId::fresh(), trace: &trace, mode, session: None };
    emit(TelemetryEvent::ToolValidationNudge { call, error });
    advice
}

impl Host {
    /// Returns an example of a valid call if the error blames the arguments: that of the host table, else
    /// that of the curated map.
    pub fn example_advice(&self, curated: &CuratedGuardrails, tool: &str, error: &str) -> Advice {
        if !guardrail::blames_arguments(&Failure::new(FailureKind::Io, error)) {
            return None;
        }
        let of_table = match self.tool(tool) {
            Some(HostTool::Judged(judged)) => judged.definition().example(),
            Some(HostTool::SinewTool) => return None,
            None => None,
        };
        let of_table = of_table.filter(|example| !example.as_object().is_some_and(Map::is_empty));
        let example = of_table.map(Value::to_string).or_else(|| curated.example_text(tool))?;
        Some(format!("Sinew: the call of {tool} was malformed. Example of a valid call: {example}"))
    }
}

/// Returns the text of an error that an MCP tool reports in its result, as `isError` or in the spelling of the
/// host.
pub fn reported_error(answer: &Value) -> Option<String> {
    let is_error = ["isError", "is_error"].iter().any(|key| answer.get(key) == Some(&Value::Bool(true)));
    let content = answer.get("content").filter(|_| is_error)?;
    let texts = content.as_array().map_or_else(Vec::new, |blocks| {
        blocks.iter().filter_map(|block| block.get("text")?.as_str()).collect::<Vec<_>>()
    });
    Some(content.as_str().map_or_else(|| texts.join("\n"), str::to_owned))
}

/// Joins two pieces of advice.
pub fn joined(first: Advice, second: Advice) -> Advice {
    match (first, second) {
        (Some(first), Some(second)) => Some(format!("{first}\n{second}")),
        (first, second) => first.or(second),
    }
}

/// Returns a warning with the names of the secrets in a result. It never repeats a secret.
pub fn secrets_advice(redactor: &Redactor, answer: &Value) -> Advice {
    let mut found = BTreeSet::new();
    for_each_text(answer, &mut |text| {
        found.extend(redactor.secret_names(text).into_iter().map(str::to_owned))
    });
    if found.is_empty() {
        return None;
    }
    let names: Vec<String> = found.into_iter().collect();
    Some(format!(
        "Sinew: this result contains what looks like a secret ({}). Do not repeat it, write it to a file or \
         send it anywhere; name the file or variable that contains it instead.",
        names.join(", ")
    ))
}
