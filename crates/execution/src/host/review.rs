//! After a host has used a tool of its own: a word of advice for its model, where there is one. Nothing is blocked,
//! recorded or undone.

use std::collections::BTreeSet;

use serde_json::Value;
use telemetry::redact::{self, Redactor};
use tool::{Failure, FailureKind};

use crate::content::for_each_text;
use crate::host::{Host, HostTool, UnknownHost};
use crate::layer::ToolExecutionLayer;

/// What became of a host's call.
#[derive(Clone, Debug)]
pub enum HostReview {
    /// The tool answered with this.
    Answered(Value),
    /// The tool of this name failed with this message.
    Failed {
        /// In the host's spelling.
        tool: String,
        /// What the host was told.
        error: String,
    },
}

/// What the model is told. Absent where there is nothing to say.
pub type Advice = Option<String>;

impl ToolExecutionLayer {
    /// What is to be said of a call that is over.
    pub async fn review_host(&self, host: &str, review: HostReview) -> Result<Advice, UnknownHost> {
        let world = self.world.load_full();
        let host = world.host(host)?;
        Ok(match review {
            HostReview::Failed { tool, error } => host.right_shape(&tool, &error),
            HostReview::Answered(answer) => {
                let looking = move || secrets_in(&redact::shared(), &answer);
                // An answer can be megabytes, and other calls wait on this thread.
                tokio::task::spawn_blocking(looking).await.unwrap_or_default()
            }
        })
    }
}

impl Host {
    /// How a malformed call would have been right, where the error says that it was malformed.
    pub fn right_shape(&self, tool: &str, error: &str) -> Advice {
        if !guardrail::blames_arguments(&Failure::new(FailureKind::Io, error)) {
            return None;
        }
        let HostTool::Judged(judged) = self.tool(tool)? else { return None };
        let example = judged.definition().example()?;
        Some(format!("Sinew: the call of {tool} was malformed. A call of the right shape: {example}"))
    }
}

/// Which secrets an answer holds. They are named, never repeated.
pub fn secrets_in(redactor: &Redactor, answer: &Value) -> Advice {
    let mut found = BTreeSet::new();
    for_each_text(answer, &mut |text| found.extend(redactor.found(text).into_iter().map(str::to_owned)));
    if found.is_empty() {
        return None;
    }
    let names: Vec<String> = found.into_iter().collect();
    Some(format!(
        "Sinew: this result holds what looks like a secret ({}). Do not repeat it, write it to a file or send it \
         anywhere; name the file or variable that holds it instead.",
        names.join(", ")
    ))
}
