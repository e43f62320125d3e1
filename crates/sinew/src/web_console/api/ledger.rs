//! Ledger: filtered pages of rows, the page of one call, and undo.

use console_view::{CallPage, LedgerRow, visible_json};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::calls::CallIdParams;
use super::{Api, ApiError, ApiResult, required_pin};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LedgerPageParams {
    /// Filter in the words of `control/ledger.query`.
    #[serde(default)]
    filter: Map<String, Value>,
    before_seq: Option<u64>,
    limit: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UndoParams {
    call_id: String,
    #[serde(default)]
    pin: String,
}

/// Fields of a filter. A page sends no other parameter to the daemon through it.
const FILTER_FIELDS: [&str; 9] =
    ["kind", "tool", "outcome", "mode", "caller", "session", "trace", "since", "until"];

impl Api {
    /// A page of rows, newest first, with the number of all records for the scroll bar.
    pub(super) async fn ledger(&self, wanted: LedgerPageParams) -> ApiResult {
        let mut params = wanted.filter;
        if let Some(unknown) = params.keys().find(|key| !FILTER_FIELDS.contains(&key.as_str())) {
            return Err(ApiError::invalid(format!("`{unknown}` is no filter")));
        }
        params.retain(|_, value| value.as_str() != Some(""));
        params.insert("limit".to_owned(), json!(wanted.limit.clamp(1, 1000)));
        if let Some(before) = wanted.before_seq {
            params.insert("before_seq".to_owned(), json!(before));
        }
        let reply = &self.link.request("control/ledger.query", Value::Object(params)).await?;
        let records = reply["records"].as_array().map(Vec::as_slice).unwrap_or_default();
        let rows: Vec<LedgerRow> = records.iter().rev().map(LedgerRow::from_record).collect();
        let head = self.feed.with_rows(|recent| recent.head());
        Ok(json!({"rows": rows, "next_before_seq": reply["next_before_seq"], "head": head}))
    }

    /// All records of a call.
    pub(super) async fn recorded_call(&self, wanted: CallIdParams) -> ApiResult {
        let params = json!({"call_id": wanted.call_id, "limit": 1000});
        let reply = &self.link.request("control/ledger.query", params).await?;
        let records = reply["records"].as_array().map(Vec::as_slice).unwrap_or_default();
        let page = CallPage::new(records)
            .ok_or_else(|| ApiError::new("not_found", "the ledger has no record of this call"))?;
        Ok(json!(page))
    }

    pub(super) async fn preview_undo(&self, wanted: CallIdParams) -> ApiResult {
        let params = json!({"call_id": wanted.call_id, "dry_run": true});
        Ok(visible_json(&self.link.request("control/undo", params).await?))
    }

    pub(super) async fn undo(&self, wanted: UndoParams) -> ApiResult {
        let params = json!({"call_id": wanted.call_id, "pin": required_pin(&wanted.pin)?});
        Ok(visible_json(&self.link.request("control/undo", params).await?))
    }
}
