//! `control/approvals.show`: one approval request in full, for the operator to read before a decision.

use std::sync::Arc;

use super::Control;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/approvals.show", run };

fn run(control: &Control, _session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let id: String = params.need("id")?;
    params.finish()?;
    let layer = Arc::clone(&control.layer);
    Ok(Answer::later(async move {
        match layer.approval(&id).await {
            Some(listed) => rpc::answer(&listed),
            None => {
                Err(RpcError::server("not_found", format!("there is no open approval `{id}`")).with("id", id))
            }
        }
    }))
}
