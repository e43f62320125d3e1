//! Inbox: approval requests, and the decisions on them.

use console_view::{InboxItem, RequestPage, inbox_items};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Api, ApiError, ApiResult, required_pin, without_nulls};

/// Calls of the same caller beside a request.
const HISTORY_ROWS: usize = 12;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestIdParams {
    id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DenyParams {
    id: String,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApproveParams {
    id: String,
    #[serde(default)]
    pin: String,
    for_seconds: Option<u64>,
    #[serde(default)]
    for_session: bool,
    #[serde(default)]
    patterns: Vec<String>,
    /// The rule as the page displayed it.
    rule: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EditParams {
    id: String,
    #[serde(default)]
    pin: String,
    /// Arguments as JSON text, as the editor of the page has them.
    arguments: String,
}

impl Api {
    async fn inbox_items(&self) -> Result<(Vec<InboxItem>, bool), ApiError> {
        let reply = &self.link.request("control/approvals.list", json!({})).await?;
        Ok((inbox_items(reply), reply["pin"].as_bool().unwrap_or_default()))
    }

    pub(super) async fn inbox(&self) -> ApiResult {
        let (items, pin) = self.inbox_items().await?;
        let grants = &self.link.request("control/grants.list", json!({})).await?;
        Ok(json!({"items": items, "pin": pin, "grants": console_view::visible_json(&grants["grants"])}))
    }

    /// The whole request, with other requests that are the same and the history of its caller.
    pub(super) async fn request(&self, wanted: RequestIdParams) -> ApiResult {
        let reply = &self.link.request("control/approvals.show", json!({"id": wanted.id})).await?;
        let (items, pin) = self.inbox_items().await?;
        let identical = items.into_iter().find(|item| item.id == wanted.id).map(|item| item.identical);
        let client = caller_name(reply["caller"].as_str().unwrap_or_default());
        let history = self.feed.with_rows(|rows| rows.of_caller(&client, HISTORY_ROWS));
        Ok(json!(RequestPage::new(reply, pin, identical.unwrap_or_default(), history)))
    }

    pub(super) async fn deny(&self, denial: DenyParams) -> ApiResult {
        let message = Some(denial.message).filter(|message| !message.trim().is_empty());
        let params = without_nulls(json!({"id": denial.id, "answer": "deny", "message": message}));
        Ok(self.link.request("control/approvals.decide", params).await?)
    }

    /// Approves a request. A grant is created only with the rule as it was displayed; without it, the reply has the
    /// lines to display.
    pub(super) async fn approve(&self, approval: ApproveParams) -> ApiResult {
        let params = without_nulls(json!({"id": approval.id, "answer": "approve",
            "pin": required_pin(&approval.pin)?, "for_seconds": approval.for_seconds,
            "for_session": approval.for_session.then_some(true),
            "patterns": Some(approval.patterns).filter(|patterns| !patterns.is_empty()), "rule": approval.rule}));
        Ok(self.link.request("control/approvals.decide", params).await?)
    }

    pub(super) async fn edit(&self, edit: EditParams) -> ApiResult {
        let pin = required_pin(&edit.pin)?;
        let arguments: Map<String, Value> = match tool::strict_json::parse(&edit.arguments) {
            Ok(Value::Object(arguments)) => arguments,
            Ok(_) => return Err(ApiError::invalid("the arguments must be a JSON object")),
            Err(error) => return Err(ApiError::invalid(format!("the arguments are not JSON: {error}"))),
        };
        let params = json!({"id": edit.id, "answer": "edit", "pin": pin, "arguments": arguments});
        Ok(self.link.request("control/approvals.decide", params).await?)
    }
}

/// Returns the name by which the rows of a caller are found, from its description in a request.
fn caller_name(description: &str) -> String {
    let uid =
        description.split_once("(uid ").map(|(_, rest)| rest.split([',', ')']).next().unwrap_or_default());
    match (description.split_once(" (uid "), uid) {
        (Some(("an unnamed client", _)), Some(uid)) => format!("uid {uid}"),
        (Some((name, _)), _) => name.trim_matches(['`', '"']).to_owned(),
        _ => description.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caller_of_a_request_is_found_in_the_ledger() {
        for (description, expect) in [
            ("an unnamed client (uid 1001, pid 7946)", "uid 1001"),
            ("claude-code (uid 1001, pid 7946)", "claude-code"),
            ("`my agent` (uid 1)", "my agent"),
            ("\"review-agent\" (uid 1002, pid 2944)", "review-agent"),
            ("odd", "odd"),
        ] {
            assert_eq!(caller_name(description), expect);
        }
    }
}
