//! `control/ledger.verify`: verifies the whole ledger and reports the position of every flaw.

use std::sync::Arc;

use serde_json::json;

use super::Control;
use crate::rpc::RpcError;
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/ledger.verify", run };

fn run(control: &Control, _session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    call.params.finish()?;
    let layer = Arc::clone(&control.layer);
    Ok(super::reading(move || {
        let report = layer.ledger_verify()?;
        let mut reply = json!(report);
        if let Some(fields) = reply.as_object_mut() {
            fields.insert("intact".to_owned(), json!(report.is_intact()));
        }
        Ok(reply)
    }))
}
