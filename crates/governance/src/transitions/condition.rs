//! Comparison of a measurement with a threshold.

use std::time::Duration;

use crate::files::{Metric, Operator};

/// Checked condition of a transition rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TransitionCondition {
    pub(crate) metric: Metric,
    pub(crate) operator: Operator,
    pub(crate) value: f64,
    /// Time for which it must hold without interruption.
    pub(crate) duration: Duration,
    /// Window of a counted metric; `None` for a measured one.
    pub(crate) window: Option<Duration>,
}

impl TransitionCondition {
    /// Returns true if the measurement meets the condition. An unknown measurement never does.
    pub(crate) fn is_met(&self, measured: Option<f64>) -> bool {
        measured.is_some_and(|measured| self.operator.matches(measured, self.value))
    }

    /// Returns true if the condition can become true by the passage of time alone: it must hold for a
    /// duration, or it counts events that leave the window.
    pub(crate) fn can_fire_by_time(&self) -> bool {
        let waits_for_few = matches!(self.operator, Operator::Below | Operator::AtMost | Operator::Equal);
        !self.duration.is_zero() || (self.metric.is_counted() && waits_for_few)
    }
}

impl std::fmt::Display for TransitionCondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.metric.as_str(), self.operator.as_str(), self.value)?;
        if !self.duration.is_zero() {
            write!(f, " for {} s", self.duration.as_secs_f64())?;
        }
        match self.window {
            Some(window) => write!(f, " in {} s", window.as_secs_f64()),
            None => Ok(()),
        }
    }
}

impl Operator {
    /// Returns the operator as written in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Operator::Above => ">",
            Operator::AtLeast => ">=",
            Operator::Below => "<",
            Operator::AtMost => "<=",
            Operator::Equal => "==",
        }
    }

    fn matches(self, measured: f64, value: f64) -> bool {
        match self {
            Operator::Above => measured > value,
            Operator::AtLeast => measured >= value,
            Operator::Below => measured < value,
            Operator::AtMost => measured <= value,
            Operator::Equal => (measured - value).abs() < f64::EPSILON,
        }
    }
}
