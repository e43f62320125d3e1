//! `control/pin.set`: sets or removes the operator's PIN. Requires the current PIN if there is one.

use std::sync::Arc;

use serde_json::json;

use super::Control;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/pin.set", run };

fn run(control: &Control, _session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let (given, new): (Option<String>, Option<String>) = (params.want("pin")?, params.want("new")?);
    params.finish()?;
    let layer = Arc::clone(&control.layer);
    Ok(Answer::later(async move {
        match layer.pin().set(given, new).await {
            Ok(()) => rpc::answer(&json!({"pin": layer.pin().is_set()})),
            Err(error) => Err(RpcError::server(super::pin_word(&error), error.to_string())),
        }
    }))
}
