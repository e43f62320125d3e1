//! How often a call may run: so many of the tool in an hour, so many of all tools in a minute.

use serde_json::{Map, Value};
use tool::{RefusalCode, RuleRef};

use crate::grounds::{Grounds, place};
use crate::situation::Counts;
use crate::trail::Notes;

/// The limits that hold for one call. Absent means none; 0 means never.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    pub(crate) tool_per_hour: Option<(u32, RuleRef)>,
    pub(crate) mode_per_minute: Option<(u32, RuleRef)>,
}

impl Rates {
    /// Whether one more call fits.
    pub(crate) fn check(&self, counts: Counts, notes: &mut Notes<'_>) -> Result<(), Grounds> {
        one(&self.tool_per_hour, counts.tool_last_hour, "tool_per_hour", "hour", notes)?;
        one(&self.mode_per_minute, counts.all_last_minute, "mode_per_minute", "minute", notes)
    }

    /// What is left of each, by its name in a result.
    pub(crate) fn remaining(&self, counts: Counts) -> Map<String, Value> {
        let left = |limit: &Option<(u32, RuleRef)>, count: u32| {
            limit.as_ref().map(|(limit, _)| Value::from(limit.saturating_sub(count)))
        };
        let tool = left(&self.tool_per_hour, counts.tool_last_hour).map(|n| ("tool_per_hour".to_owned(), n));
        let mode =
            left(&self.mode_per_minute, counts.all_last_minute).map(|n| ("mode_per_minute".to_owned(), n));
        tool.into_iter().chain(mode).collect()
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
        0 => format!("{} is 0, which lets nothing run", place(rule)),
        _ => format!(
            "{count} calls ran in the last {window} and {} allows {limit}; try again later",
            place(rule)
        ),
    };
    let grounds = Grounds::new(RefusalCode::RateLimited, detail, "Rate limit exceeded", hint, rule);
    Err(if *limit == 0 { grounds.for_good() } else { grounds })
}
