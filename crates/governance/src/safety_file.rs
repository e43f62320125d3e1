//! Raw types of `safety.yaml`. `safety_rules` checks the values.

use schemars::JsonSchema;
use serde::Deserialize;
use strict_yaml::{Located, LocatedMap};
use tool::{Category, Mode, RiskLevel};

use crate::tools_file::Extends;

/// Sections whose absence would silently loosen the policy, and how to state that it is intended.
pub(crate) const REQUIRED_SECTIONS: [(&str, &str); 3] = [
    ("content_filtering", "`content_filtering: {secret_patterns: []}` disables the search for secrets"),
    ("rate_limits", "`rate_limits: {}` sets no limit in any mode"),
    ("human_approval", "`human_approval: {rules: []}` requires no approval by risk or category"),
];

/// Limits and safeguards that apply to all tools.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "safety.yaml")]
#[schemars(transform = strict_yaml::layered::allow_list_changes)]
pub struct SafetyFile {
    /// Base of this file: the built-in file (the default), or none.
    #[serde(default)]
    pub extends: Option<Extends>,
    /// Content filters. The patterns are checked here and applied by the redactor.
    #[serde(default)]
    pub content_filtering: ContentFiltering,
    /// Outbound gateway, which every outbound call uses. Without this section no outbound call is allowed.
    #[serde(default)]
    pub outbound_gateway: OutboundGateway,
    /// Rate limits by mode.
    #[serde(default)]
    #[schemars(extend("propertyNames" = {"enum": Mode::ALL.map(Mode::as_str)}))]
    pub rate_limits: LocatedMap<RateEntry>,
    /// Calls that require approval, and the approval timeout.
    #[serde(default)]
    pub human_approval: HumanApproval,
    /// Default budgets of worker sessions.
    #[serde(default)]
    pub sessions: SessionsEntry,
}

/// Content filters.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = strict_yaml::layered::allow_list_changes)]
pub struct ContentFiltering {
    /// Patterns of secrets.
    #[serde(default)]
    pub secret_patterns: Vec<SecretEntry>,
}

/// Pattern of one kind of secret.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretEntry {
    /// Name of the secret in the ledger.
    pub name: String,
    /// Regular expression that finds it.
    #[schemars(with = "String")]
    pub pattern: Located<String>,
    /// Action when it is found.
    pub action: SecretAction,
}

/// Action when a secret is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecretAction {
    /// The call is refused.
    Block,
    /// The secret is redacted.
    Redact,
    /// The secret is reported.
    Warn,
}

/// Outbound gateway.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = strict_yaml::layered::allow_list_changes)]
pub struct OutboundGateway {
    /// Allowed hosts: `example.org`, `*.example.org` for all its subdomains, or `*`. An empty list allows
    /// none.
    #[serde(default)]
    pub allowed_domains: Vec<Located<String>>,
    /// Blocked hosts, including their subdomains.
    #[serde(default)]
    pub blocked_domains: Vec<Located<String>>,
    /// Allows private addresses (local network). Link-local addresses and other addresses of cloud metadata
    /// services are never allowed.
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    pub allow_private_addresses: Option<Located<bool>>,
    /// Requires approval for a host that was never reached before. Hosts are not remembered yet, so every
    /// host is new.
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    pub require_approval_for_new_domains: Option<Located<bool>>,
    /// Maximum size of a response, in units of 1,024 bytes.
    #[serde(default)]
    pub max_response_kb: Option<u64>,
}

/// Rate limits of one mode. 0 allows no call; absent means no limit.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateEntry {
    /// Executed tool calls in the last minute.
    #[serde(default)]
    #[schemars(with = "Option<u32>")]
    pub tool_calls_per_minute: Option<Located<u32>>,
    /// Outbound calls in the last hour. 0 allows none.
    #[serde(default)]
    #[schemars(with = "Option<u32>")]
    pub outbound_calls_per_hour: Option<Located<u32>>,
}

/// Approval settings.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = strict_yaml::layered::allow_list_changes)]
pub struct HumanApproval {
    /// Time in seconds after which an unanswered approval request is denied. Default 300.
    #[serde(default)]
    #[schemars(with = "Option<u64>", range(min = 1, max = 86400))]
    pub timeout_seconds: Option<Located<u64>>,
    /// Calls that require approval, by risk or category and mode.
    #[serde(default)]
    pub rules: Vec<Located<ApprovalEntry>>,
}

/// Calls that require approval.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalEntry {
    /// Risk level of the tools.
    #[serde(default)]
    pub risk_level: Option<RiskLevel>,
    /// Category of the tools.
    #[serde(default)]
    #[schemars(with = "Option<Category>")]
    pub category: Option<Located<String>>,
    /// Modes in which the rule applies.
    #[schemars(with = "Vec<Mode>")]
    pub modes: Vec<Located<String>>,
}

/// Budgets of worker sessions.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionsEntry {
    /// Maximum number of calls of a worker in a turn.
    #[serde(default)]
    pub hop_budget: Option<u32>,
    /// Cost cap of a turn.
    #[serde(default)]
    pub cost_cap: CostCap,
}

/// Cost cap of a turn.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CostCap {
    /// Action when the cap is exceeded.
    #[serde(default)]
    pub mode: CostMode,
    /// Amount of the cap; 0 or less means no cap.
    #[serde(default)]
    pub amount: f64,
}

/// Action when a cost cap is exceeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CostMode {
    /// It is reported.
    #[default]
    Warn,
    /// The next call is refused.
    Enforce,
    /// No action.
    Off,
}
