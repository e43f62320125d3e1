//! Queries on a policy that need no call: which tools may run, and which secrets are filtered.

use serde_json::{Map, Value};
use tool::{Mode, RuleRef, ToolDefinition};

use crate::files::SecretAction;
use crate::policy::Policy;
use crate::rates::Rates;
use crate::situation::Counts;
use crate::standing::Standing;

/// Secret pattern from `safety.yaml`.
#[derive(Clone, Debug)]
pub struct SecretRule {
    /// Name of the secret in the ledger.
    pub name: String,
    /// Regular expression that finds it. Loading compiled it once, so it is valid.
    pub pattern: String,
    /// Action when it is found.
    pub action: SecretAction,
    /// Location of the rule.
    pub rule: RuleRef,
}

impl Policy {
    /// Returns true if a call of this tool could run in this mode, with or without approval.
    pub fn offers(&self, definition: &ToolDefinition, mode: Mode) -> bool {
        Standing::of(self, definition).may_run_in(mode)
    }

    /// Returns true if calls of this tool are outbound.
    pub fn goes_out(&self, definition: &ToolDefinition) -> bool {
        Standing::of(self, definition).goes_out()
    }

    /// Returns the remaining calls of the limits that apply to all tools in this mode.
    pub fn remaining(&self, mode: Mode, counts: Counts) -> Map<String, Value> {
        let mode_per_minute = self.safety.calls_per_minute.get(mode).clone();
        Rates { tool_per_hour: None, mode_per_minute, outbound_per_hour: None }.remaining(counts)
    }

    /// Returns the secret patterns, for the components that filter arguments, results and ledger records.
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
