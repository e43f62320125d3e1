//! `control/status`, `control/reload`, `control/events` and `control/shutdown`: the daemon itself.

use std::sync::Arc;

use execution::Acceptance;
use serde::Serialize;
use serde_json::json;
use telemetry::{Seen, Watch};

use super::{Control, pin_error};
use crate::methods::status::StatusReply;
use crate::notify::Notifier;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call};
use crate::session::Session;

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

/// Returns the status of the daemon, with details for the operator: pid, sockets, connections.
pub(super) fn status(control: &Control, _: &mut Session, call: Call) -> Result<Answer, RpcError> {
    call.params.finish()?;
    Ok(Answer::now(&ControlStatus {
        status: StatusReply::new(control.layer.status(), &control.limits),
        pid: std::process::id(),
        sockets: control.sockets.each_ref().map(|path| path.display().to_string()),
        connections: control.connections.len(),
        stopping: control.stop.is_requested(),
    }))
}

/// Reloads the configuration. A change that loosens the policy is applied only after the operator accepts the
/// difference that was shown.
pub(super) fn reload(control: &Control, _: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    // Digest of the candidate that was shown: later changes are not accepted with it.
    let accept: Option<String> = params.want("accept")?;
    let pin: Option<String> = params.want("pin")?;
    params.finish()?;
    let (layer, reloader) = (Arc::clone(&control.layer), Arc::clone(&control.reloader));
    Ok(Answer::later(async move {
        let acceptance = match accept {
            Some(digest) => {
                layer.pin().verify(pin).await.map_err(|error| pin_error(&error))?;
                Acceptance::Seen(digest)
            }
            None => Acceptance::Ask,
        };
        rpc::answer(&reloader.reload(acceptance).await)
    }))
}

/// Requests the same orderly stop as SIGTERM. The reply is sent before the stop.
pub(super) fn shutdown(control: &Control, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    call.params.finish()?;
    tracing::info!(pid = session.peer.pid, "shutdown_requested");
    control.stop.request();
    let drain = control.limits.drain.as_secs();
    Ok(Answer::now(&json!({"stopping": true, "drain_seconds": drain})))
}

#[derive(Serialize)]
struct Missed {
    /// Events missed since the previous notification.
    count: u64,
    /// Events missed since the stream began.
    total: u64,
}

/// Streams telemetry events as `control/event` notifications until the connection is closed. A client that reads
/// too slowly misses events; `control/events.missed` reports how many. No call waits for a client.
pub(super) fn events(_: &Control, _: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let wanted: Option<Vec<String>> = params.want("events")?;
    params.finish()?;
    // Subscribed before the reply, so that every event after the reply is reported.
    let watch = telemetry::watch();
    Ok(Answer::follow(move |notifier| stream_events(watch, wanted, notifier)))
}

async fn stream_events(mut watch: Watch, wanted: Option<Vec<String>>, notifier: Notifier) {
    let wants = |event: &str| wanted.as_ref().is_none_or(|wanted| wanted.iter().any(|name| name == event));
    let mut total = 0;
    loop {
        match watch.next().await {
            Seen::Event(happened) if wants(happened.event) => {
                notifier.tell("control/event", &happened.record).await;
            }
            Seen::Event(_) => {}
            Seen::Missed(count) => {
                total += count;
                notifier.tell("control/events.missed", &Missed { count, total }).await;
            }
        }
    }
}
