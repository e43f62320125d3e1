//! `control/ledger.tail`: the newest records, oldest first.

use std::sync::Arc;

use serde_json::json;

use super::Control;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/ledger.tail", run };

const USUAL: u64 = 20;
const MOST: u64 = 1000;

fn run(control: &Control, _session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let count = params.want("count")?.unwrap_or(USUAL);
    params.finish()?;
    if !(1..=MOST).contains(&count) {
        let message = format!("`count` must be between 1 and {MOST}");
        return Err(RpcError::invalid_params("count", &message));
    }
    let (layer, count) = (Arc::clone(&control.layer), usize::try_from(count).unwrap_or_default());
    Ok(Answer::later(async move {
        // Reading the ledger is reading files: not on a thread that serves connections.
        match tokio::task::spawn_blocking(move || layer.ledger_tail(count)).await {
            Ok(Ok(records)) => rpc::answer(&json!({"records": records})),
            Ok(Err(error)) => Err(RpcError::server("ledger_unavailable", error.to_string())),
            Err(_) => Err(RpcError::internal()),
        }
    }))
}
