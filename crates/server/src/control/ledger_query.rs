//! `control/ledger.query`: the newest matching records, oldest first, one page per request.

use std::sync::Arc;

use execution::LedgerFilter;
use serde_json::json;

use super::{Control, ledger_filter};
use crate::rpc::RpcError;
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/ledger.query", run };

const USUAL: u64 = 100;

fn run(control: &Control, _session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let filter = ledger_filter::read(&mut params)?;
    let limit = ledger_filter::count(&mut params, "limit", USUAL)?;
    params.finish()?;
    Ok(answer(control, filter, limit))
}

/// Replies with the newest `limit` matching records, as far as they fit into one message.
pub(super) fn answer(control: &Control, filter: LedgerFilter, limit: usize) -> Answer {
    let (layer, most) = (Arc::clone(&control.layer), control.limits.max_line_bytes / 2);
    super::reading(move || {
        // One record more than requested shows whether there is a next page.
        let mut found = layer.ledger_query(&LedgerFilter { limit: Some(limit + 1), ..filter })?;
        let more = found.len() > limit;
        found.truncate(limit);
        let (records, cut) = ledger_filter::page(&found, most);
        let oldest = found.last().map(|record| record.seq).filter(|_| more);
        Ok(json!({"records": records, "next_before_seq": cut.or(oldest)}))
    })
}
