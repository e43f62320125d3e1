//! `control/calls.list`: the calls that have not ended, with the state of each.

use serde_json::json;

use super::Control;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/calls.list", run };

fn run(control: &Control, _session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    call.params.finish()?;
    Ok(Answer::Now(rpc::answer(&json!({"calls": control.layer.calls()}))))
}
