//! Economics of the rules that ask: how often, how many are approved, and how long the operator takes.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::ledger_row::LedgerRow;

/// Time under which an answer cannot have been read carefully.
const HASTY_MS: i64 = 2000;

/// Requests of one rule and their results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RuleEconomics {
    /// Rule that asks.
    pub rule: String,
    /// Requests.
    pub asked: usize,
    /// Requests that the operator approved.
    pub approved: usize,
    /// Requests that the operator denied.
    pub denied: usize,
    /// Requests without a decision.
    pub expired: usize,
    /// Median time to a decision.
    pub median_ms: i64,
    /// Approvals in less than two seconds.
    pub hasty: usize,
}

/// Computes the economics from rows in the order of time, the rule that asks most first.
pub(crate) fn economics(rows: &[&LedgerRow]) -> Vec<RuleEconomics> {
    // Requests that are in these rows, by their id: rule and time.
    let mut requested: BTreeMap<&str, (String, i64)> = BTreeMap::new();
    let mut rules: BTreeMap<String, (RuleEconomics, Vec<i64>)> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.kind == "approval") {
        let Some(id) = row.approval_id.as_deref() else { continue };
        if row.word == "requested" {
            let rule = row.rule.clone().unwrap_or_else(|| row.tool.clone());
            rules.entry(rule.clone()).or_default().0.asked += 1;
            requested.insert(id, (rule, row.time_ms));
            continue;
        }
        let Some((rule, at)) = requested.get(id) else { continue };
        let Some((counts, times)) = rules.get_mut(rule) else { continue };
        let took = row.time_ms - at;
        match row.word.as_str() {
            "granted" => {
                counts.approved += 1;
                counts.hasty += usize::from(took < HASTY_MS);
                times.push(took);
            }
            "denied" => {
                counts.denied += 1;
                times.push(took);
            }
            "expired" => counts.expired += 1,
            _ => {}
        }
    }
    let named = |(rule, (counts, mut times)): (String, (RuleEconomics, Vec<i64>))| {
        times.sort_unstable();
        RuleEconomics { rule, median_ms: times.get(times.len() / 2).copied().unwrap_or_default(), ..counts }
    };
    let mut listed: Vec<RuleEconomics> = rules.into_iter().map(named).collect();
    listed.sort_by_key(|rule| std::cmp::Reverse(rule.asked));
    listed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn decisions_count_for_the_rule_that_asked() {
        let row = |second: u32, id: &str, event: &str, rule: &str| {
            let time = format!("2026-01-31T12:00:{second:02}Z");
            LedgerRow::from_record(&json!({"seq": second, "time": time, "kind": "approval", "id": id,
                "event": event, "data": {"rules": [rule]}}))
        };
        let rows = [
            row(1, "a", "requested", "one"),
            row(2, "a", "granted", ""),
            row(3, "a", "used", ""),
            row(4, "b", "requested", "one"),
            row(14, "b", "denied", ""),
            row(20, "c", "requested", "two"),
            row(30, "c", "expired", ""),
            row(40, "earlier", "granted", ""),
        ];
        let found = economics(&rows.iter().collect::<Vec<_>>());
        let one = RuleEconomics {
            rule: "one".to_owned(),
            asked: 2,
            approved: 1,
            denied: 1,
            expired: 0,
            median_ms: 10_000,
            hasty: 1,
        };
        let two = RuleEconomics { rule: "two".to_owned(), asked: 1, expired: 1, ..RuleEconomics::default() };
        assert_eq!(found, [one, two]);
    }
}
