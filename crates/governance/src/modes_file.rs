//! `modes.yaml` as it is written. What its words mean is checked in `mode_rules`.

use document::{Located, Table};
use schemars::JsonSchema;
use serde::Deserialize;
use tool::Mode;

/// The operational modes and the rules that move between them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "modes.yaml")]
pub struct ModesFile {
    /// The modes, by name. One that is not listed keeps its built-in rules.
    #[schemars(extend("propertyNames" = {"enum": Mode::ALL.map(Mode::as_str)}))]
    pub modes: Table<ModeEntry>,
    /// When the mode changes by itself, by `FROM_to_TO`. Where the key is absent the built-in rules hold; where it is
    /// there, its rules are all there are.
    #[serde(default)]
    #[schemars(extend("propertyNames" = {"pattern": "^[A-Z]+_to_[A-Z]+$"}))]
    pub transition_rules: Option<Table<TransitionEntry>>,
}

/// One mode.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModeEntry {
    /// For people.
    #[serde(default)]
    pub description: String,
    /// Running tool calls; further ones wait. 0 lets nothing run; absent means no limit.
    #[serde(default)]
    #[schemars(with = "Option<u32>")]
    pub max_concurrent_tasks: Option<Located<u32>>,
    /// Whether processor, memory and disk are watched in this mode. Calls are counted in every mode. Default true.
    #[serde(default)]
    pub background_monitoring_enabled: Option<bool>,
    /// The only categories whose tools run; empty means all.
    #[serde(default)]
    pub allowed_tool_categories: Vec<Located<String>>,
    /// What a human is asked about: `high_risk_tools`, `any_write_operation`, `network`, `all_actions`, a category or
    /// a tool.
    #[serde(default)]
    pub require_approval_for: Vec<Located<String>>,
    /// What happens to calls on entering the mode.
    #[serde(default)]
    pub on_transition: OnTransition,
}

/// What happens to calls when a mode is entered.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnTransition {
    /// To those that run and that the new mode forbids. Default: `cancel` in LOCKDOWN, `finish` elsewhere.
    #[serde(default)]
    pub running: Option<RunningCalls>,
    /// To those that wait.
    #[serde(default)]
    pub pending: PendingCalls,
}

/// What happens to running calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunningCalls {
    /// They come to their end.
    #[default]
    Finish,
    /// They are ended.
    Cancel,
}

/// What happens to waiting calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PendingCalls {
    /// They are judged by the new mode.
    #[default]
    Rejudge,
}

/// One rule that changes the mode.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransitionEntry {
    /// Whether one condition is enough.
    #[serde(default)]
    pub logic: Logic,
    /// What must hold. An empty list never does.
    pub conditions: Vec<Located<Condition>>,
    /// Whether a human confirms the change: it is then proposed, and `sinew mode set` confirms it.
    #[serde(default)]
    pub requires_human_approval: bool,
}

/// How conditions combine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Logic {
    /// One is enough.
    #[default]
    Any,
    /// Every one.
    All,
}

/// One comparison of a metric with a value.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// What is measured.
    pub metric: Metric,
    /// How it is compared.
    pub operator: Operator,
    /// With what.
    pub value: f64,
    /// How long it must hold without a gap.
    #[serde(default)]
    pub duration_seconds: Option<u64>,
    /// How far back a counter counts. Default 60.
    #[serde(default)]
    pub window_seconds: Option<u64>,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the words are the file's
pub enum Metric {
    CpuLoadPercent,
    MemoryUsedPercent,
    MemoryPressure,
    DiskUsedPercent,
    ToolErrorRate,
    PolicyViolations,
    HighRiskCalls,
    RefusedHighRiskCalls,
    RepeatedValidationFailures,
    ResourceExhaustion,
}

/// How a metric is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[allow(missing_docs)] // the words are the file's
pub enum Operator {
    #[serde(rename = ">")]
    Above,
    #[serde(rename = ">=")]
    AtLeast,
    #[serde(rename = "<")]
    Below,
    #[serde(rename = "<=")]
    AtMost,
    #[serde(rename = "==")]
    Equal,
}
