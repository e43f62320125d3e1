//! `control/shutdown`: requests the same orderly stop as SIGTERM. The reply is sent before the stop.

use serde_json::json;

use super::Control;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/shutdown", run };

fn run(control: &Control, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    call.params.finish()?;
    tracing::info!(pid = session.peer.pid, "shutdown_requested");
    control.stop.request();
    let drain = control.limits.drain.as_secs();
    Ok(Answer::Now(rpc::answer(&json!({"stopping": true, "drain_seconds": drain}))))
}
