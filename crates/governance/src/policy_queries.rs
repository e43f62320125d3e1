//! Queries on a policy that need no call: which tools may run, which secrets are filtered, and the rules for
//! the mode monitor and the call counters.

use std::sync::Arc;

use serde_json::{Map, Value};
use tool::{Mode, RiskLevel, RuleRef, ToolDefinition};

use crate::effective_policy::EffectivePolicy;
use crate::files::{RunningCalls, SecretAction};
use crate::policy::Policy;
use crate::problems::rule_at;
use crate::rates::{RateLimits, RateRules};
use crate::situation::RateCounts;
use crate::transitions::Transitions;

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
    pub fn may_run(&self, definition: &ToolDefinition, mode: Mode) -> bool {
        EffectivePolicy::new(self, definition).may_run_in(mode)
    }

    /// Returns the largest content that a call of this tool may write, with its rule; `None` if the tool takes
    /// no content or has no limit.
    pub fn max_content_bytes(&self, definition: &ToolDefinition) -> Option<(u64, &RuleRef)> {
        definition.input_schema().pointer("/properties/content")?;
        let rules = self.tools.get(definition.name())?;
        rules.max_file_bytes.as_ref().map(|(most, rule)| (*most, rule))
    }

    /// Returns true if calls of this tool are outbound.
    pub fn is_outbound(&self, definition: &ToolDefinition) -> bool {
        EffectivePolicy::new(self, definition).is_outbound()
    }

    /// Returns the remaining calls of the limits that apply to all tools in this mode.
    pub fn remaining_calls(&self, mode: Mode, counts: RateCounts) -> Map<String, Value> {
        let mode_per_minute = self.safety.calls_per_minute.get(mode).clone();
        RateRules { tool_per_hour: None, mode_per_minute, outbound_per_hour: None }.remaining(counts)
    }

    /// Returns the secret patterns, for the components that filter arguments, results and ledger records.
    pub fn secrets(&self) -> impl Iterator<Item = SecretRule> {
        let file = &self.files().documents.safety;
        self.files().safety.content_filtering.secret_patterns.iter().map(move |secret| SecretRule {
            name: secret.name.clone(),
            pattern: secret.pattern.value.clone(),
            action: secret.action,
            rule: rule_at(
                file,
                &secret.pattern,
                format!("content_filtering.secret_patterns.{}", secret.name),
            ),
        })
    }

    /// Returns the rules that change the mode.
    pub fn transitions(&self) -> Arc<Transitions> {
        Arc::clone(&self.transitions)
    }

    /// Returns the action on entering this mode for running calls that it forbids.
    pub fn running_calls(&self, mode: Mode) -> RunningCalls {
        self.modes.get(mode).running_calls
    }

    /// Returns true if processor, memory and disk are monitored in this mode.
    pub fn is_monitored(&self, mode: Mode) -> bool {
        self.modes.get(mode).monitored
    }

    /// Returns the risk level of a tool, by its definition and its category.
    pub fn risk_level(&self, definition: &ToolDefinition) -> RiskLevel {
        EffectivePolicy::new(self, definition).risk
    }

    /// Returns the rate limits of a tool and of this mode.
    pub fn rate_limits(&self, definition: &ToolDefinition, mode: Mode) -> RateLimits {
        EffectivePolicy::new(self, definition).rates(mode).limits()
    }
}
