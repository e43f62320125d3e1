//! Rate limits: calls of a tool per hour, calls of all tools per minute, outbound calls per hour.

use serde_json::{Map, Value};
use tool::{RefusalCode, RuleRef};

use crate::denial_reason::{DenialReason, rule_location};
use crate::rule_trace::TraceRecorder;
use crate::situation::RateCounts;

/// Rate limits of one tool; `None` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// Calls of the tool per hour.
    pub tool_per_hour: Option<u32>,
    /// Calls of all tools per minute.
    pub mode_per_minute: Option<u32>,
    /// Outbound calls of all tools per hour, if this tool is outbound.
    pub outbound_per_hour: Option<u32>,
}

/// Rate limits of one call, each with its rule. `None` means no limit; 0 denies every call.
#[derive(Clone, Debug)]
pub(crate) struct RateRules {
    pub(crate) tool_per_hour: Option<(u32, RuleRef)>,
    pub(crate) mode_per_minute: Option<(u32, RuleRef)>,
    /// Set for an outbound call only.
    pub(crate) outbound_per_hour: Option<(u32, RuleRef)>,
}

impl RateRules {
    /// Denies the call if one more would exceed a limit.
    pub(crate) fn check(
        &self,
        counts: RateCounts,
        notes: &mut TraceRecorder<'_>,
    ) -> Result<(), DenialReason> {
        check_limit(&self.tool_per_hour, counts.tool_last_hour, "tool_per_hour", "hour", notes)?;
        check_limit(&self.mode_per_minute, counts.all_last_minute, "mode_per_minute", "minute", notes)?;
        check_limit(&self.outbound_per_hour, counts.outbound_last_hour, "outbound_per_hour", "hour", notes)
    }

    /// Returns the limits without their rules.
    pub(crate) fn limits(&self) -> RateLimits {
        let number = |limit: &Option<(u32, RuleRef)>| limit.as_ref().map(|(most, _)| *most);
        RateLimits {
            tool_per_hour: number(&self.tool_per_hour),
            mode_per_minute: number(&self.mode_per_minute),
            outbound_per_hour: number(&self.outbound_per_hour),
        }
    }

    /// Returns the remaining calls of each limit, by its name in a result.
    pub(crate) fn remaining(&self, counts: RateCounts) -> Map<String, Value> {
        let left = |name: &str, limit: &Option<(u32, RuleRef)>, count: u32| {
            let left = limit.as_ref().map(|(limit, _)| limit.saturating_sub(count))?;
            Some((name.to_owned(), Value::from(left)))
        };
        let all = [
            left("tool_per_hour", &self.tool_per_hour, counts.tool_last_hour),
            left("mode_per_minute", &self.mode_per_minute, counts.all_last_minute),
            left("outbound_per_hour", &self.outbound_per_hour, counts.outbound_last_hour),
        ];
        all.into_iter().flatten().collect()
    }
}

fn check_limit(
    limit: &Option<(u32, RuleRef)>,
    count: u32,
    detail: &str,
    window: &str,
    notes: &mut TraceRecorder<'_>,
) -> Result<(), DenialReason> {
    let Some((limit, rule)) = limit else { return Ok(()) };
    let value = || format!("{count} calls in the last {window}");
    if count < *limit {
        notes.record_passed(rule.clone(), || limit.to_string(), value);
        return Ok(());
    }
    notes.set_value(value);
    let hint = match limit {
        0 => format!("{} is 0, which denies every call", rule_location(rule)),
        _ if count == RateCounts::UNKNOWN => format!(
            "records are missing, so the calls of the last {window} are unknown and {} counts as used up",
            rule_location(rule)
        ),
        _ => format!(
            "{count} calls ran in the last {window} and {} allows {limit}; try again later",
            rule_location(rule)
        ),
    };
    let denial_reason =
        DenialReason::new(RefusalCode::RateLimited, detail, "Rate limit exceeded", hint, rule);
    Err(if *limit == 0 { denial_reason.not_retryable() } else { denial_reason })
}
