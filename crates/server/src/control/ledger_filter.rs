//! Filter parameters shared by the `control/ledger.…` methods, and paging within the size of one message.

use execution::{ExportFormat, LedgerFilter, LedgerRecord};
use jiff::Timestamp;
use serde_json::Value;
use tool::CallId;

use crate::rpc::{Parameter, Params, RpcError};

/// Maximum number of records in one reply.
const MOST: u64 = 1000;

/// Reads the filter; an absent field matches every record.
pub(super) fn read(params: &mut Params) -> Result<LedgerFilter, RpcError> {
    Ok(LedgerFilter {
        kind: params.want("kind")?,
        tool: params.want("tool")?,
        outcome: params.want("outcome")?,
        mode: params.want("mode")?,
        caller: params.want("caller")?,
        session: params.want("session")?,
        trace: params.want("trace")?,
        call_id: params.want("call_id")?,
        idempotency_key: params.want("idempotency_key")?,
        since: params.want("since")?,
        until: params.want("until")?,
        before_seq: params.want("before_seq")?,
        after_seq: params.want("after_seq")?,
        limit: None,
    })
}

/// Reads the number of records requested.
pub(super) fn count(params: &mut Params, field: &'static str, usual: u64) -> Result<usize, RpcError> {
    let count = params.want(field)?.unwrap_or(usual);
    if !(1..=MOST).contains(&count) {
        let message = format!("`{field}` must be between 1 and {MOST}");
        return Err(RpcError::invalid_params(field, &message));
    }
    Ok(usize::try_from(count).unwrap_or_default())
}

/// Takes as many of the records in `found` (newest first) as fit into `most_bytes`. Returns them oldest
/// first, with the `before_seq` of the next page if some did not fit.
pub(super) fn page(found: &[LedgerRecord], most_bytes: usize) -> (Vec<Value>, Option<u64>) {
    let mut bytes = 0;
    // The first record is included whatever its length: a client would request an empty page again without
    // end.
    let fits = |(n, record): &(usize, &LedgerRecord)| {
        bytes += record.line().len() + 1;
        *n == 0 || bytes <= most_bytes
    };
    let fitting = found.iter().enumerate().take_while(fits);
    let mut shown: Vec<&LedgerRecord> = fitting.map(|(_, record)| record).collect();
    let next = (shown.len() < found.len()).then(|| shown.last().map(|record| record.seq)).flatten();
    shown.reverse();
    (shown.into_iter().map(LedgerRecord::json).collect(), next)
}

impl Parameter for Timestamp {
    const EXPECTED: &'static str = "a time such as 2026-01-31T12:00:00Z";

    fn read(value: Value) -> Option<Self> {
        value.as_str()?.parse().ok()
    }
}

impl Parameter for CallId {
    const EXPECTED: &'static str = "a call id";

    fn read(value: Value) -> Option<Self> {
        value.as_str()?.parse().ok()
    }
}

impl Parameter for ExportFormat {
    const EXPECTED: &'static str = "ndjson or csv";

    fn read(value: Value) -> Option<Self> {
        match value.as_str()? {
            "ndjson" => Some(ExportFormat::Ndjson),
            "csv" => Some(ExportFormat::Csv),
            _ => None,
        }
    }
}
