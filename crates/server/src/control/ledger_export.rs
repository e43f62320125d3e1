//! `control/ledger.export`: matching records as NDJSON or CSV, one page per request, oldest first.

use std::sync::Arc;

use execution::{ExportFormat, LedgerFilter};
use serde_json::json;

use super::{Control, ledger_filter};
use crate::rpc::RpcError;
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/ledger.export", run };

/// Upper bound for the text of one page, in bytes.
const LARGEST_PAGE: usize = 1024 * 1024;

fn run(control: &Control, _session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let filter = ledger_filter::read(&mut params)?;
    let format = params.want("format")?.unwrap_or(ExportFormat::Ndjson);
    let limit: Option<u64> = params.want("limit")?;
    params.finish()?;
    let limit = limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let filter = LedgerFilter { limit, ..filter };
    // The page is sent as a JSON string; escaping its quotes at worst doubles its size.
    let most = LARGEST_PAGE.min(control.limits.max_line_bytes / 4);
    let layer = Arc::clone(&control.layer);
    Ok(super::reading(move || {
        let page = layer.ledger_export(&filter, format, most)?;
        Ok(json!({"text": page.text, "records": page.records, "next_after_seq": page.next_after_seq}))
    }))
}
