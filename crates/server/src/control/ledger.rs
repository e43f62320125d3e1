//! `control/ledger.…`: queries of the ledger. They read files, so they run on the blocking pool and cannot stall
//! other connections.

use std::sync::Arc;

use execution::ledger_queries::{ExportFormat, LedgerError, LedgerFilter, LedgerRecord};
use jiff::Timestamp;
use serde_json::{Value, json};
use tool::CallId;

use super::ControlContext;
use crate::connection_state::ConnectionState;
use crate::rpc::{self, ParameterValue, Params, RpcError};
use crate::service::{MethodCall, MethodReply, MethodResult};

/// Maximum number of records in one reply.
const MAX_RECORDS: u64 = 1000;
/// Number of records that `query` and `tail` return if the request names none.
const DEFAULT_QUERY: u64 = 100;
const DEFAULT_TAIL: u64 = 20;
/// Upper bound for the text of one page of an export, in bytes.
const MAX_PAGE_BYTES: usize = 1024 * 1024;

/// Returns the newest matching records, oldest first, one page per request.
pub(super) fn query(control: &ControlContext, _: &mut ConnectionState, call: MethodCall) -> MethodResult {
    let mut params = call.params;
    let filter = filter(&mut params)?;
    let limit = count(&mut params, "limit", DEFAULT_QUERY)?;
    params.finish()?;
    Ok(newest(control, filter, limit))
}

/// Returns the newest records, oldest first.
pub(super) fn tail(control: &ControlContext, _: &mut ConnectionState, call: MethodCall) -> MethodResult {
    let mut params = call.params;
    let count = count(&mut params, "count", DEFAULT_TAIL)?;
    params.finish()?;
    Ok(newest(control, LedgerFilter::default(), count))
}

/// Verifies the whole ledger and reports the position of every flaw.
pub(super) fn verify(control: &ControlContext, _: &mut ConnectionState, call: MethodCall) -> MethodResult {
    call.params.finish()?;
    let layer = Arc::clone(&control.layer);
    Ok(reply_from_ledger(move || {
        let report = layer.ledger_verify()?;
        let mut reply = json!(report);
        if let Some(fields) = reply.as_object_mut() {
            fields.insert("intact".to_owned(), json!(report.is_intact()));
        }
        Ok(reply)
    }))
}

/// Returns matching records as NDJSON or CSV, one page per request, oldest first.
pub(super) fn export(control: &ControlContext, _: &mut ConnectionState, call: MethodCall) -> MethodResult {
    let mut params = call.params;
    let filter = filter(&mut params)?;
    let format = match params.optional::<String>("format")?.as_deref() {
        None | Some("ndjson") => ExportFormat::Ndjson,
        Some("csv") => ExportFormat::Csv,
        Some(_) => return Err(RpcError::invalid_params("format", "`format` must be ndjson or csv")),
    };
    let limit: Option<u64> = params.optional("limit")?;
    params.finish()?;
    let limit = limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let filter = LedgerFilter { limit, ..filter };
    // The page is sent as a JSON string; escaping its quotes at worst doubles its size.
    let most = MAX_PAGE_BYTES.min(control.limits.max_line_bytes / 4);
    let layer = Arc::clone(&control.layer);
    Ok(reply_from_ledger(move || {
        let page = layer.ledger_export(&filter, format, most)?;
        Ok(json!({"text": page.text, "records": page.records, "next_after_seq": page.next_after_seq}))
    }))
}

/// Runs a query on the blocking pool and replies with its result.
fn reply_from_ledger(work: impl FnOnce() -> Result<Value, LedgerError> + Send + 'static) -> MethodReply {
    MethodReply::deferred(async move {
        match tokio::task::spawn_blocking(work).await {
            Ok(Ok(reply)) => rpc::encode_result(&reply),
            Ok(Err(error)) => Err(RpcError::server("ledger_unavailable", error.to_string())),
            Err(_) => Err(RpcError::internal()),
        }
    })
}

/// Replies with the newest `limit` matching records, as far as they fit into one message.
fn newest(control: &ControlContext, filter: LedgerFilter, limit: usize) -> MethodReply {
    let (layer, most) = (Arc::clone(&control.layer), control.limits.max_line_bytes / 2);
    reply_from_ledger(move || {
        // One record more than requested shows whether there is a next page.
        let mut found = layer.ledger_query(&LedgerFilter { limit: Some(limit + 1), ..filter })?;
        let more = found.len() > limit;
        found.truncate(limit);
        let (records, cut) = page(&found, most);
        let oldest = found.last().map(|record| record.seq).filter(|_| more);
        Ok(json!({"records": records, "next_before_seq": cut.or(oldest)}))
    })
}

/// Takes as many of the records in `found` (newest first) as fit into `most_bytes`. Returns them oldest
/// first, with the `before_seq` of the next page if some did not fit.
fn page(found: &[LedgerRecord], most_bytes: usize) -> (Vec<Value>, Option<u64>) {
    let mut bytes = 0;
    // The first record is included whatever its length: a client would request an empty page again without
    // end.
    let fits = |(n, record): &(usize, &LedgerRecord)| {
        bytes += record.line().len() + 1;
        *n == 0 || bytes <= most_bytes
    };
    let schema_checked = found.iter().enumerate().take_while(fits);
    let mut shown: Vec<&LedgerRecord> = schema_checked.map(|(_, record)| record).collect();
    let next = (shown.len() < found.len()).then(|| shown.last().map(|record| record.seq)).flatten();
    shown.reverse();
    (shown.into_iter().map(LedgerRecord::json).collect(), next)
}

/// Reads the filter; an absent field matches every record.
fn filter(params: &mut Params) -> Result<LedgerFilter, RpcError> {
    Ok(LedgerFilter {
        kind: params.optional("kind")?,
        tool: params.optional("tool")?,
        outcome: params.optional("outcome")?,
        mode: params.optional("mode")?,
        caller: params.optional("caller")?,
        session: params.optional("session")?,
        trace: params.optional("trace")?,
        call_id: params.optional("call_id")?,
        call_id_prefix: None,
        idempotency_key: params.optional("idempotency_key")?,
        since: params.optional("since")?,
        until: params.optional("until")?,
        before_seq: params.optional("before_seq")?,
        after_seq: params.optional("after_seq")?,
        limit: None,
    })
}

/// Reads the number of records requested.
fn count(params: &mut Params, field: &'static str, default: u64) -> Result<usize, RpcError> {
    let count = params.optional(field)?.unwrap_or(default);
    if !(1..=MAX_RECORDS).contains(&count) {
        let message = format!("`{field}` must be between 1 and {MAX_RECORDS}");
        return Err(RpcError::invalid_params(field, &message));
    }
    Ok(usize::try_from(count).unwrap_or_default())
}

impl ParameterValue for Timestamp {
    const EXPECTED: &'static str = "a time such as 2026-01-31T12:00:00Z";
}

impl ParameterValue for CallId {
    const EXPECTED: &'static str = "a call id";

    fn read(value: Value) -> Option<Self> {
        value.as_str()?.parse().ok()
    }
}
