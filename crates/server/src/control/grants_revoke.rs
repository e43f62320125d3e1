//! `control/grants.revoke`: revokes a standing rule. Matching calls need an approval again from then on.

use std::sync::Arc;

use serde_json::json;
use tool::Door;

use super::Control;
use crate::control::approvals_decide::refused;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/grants.revoke", run };

fn run(control: &Control, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let id: String = params.need("id")?;
    params.finish()?;
    let (layer, by) = (Arc::clone(&control.layer), session.caller(Door::Socket));
    Ok(Answer::later(async move {
        match layer.revoke_rule(&id, &by).await {
            Ok(()) => rpc::answer(&json!({"id": id, "revoked": true})),
            Err(error) => Err(refused(&error).with("id", id)),
        }
    }))
}
