//! Raw types of `modes.yaml`. `mode_rules` and `transitions` check the values.

use schemars::JsonSchema;
use serde::Deserialize;
use strict_yaml::{Located, LocatedMap};
use tool::Mode;

use crate::tools_file::Extends;

/// Operational modes and the rules that change between them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "modes.yaml")]
#[schemars(transform = strict_yaml::layered::allow_list_changes)]
pub struct ModesFile {
    /// Base of this file: the built-in file (the default), or none.
    #[serde(default)]
    pub extends: Option<Extends>,
    /// Modes by name. A mode that is not listed keeps its built-in rules.
    #[schemars(extend("propertyNames" = {"enum": Mode::ALL.map(Mode::as_str)}))]
    pub modes: LocatedMap<ModeEntry>,
    /// Rules that change the mode automatically, by `FROM_to_TO`. If the key is absent, the built-in rules
    /// apply; if it is present, only its rules apply.
    #[serde(default)]
    #[schemars(extend("propertyNames" = {"pattern": "^[A-Z]+_to_[A-Z]+$"}))]
    pub transition_rules: Option<LocatedMap<TransitionEntry>>,
}

/// One operational mode.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = strict_yaml::layered::allow_list_changes)]
pub struct ModeEntry {
    /// Description for people.
    #[serde(default)]
    pub description: String,
    /// Maximum number of concurrent tool calls; further calls wait. 0 denies every call; absent means no
    /// limit.
    #[serde(default)]
    #[schemars(with = "Option<u32>")]
    pub max_concurrent_tasks: Option<Located<u32>>,
    /// Enables monitoring of processor, memory and disk in this mode. Calls are counted in every mode.
    /// Default true.
    #[serde(default)]
    pub background_monitoring_enabled: Option<bool>,
    /// Tool categories that may run; empty means all.
    #[serde(default)]
    pub allowed_tool_categories: Vec<Located<String>>,
    /// Calls that require approval: `high_risk_tools`, `any_write_operation`, `network`, `all_actions`, a
    /// category or a tool.
    #[serde(default)]
    pub require_approval_for: Vec<Located<String>>,
    /// Handling of running and waiting calls on entering the mode.
    #[serde(default)]
    pub on_transition: OnTransition,
}

/// Handling of calls when a mode is entered.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnTransition {
    /// Running calls that the new mode forbids. Default: `cancel` in LOCKDOWN, `finish` elsewhere.
    #[serde(default)]
    pub running: Option<RunningCalls>,
    /// Waiting calls.
    #[serde(default)]
    pub pending: PendingCalls,
}

/// Handling of running calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunningCalls {
    /// They run to completion.
    #[default]
    Finish,
    /// They are cancelled.
    Cancel,
}

/// Handling of waiting calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PendingCalls {
    /// They are judged again in the new mode.
    #[default]
    Rejudge,
}

/// One rule that changes the mode.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransitionEntry {
    /// Combination of the conditions: one is enough, or all are required.
    #[serde(default)]
    pub logic: Logic,
    /// Conditions for the change. An empty list never fires.
    pub conditions: Vec<Located<ConditionEntry>>,
    /// Requires human approval: the change is proposed, and `sinew mode set` confirms it.
    #[serde(default)]
    pub requires_human_approval: bool,
}

/// Combination of conditions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Logic {
    /// One condition is enough.
    #[default]
    Any,
    /// All conditions are required.
    All,
}

/// Comparison of a metric with a value.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConditionEntry {
    /// Metric to measure.
    pub metric: Metric,
    /// Comparison operator.
    pub operator: Operator,
    /// Threshold.
    pub value: f64,
    /// Time in seconds for which the condition must hold without interruption.
    #[serde(default)]
    pub duration_seconds: Option<u64>,
    /// Window in seconds of a counted metric. Default 60.
    #[serde(default)]
    pub window_seconds: Option<u64>,
}

/// Metric that a condition can test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the variants are the words of the file
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
    LedgerPressure,
}

/// Comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[allow(missing_docs)] // the variants are the operators of the file
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
