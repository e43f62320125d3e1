//! `control/status`: status of the daemon, with details for the operator: pid, sockets, connections.

use serde::Serialize;

use super::Control;
use crate::methods::status::StatusReply;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/status", run };

#[derive(Serialize)]
struct ControlStatus {
    #[serde(flatten)]
    status: StatusReply,
    pid: u32,
    sockets: [String; 2],
    /// Connections to all sockets, this one included.
    connections: usize,
    stopping: bool,
}

fn run(control: &Control, _session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    call.params.finish()?;
    Ok(Answer::Now(rpc::answer(&ControlStatus {
        status: StatusReply::new(control.layer.status(), &control.limits),
        pid: std::process::id(),
        sockets: control.sockets.each_ref().map(|path| path.display().to_string()),
        connections: control.connections.len(),
        stopping: control.stop.is_requested(),
    })))
}
