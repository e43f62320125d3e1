//! Rate limits: calls of a tool per hour, calls of all tools per minute, outbound calls per hour.

use serde_json::{Map, Value};
use tool::{RefusalCode, RuleRef};

use crate::grounds::{Grounds, place};
use crate::situation::Counts;
use crate::trail::Notes;

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
pub(crate) struct Rates {
    pub(crate) tool_per_hour: Option<(u32, RuleRef)>,
    pub(crate) mode_per_minute: Option<(u32, RuleRef)>,
    /// Set for an outbound call only.
    pub(crate) outbound_per_hour: Option<(u32, RuleRef)>,
}

impl Rates {
    /// Denies the call if one more would exceed a limit.
    pub(crate) fn check(&self, counts: Counts, notes: &mut Notes<'_>) -> Result<(), Grounds> {
        one(&self.tool_per_hour, counts.tool_last_hour, "tool_per_hour", "hour", notes)?;
        one(&self.mode_per_minute, counts.all_last_minute, "mode_per_minute", "minute", notes)?;
        one(&self.outbound_per_hour, counts.outbound_last_hour, "outbound_per_hour", "hour", notes)
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
    pub(crate) fn remaining(&self, counts: Counts) -> Map<String, Value> {
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

fn one(
    limit: &Option<(u32, RuleRef)>,
    count: u32,
    detail: &str,
    window: &str,
    notes: &mut Notes<'_>,
) -> Result<(), Grounds> {
    let Some((limit, rule)) = limit else { return Ok(()) };
    let asked = || format!("{count} calls in the last {window}");
    if count < *limit {
        notes.passes(rule.clone(), || limit.to_string(), asked);
        return Ok(());
    }
    notes.asks(asked);
    let hint = match limit {
        0 => format!("{} is 0, which denies every call", place(rule)),
        _ if count == Counts::UNKNOWN => format!(
            "records are missing, so the calls of the last {window} are unknown and {} counts as used up",
            place(rule)
        ),
        _ => format!(
            "{count} calls ran in the last {window} and {} allows {limit}; try again later",
            place(rule)
        ),
    };
    let grounds = Grounds::new(RefusalCode::RateLimited, detail, "Rate limit exceeded", hint, rule);
    Err(if *limit == 0 { grounds.for_good() } else { grounds })
}
