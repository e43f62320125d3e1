//! Inbox: approval requests by deadline, and the page of one request with everything that a decision needs.

use serde::Serialize;
use serde_json::Value;

use crate::ledger_row::{LedgerRow, rule_text, text};
use crate::visible_text::{visible, visible_json};

/// Request in the list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InboxItem {
    /// Approval id.
    pub id: String,
    /// `pending`, or `approved` if the approval was not used yet.
    pub state: String,
    /// Seconds until the call is denied.
    pub seconds_left: u64,
    /// True if the caller waits.
    pub waiting: bool,
    /// Tool.
    pub tool: String,
    /// The call in one line.
    pub summary: String,
    /// Caller with its uid and pid.
    pub caller: String,
    /// Worker session.
    pub session: String,
    /// Risk level.
    pub risk: String,
    /// Mode in which it was requested.
    pub mode: String,
    /// Other pending requests of the same caller with the same tool and summary.
    pub identical: Vec<String>,
}

/// Page of one request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestPage {
    /// The request in the list.
    #[serde(flatten)]
    pub item: InboxItem,
    /// Effects of the call, each with a label and a text.
    pub effect: Value,
    /// Changes of files, each with its lines.
    pub changes: Value,
    /// Arguments that the changes do not show.
    pub arguments: Value,
    /// Arguments as JSON text, if they can be edited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub editable: Option<String>,
    /// Rules that require approval, as `file:line id`.
    pub asked_by: Vec<String>,
    /// Paths of the files of these rules.
    pub rule_files: Vec<String>,
    /// Number of redacted values.
    pub masked: u64,
    /// True if the operator changed the arguments.
    pub edited: bool,
    /// Call that asks.
    pub call_id: String,
    /// Time of the request.
    pub requested_at: String,
    /// Time at which the call is denied.
    pub expires_at: String,
    /// True if the request can be approved here: it is pending and a PIN is set.
    pub can_approve: bool,
    /// Reason why it cannot be approved here, or empty.
    pub no_approval_because: &'static str,
    /// Newest calls of the same caller.
    pub history: Vec<LedgerRow>,
}

/// Reads the reply to `control/approvals.list`: pending requests, the next deadline first.
pub fn inbox_items(reply: &Value) -> Vec<InboxItem> {
    let listed = reply["approvals"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut items: Vec<InboxItem> = listed.iter().map(item).filter(|item| item.state == "pending").collect();
    let keys: Vec<(String, [String; 3])> = items.iter().map(|it| (it.id.clone(), likeness(it))).collect();
    for item in &mut items {
        let own = likeness(item);
        let same = keys.iter().filter(|(id, key)| *key == own && *id != item.id);
        item.identical = same.map(|(id, _)| id.clone()).collect();
    }
    items.sort_by(|a, b| a.seconds_left.cmp(&b.seconds_left).then_with(|| a.id.cmp(&b.id)));
    items
}

/// Returns what two requests must share to be offered together. The operator still confirms each by its id, and the
/// daemon decides each by its own digest.
fn likeness(item: &InboxItem) -> [String; 3] {
    [item.tool.clone(), item.summary.clone(), item.caller.clone()]
}

fn item(request: &Value) -> InboxItem {
    let field = |key: &str| visible(text(request, key)).into_owned();
    InboxItem {
        id: field("id"),
        state: field("state"),
        seconds_left: request["seconds_left"].as_u64().unwrap_or_default(),
        waiting: request["waiting"].as_bool().unwrap_or_default(),
        tool: field("tool"),
        summary: field("summary"),
        caller: field("caller"),
        session: field("session"),
        risk: field("risk"),
        mode: field("mode"),
        identical: Vec::new(),
    }
}

impl RequestPage {
    /// Builds the page from the reply to `control/approvals.show`. `identical` are the requests that the list found
    /// to be the same, `history` the newest calls of the caller.
    pub fn new(
        reply: &Value,
        pin_is_set: bool,
        identical: Vec<String>,
        history: Vec<LedgerRow>,
    ) -> RequestPage {
        let rules = reply["asked_by"].as_array().map(Vec::as_slice).unwrap_or_default();
        let item = InboxItem { identical, ..item(reply) };
        let no_approval_because = match (item.state.as_str(), pin_is_set) {
            ("pending", true) => "",
            ("pending", false) => "the web console approves only with an operator PIN, and none is set",
            _ => "the request is decided already",
        };
        RequestPage {
            effect: visible_json(&reply["effect"]),
            changes: visible_json(&reply["changes"]),
            arguments: visible_json(&reply["arguments"]),
            editable: reply.get("editable").map(editable_text),
            asked_by: rules.iter().filter_map(rule_text).map(|rule| visible(&rule).into_owned()).collect(),
            rule_files: rules.iter().map(|rule| visible(text(rule, "file")).into_owned()).collect(),
            masked: reply["masked"].as_u64().unwrap_or_default(),
            edited: reply["edited"].as_bool().unwrap_or_default(),
            call_id: text(reply, "call_id").to_owned(),
            requested_at: text(reply, "requested_at").to_owned(),
            expires_at: text(reply, "expires_at").to_owned(),
            can_approve: no_approval_because.is_empty(),
            no_approval_because,
            history,
            item,
        }
    }
}

/// Returns the arguments as JSON text in which every invisible character is an escape, so that the text shows all of
/// them and still means the same.
fn editable_text(arguments: &Value) -> String {
    let json = serde_json::to_string_pretty(arguments).unwrap_or_default();
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || !tool::text::is_invisible(c) {
            shown.push(c);
        } else {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| shown.push_str(&format!("\\u{unit:04x}")));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn listed(id: &str, left: u64, summary: &str, caller: &str) -> Value {
        json!({"id": id, "state": "pending", "seconds_left": left, "tool": "t", "summary": summary, "caller": caller})
    }

    #[test]
    fn next_deadline_is_first_and_identical_requests_are_found() {
        let mut approved = listed("d", 1, "x", "me");
        approved["state"] = json!("approved");
        let reply = json!({"approvals": [listed("a", 9, "x", "me"), listed("b", 3, "x", "me"),
            listed("c", 5, "x", "you"), approved]});
        let found = inbox_items(&reply);
        let shown: Vec<(&str, usize)> = found.iter().map(|it| (it.id.as_str(), it.identical.len())).collect();
        assert_eq!(shown, [("b", 1), ("c", 0), ("a", 1)]);
    }

    #[test]
    fn request_without_a_pin_cannot_be_approved() {
        let reply = json!({"id": "a", "state": "pending", "asked_by": [{"file": "/c/tools.yaml", "line": 7, "id": "r"}],
            "effect": [{"label": "writes", "text": "a\u{202e}b"}], "editable": {"path": "a\u{202e}b"}});
        let page = RequestPage::new(&reply, false, vec![], vec![]);
        assert!(!page.can_approve && page.no_approval_because.contains("PIN"));
        assert_eq!(page.asked_by, ["tools.yaml:7 r"]);
        assert_eq!(page.effect[0]["text"], "a\\u{202e}b");
        let editable = page.editable.unwrap();
        assert!(editable.contains("a\\u202eb"), "{editable}");
        assert_eq!(serde_json::from_str::<Value>(&editable).unwrap(), reply["editable"]);
        assert!(RequestPage::new(&reply, true, vec![], vec![]).can_approve);
        let decided = json!({"state": "approved"});
        assert!(!RequestPage::new(&decided, true, vec![], vec![]).can_approve);
    }
}
