//! Advice for the model of a host after the host has used one of its tools. Nothing is blocked, recorded or
//! undone.

use std::collections::BTreeSet;

use guardrail::CuratedGuardrails;
use serde_json::Value;
use telemetry::redact::{self, Redactor};
use telemetry::{CallContext, TelemetryEvent, emit};
use tool::text::{MAX_QUOTED_CHARS, shorten};
use tool::{CallId, Failure, FailureKind, TraceContext};

use crate::host::{Host, HostTool, UnknownHost};
use crate::layer::ToolExecutionLayer;
use crate::secret_screening::for_each_text;

/// Outcome of a host call.
#[derive(Clone, Debug)]
pub enum HostCallOutcome {
    /// The tool returned this value.
    Succeeded(Value),
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
        let snapshot = self.snapshot.load_full();
        let host = snapshot.host(host)?;
        Ok(match review {
            HostCallOutcome::Failed { tool, error } => {
                let advice = host.example_advice(&snapshot.curated, &tool, &error);
                if advice.is_some() {
                    self.announce_nudge(&tool, &error);
                }
                advice
            }
            HostCallOutcome::Succeeded(answer) => {
                let looking = move || secrets_advice(&redact::shared(), &answer);
                // A result can have megabytes, and other calls wait for this thread.
                tokio::task::spawn_blocking(looking).await.unwrap_or_default()
            }
        })
    }
}

impl ToolExecutionLayer {
    /// Emits the event of advice on a malformed host call. The host reports no id of the call.
    fn announce_nudge(&self, tool: &str, error: &str) {
        let (trace, tool) = (TraceContext::root(), shorten(tool, MAX_QUOTED_CHARS));
        let call = CallContext {
            tool: &tool,
            call_id: CallId::fresh(),
            trace: &trace,
            mode: self.mode(),
            session: None,
        };
        emit(TelemetryEvent::ToolValidationNudge { call, error });
    }
}

impl Host {
    /// Returns an example of a valid call if the error blames the arguments: that of the host table, else
    /// that of the curated map.
    pub fn example_advice(&self, curated: &CuratedGuardrails, tool: &str, error: &str) -> Advice {
        if !guardrail::blames_arguments(&Failure::new(FailureKind::Io, error)) {
            return None;
        }
        let of_table = match self.tool(tool) {
            Some(HostTool::Judged(judged)) => judged.definition().example().map(Value::to_string),
            Some(HostTool::SinewTool) => return None,
            None => None,
        };
        let example = of_table.or_else(|| curated.example_text(tool))?;
        Some(format!("Sinew: the call of {tool} was malformed. Example of a valid call: {example}"))
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
