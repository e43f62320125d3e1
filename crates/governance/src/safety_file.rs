//! `safety.yaml` as it is written. What its words mean is checked in `safety_rules`.

use document::{Located, Table};
use schemars::JsonSchema;
use serde::Deserialize;
use tool::{Category, Mode, RiskLevel};

/// The sections whose absence would loosen something in silence, and how to write that it is meant.
pub(crate) const REQUIRED: [(&str, &str); 3] = [
    ("content_filtering", "`content_filtering: {secret_patterns: []}` says that no secret is looked for"),
    ("rate_limits", "`rate_limits: {}` says that no mode has a limit"),
    ("human_approval", "`human_approval: {rules: []}` says that nobody is asked by risk or category"),
];

/// Limits and safeguards that hold across tools.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "safety.yaml", extend("required" = REQUIRED.map(|(section, _)| section)))]
pub struct SafetyFile {
    /// What must not pass through. The patterns are checked and handed to whoever redacts.
    #[serde(default)]
    pub content_filtering: ContentFiltering,
    /// The way out of the machine, for every tool that takes it. Without it none does.
    #[serde(default)]
    pub outbound_gateway: OutboundGateway,
    /// How much may be done, by mode.
    #[serde(default)]
    #[schemars(extend("propertyNames" = {"enum": Mode::ALL.map(Mode::as_str)}))]
    pub rate_limits: Table<RateEntry>,
    /// When a human is asked, and how long is waited.
    #[serde(default)]
    pub human_approval: HumanApproval,
    /// The budgets of worker sessions, where whoever opens one does not say otherwise.
    #[serde(default)]
    pub sessions: Sessions,
}

/// What must not pass through.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContentFiltering {
    /// Secrets, by what they look like.
    #[serde(default)]
    pub secret_patterns: Vec<SecretEntry>,
}

/// One kind of secret.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretEntry {
    /// What it is called in records.
    pub name: String,
    /// A regular expression that finds it.
    #[schemars(with = "String")]
    pub pattern: Located<String>,
    /// What is done about it.
    pub action: SecretAction,
}

/// What is done about a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecretAction {
    /// The call is refused.
    Block,
    /// It is cut out.
    Redact,
    /// It is reported.
    Warn,
}

/// The way out of the machine.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutboundGateway {
    /// Hosts that may be reached: `example.org`, `*.example.org` for all below it, or `*`. None if the list is empty.
    #[serde(default)]
    pub allowed_domains: Vec<Located<String>>,
    /// Hosts that never are, with all below them.
    #[serde(default)]
    pub blocked_domains: Vec<Located<String>>,
    /// Whether addresses of the local network may be reached. Link-local ones, and others at which clouds hand out a
    /// machine's credentials, never are.
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    pub allow_private_addresses: Option<Located<bool>>,
    /// Whether a human is asked about a host that was never reached before. No hosts are remembered yet, so that each
    /// is new.
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    pub require_approval_for_new_domains: Option<Located<bool>>,
    /// The most that is read, in units of 1,024 bytes.
    #[serde(default)]
    pub max_response_kb: Option<u64>,
}

/// The rates of one mode. 0 means none; absent means no limit.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateEntry {
    /// Tool calls that ran in the last minute.
    #[serde(default)]
    #[schemars(with = "Option<u32>")]
    pub tool_calls_per_minute: Option<Located<u32>>,
    /// Calls that left the machine in the last hour. 0 lets none leave.
    #[serde(default)]
    #[schemars(with = "Option<u32>")]
    pub outbound_calls_per_hour: Option<Located<u32>>,
}

/// When a human is asked.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HumanApproval {
    /// How long an answer is waited for; then the call is denied. Default 300.
    #[serde(default)]
    #[schemars(with = "Option<u64>", range(min = 1, max = 86400))]
    pub timeout_seconds: Option<Located<u64>>,
    /// By risk or category, in which modes.
    #[serde(default)]
    pub rules: Vec<Located<ApprovalEntry>>,
}

/// Calls a human is asked about.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalEntry {
    /// Tools of this risk.
    #[serde(default)]
    pub risk_level: Option<RiskLevel>,
    /// Tools of this category.
    #[serde(default)]
    #[schemars(with = "Option<Category>")]
    pub category: Option<Located<String>>,
    /// In these modes.
    #[schemars(with = "Vec<Mode>")]
    pub modes: Vec<Located<String>>,
}

/// The budgets of worker sessions.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sessions {
    /// Calls a worker may make in a turn.
    #[serde(default)]
    pub hop_budget: Option<u32>,
    /// What a turn may cost.
    #[serde(default)]
    pub cost_cap: CostCap,
}

/// What a turn may cost.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CostCap {
    /// What happens past the cap.
    #[serde(default)]
    pub mode: CostMode,
    /// The cap; 0 or less means none.
    #[serde(default)]
    pub amount: f64,
}

/// What happens past a cost cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CostMode {
    /// It is reported.
    #[default]
    Warn,
    /// The next call is refused.
    Enforce,
    /// Nothing.
    Off,
}
