//! Result of a policy replay, grouped by the old and the new verdict.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::ledger_row::text;
use crate::visible_text::{visible, visible_json};

/// Groups the changes that `sinew policy replay --json` prints. What becomes possible comes first.
pub fn replay_groups(replay: &Value) -> Value {
    let changed = replay["changed"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut groups: BTreeMap<(u8, String, String), Vec<&Value>> = BTreeMap::new();
    for change in changed {
        let (was, becomes) = (text(change, "was"), text(change, "becomes"));
        let order = match (rank(was), rank(becomes)) {
            (was, becomes) if was > becomes => 0,
            _ => 1,
        };
        groups.entry((order, was.to_owned(), becomes.to_owned())).or_default().push(change);
    }
    let group = |((order, was, becomes), changes): ((u8, String, String), Vec<&Value>)| {
        let calls: u64 = changes.iter().filter_map(|change| change["calls"].as_u64()).sum();
        let tools: Vec<Value> = changes
            .iter()
            .map(|change| {
                json!({"tool": visible(text(change, "tool")), "calls": change["calls"],
                    "samples": visible_json(&change["samples"])})
            })
            .collect();
        json!({"was": was, "becomes": becomes, "loosens": order == 0, "calls": calls, "tools": tools})
    };
    let groups: Vec<Value> = groups.into_iter().map(group).collect();
    json!({"groups": groups, "same": replay["same"], "not_judged": replay["not_judged"],
        "differences": visible_json(&replay["differences"])})
}

/// Returns the rank of a verdict; a higher one permits less.
fn rank(verdict: &str) -> u8 {
    match verdict {
        "allow" | "permit" => 0,
        "ask" => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_grouped_and_what_loosens_is_first() {
        let change = |tool: &str, was: &str, becomes: &str, calls: u64| json!({"tool": tool, "was": was, "becomes": becomes, "calls": calls, "samples": []});
        let found = replay_groups(&json!({"same": 5, "not_judged": 0, "changed": [
            change("a", "allow", "deny", 2), change("b", "ask", "allow", 1), change("c", "allow", "deny", 3)]}));
        let shown: Vec<(&str, &str, u64, bool)> = found["groups"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| {
                (text(it, "was"), text(it, "becomes"), it["calls"].as_u64().unwrap(), it["loosens"] == true)
            })
            .collect();
        assert_eq!(shown, [("ask", "allow", 1, true), ("allow", "deny", 5, false)]);
        assert_eq!(found["groups"][1]["tools"].as_array().unwrap().len(), 2);
    }
}
