//! `control/reload`: reloads the configuration. A change that loosens the policy is applied only after the
//! operator accepts the difference that was shown.

use std::sync::Arc;

use execution::Acceptance;

use super::Control;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/reload", run };

fn run(control: &Control, _session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    // Digest of the candidate that was shown: later changes are not accepted with it.
    let accept: Option<String> = params.want("accept")?;
    let pin: Option<String> = params.want("pin")?;
    params.finish()?;
    let reloader = Arc::clone(&control.reloader);
    let acceptance = accept.map_or(Acceptance::Ask, Acceptance::Seen);
    let layer = Arc::clone(&control.layer);
    Ok(Answer::later(async move {
        if let Acceptance::Seen(_) = acceptance
            && let Err(error) = layer.pin().verify(pin).await
        {
            return Err(RpcError::server(super::pin_word(&error), error.to_string()));
        }
        rpc::answer(&reloader.reload(acceptance).await)
    }))
}
