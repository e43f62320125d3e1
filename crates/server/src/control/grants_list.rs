//! `control/grants.list`: the standing rules that approve matching calls without a request.

use std::sync::Arc;

use serde_json::json;

use super::Control;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/grants.list", run };

fn run(control: &Control, _session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    call.params.finish()?;
    let layer = Arc::clone(&control.layer);
    Ok(Answer::later(async move { rpc::answer(&json!({"grants": layer.standing_rules().await})) }))
}
