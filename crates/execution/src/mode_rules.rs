//! Replay of the mode rules over recorded calls.

pub use crate::modes::{ConditionPeak, RuleReaction, RuleRehearsal, RuleResponse};
