//! `control/mode.get`: the current operational mode, and the mode that a transition rule proposes.

use serde_json::json;

use super::Control;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/mode.get", run };

fn run(control: &Control, _session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    call.params.finish()?;
    let mut reply = json!({"mode": control.layer.mode()});
    if let (Some(reply), Some(proposal)) = (reply.as_object_mut(), control.layer.status().proposal) {
        reply.insert("proposal".to_owned(), json!(proposal));
    }
    Ok(Answer::Now(rpc::answer(&reply)))
}
