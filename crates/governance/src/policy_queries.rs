//! Queries on a policy that need no call: which tools may run, which secrets are filtered, and the rules for
//! the mode monitor and the call counters.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tool::{Mode, Refusal, RiskLevel, RuleRef, ToolDefinition, ToolName};

use crate::effective_policy::EffectivePolicy;
use crate::files::{RunningCalls, SecretAction};
use crate::host_rules::NetworkTarget;
use crate::policy::Policy;
use crate::problems::rule_at;
use crate::rates::{RateLimits, RateRules};
use crate::situation::RateCounts;
use crate::tool_rules::ResultCacheRule;
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
    /// Returns the maximum number of concurrent calls in this mode; `None` means no limit.
    pub fn max_concurrent_tasks(&self, mode: Mode) -> Option<u32> {
        let limits = self.conjuncts().filter_map(|policy| policy.modes.get(mode).max_concurrent.as_ref());
        limits.map(|(most, _)| *most).min()
    }

    /// Returns the cost of one call of a tool in the budget of a worker session.
    pub fn cost_per_call(&self, tool: &ToolName) -> f64 {
        let costs = self.conjuncts().filter_map(|policy| policy.tools.get(tool));
        costs.fold(0.0, |most, rules| rules.cost_per_call.max(most))
    }

    /// Returns the rule by which results of a tool are reused. While a policy change waits, there is none
    /// unless both policies have the same rule.
    pub fn result_cache(&self, tool: &ToolName) -> Option<&ResultCacheRule> {
        let mut rules = self.conjuncts().map(|policy| policy.tools.get(tool)?.result_cache.as_ref());
        let own = rules.next().flatten()?;
        rules.all(|other| other == Some(own)).then_some(own)
    }

    /// Returns the time after which an unanswered approval request expires.
    pub fn approval_timeout(&self) -> Duration {
        let timeouts = self.conjuncts().map(|policy| policy.safety.approval_timeout);
        timeouts.min().unwrap_or(self.safety.approval_timeout)
    }

    /// Returns true if a call of this tool could run in this mode, with or without approval.
    pub fn may_run(&self, definition: &ToolDefinition, mode: Mode) -> bool {
        self.conjuncts().all(|policy| EffectivePolicy::new(policy, definition).may_run_in(mode))
    }

    /// Returns true if `tools.yaml` lists commands that the tool may or may not start.
    pub fn lists_commands(&self, tool: &ToolName) -> bool {
        let mut entries = self.conjuncts().flat_map(|policy| policy.files().tools.tools.iter());
        entries.any(|(key, entry)| {
            let lists = entry.allowed_commands.is_some() || entry.forbidden_commands.is_some();
            lists && key.eq_ignore_ascii_case(tool.as_str())
        })
    }

    /// Returns the largest content that a call of this tool may write, with its rule; `None` if the tool takes
    /// no content or has no limit.
    pub fn max_content_bytes(&self, definition: &ToolDefinition) -> Option<(u64, &RuleRef)> {
        definition.input_schema().pointer("/properties/content")?;
        let rules = self.conjuncts().filter_map(|policy| policy.tools.get(definition.name()));
        let limits = rules.filter_map(|rules| rules.max_file_bytes.as_ref());
        limits.map(|(most, rule)| (*most, rule)).min_by_key(|(most, _)| *most)
    }

    /// Returns true if calls of this tool are outbound.
    pub fn is_outbound(&self, definition: &ToolDefinition) -> bool {
        self.conjuncts().any(|policy| EffectivePolicy::new(policy, definition).is_outbound())
    }

    /// Returns the remaining calls of the limits that apply to all tools in this mode.
    pub fn remaining_calls(&self, mode: Mode, counts: RateCounts) -> Map<String, Value> {
        let limits = self.conjuncts().filter_map(|policy| policy.safety.calls_per_minute.get(mode).clone());
        let mode_per_minute = limits.min_by_key(|(most, _)| *most);
        RateRules { tool_per_hour: None, mode_per_minute, outbound_per_hour: None }.remaining(counts)
    }

    /// Returns the denial of a service from the settings that calls of this tool would send requests to.
    pub fn service_denial(&self, definition: &ToolDefinition, url: &str) -> Option<Box<Refusal>> {
        let target = NetworkTarget::from_url(url);
        let denial =
            |policy| EffectivePolicy::new(policy, definition).outbound().check_service(&target).err();
        self.conjuncts().find_map(denial).map(|reason| reason.into_refusal(definition.name().as_str()))
    }

    /// Returns the secret patterns, for the components that filter arguments, results and ledger records.
    pub fn secrets(&self) -> impl Iterator<Item = SecretRule> {
        self.conjuncts().flat_map(Policy::own_secrets)
    }

    fn own_secrets(&self) -> impl Iterator<Item = SecretRule> {
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
        let cancels = |policy: &Policy| policy.modes.get(mode).running_calls == RunningCalls::Cancel;
        if self.conjuncts().any(cancels) { RunningCalls::Cancel } else { RunningCalls::Finish }
    }

    /// Returns true if processor, memory and disk are monitored in this mode.
    pub fn is_monitored(&self, mode: Mode) -> bool {
        self.conjuncts().any(|policy| policy.modes.get(mode).monitored)
    }

    /// Returns the risk level of a tool, by its definition and its category.
    pub fn risk_level(&self, definition: &ToolDefinition) -> RiskLevel {
        let own = EffectivePolicy::new(self, definition);
        own.stricter().map_or(own.risk, |stricter| stricter.risk.max(own.risk))
    }

    /// Returns the rate limits of a tool and of this mode.
    pub fn rate_limits(&self, definition: &ToolDefinition, mode: Mode) -> RateLimits {
        let own = EffectivePolicy::new(self, definition);
        let rates = own.rates(mode);
        match own.stricter() {
            Some(stricter) => rates.intersection(stricter.rates(mode)).limits(),
            None => rates.limits(),
        }
    }
}
