//! What a policy offers to those who have no call in hand: which tools may run, which secrets it knows.

use serde_json::{Map, Value};
use tool::{Mode, RuleRef, ToolDefinition};

use crate::files::SecretAction;
use crate::policy::Policy;
use crate::rates::Rates;
use crate::situation::Counts;
use crate::standing::Standing;

/// A secret that `safety.yaml` describes.
#[derive(Clone, Debug)]
pub struct SecretRule {
    /// What it is called in records.
    pub name: String,
    /// A regular expression that finds it. It has been compiled once, so it can be.
    pub pattern: String,
    /// What is done about it.
    pub action: SecretAction,
    /// Where that is written.
    pub rule: RuleRef,
}

impl Policy {
    /// Whether some call of this tool could run in this mode, a human's consent included.
    pub fn offers(&self, definition: &ToolDefinition, mode: Mode) -> bool {
        Standing::of(self, definition).may_run_in(mode)
    }

    /// Whether the calls of this tool leave the machine.
    pub fn goes_out(&self, definition: &ToolDefinition) -> bool {
        Standing::of(self, definition).goes_out()
    }

    /// What is left of the limits that hold for all tools in this mode.
    pub fn remaining(&self, mode: Mode, counts: Counts) -> Map<String, Value> {
        let mode_per_minute = self.safety.calls_per_minute.get(mode).clone();
        Rates { tool_per_hour: None, mode_per_minute, outbound_per_hour: None }.remaining(counts)
    }

    /// The secrets that must not pass, for whoever sees arguments, results and records.
    pub fn secrets(&self) -> impl Iterator<Item = SecretRule> {
        let file = self.files().documents.safety.name();
        self.files().safety.content_filtering.secret_patterns.iter().map(move |secret| SecretRule {
            name: secret.name.clone(),
            pattern: secret.pattern.value.clone(),
            action: secret.action,
            rule: RuleRef {
                file: file.into(),
                line: secret.pattern.line,
                id: format!("content_filtering.secret_patterns.{}", secret.name).into(),
            },
        })
    }
}
