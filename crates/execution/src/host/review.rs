//! Advice for the model of a host after the host has used one of its tools. Nothing is blocked, recorded or
//! undone.

use std::collections::BTreeSet;

use serde_json::Value;
use telemetry::redact::{self, Redactor};
use tool::{Failure, FailureKind};

use crate::content::for_each_text;
use crate::host::{Host, HostTool, UnknownHost};
use crate::layer::ToolExecutionLayer;

/// Outcome of a host call.
#[derive(Clone, Debug)]
pub enum HostReview {
    /// The tool returned this value.
    Answered(Value),
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
    pub async fn review_host(&self, host: &str, review: HostReview) -> Result<Advice, UnknownHost> {
        let world = self.world.load_full();
        let host = world.host(host)?;
        Ok(match review {
            HostReview::Failed { tool, error } => host.right_shape(&tool, &error),
            HostReview::Answered(answer) => {
                let looking = move || secrets_in(&redact::shared(), &answer);
                // A result can have megabytes, and other calls wait for this thread.
                tokio::task::spawn_blocking(looking).await.unwrap_or_default()
            }
        })
    }
}

impl Host {
    /// Returns an example of a valid call if the error blames the arguments.
    pub fn right_shape(&self, tool: &str, error: &str) -> Advice {
        if !guardrail::blames_arguments(&Failure::new(FailureKind::Io, error)) {
            return None;
        }
        let HostTool::Judged(judged) = self.tool(tool)? else { return None };
        let example = judged.definition().example()?;
        Some(format!("Sinew: the call of {tool} was malformed. Example of a valid call: {example}"))
    }
}

/// Returns a warning with the names of the secrets in a result. It never repeats a secret.
pub fn secrets_in(redactor: &Redactor, answer: &Value) -> Advice {
    let mut found = BTreeSet::new();
    for_each_text(answer, &mut |text| found.extend(redactor.found(text).into_iter().map(str::to_owned)));
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
