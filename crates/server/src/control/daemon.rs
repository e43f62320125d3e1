//! `control/status`, `control/reload`, `control/events`, `control/shutdown` and
//! `control/restart`: the daemon itself.

use std::sync::Arc;

use execution::SuspendedCaller;
use execution::modes::ModeCause;
use execution::recording::RecordingStatus;
use execution::reload::Acceptance;
use serde::Serialize;
use serde_json::json;
use telemetry::{EventSubscription, FeedItem};

use super::{ControlContext, pin_error};
use crate::connected_clients::ConnectedClient;
use crate::connection_state::ConnectionState;
use crate::methods::status::StatusReply;
use crate::notify::Notifier;
use crate::rpc::{self, RpcError};
use crate::service::{MethodCall, MethodReply, MethodResult};

#[derive(Serialize)]
struct ControlStatus {
    #[serde(flatten)]
    status: StatusReply,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode_cause: Option<ModeCause>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suspended_callers: Vec<SuspendedCaller>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recording: Option<RecordingStatus>,
    pid: u32,
    sockets: [String; 2],
    /// Connections to all sockets, this one included.
    connections: usize,
    /// Programs behind the other connections.
    clients: Vec<ConnectedClient>,
    stopping: bool,
}

/// Returns the status of the daemon, with details for the operator: pid, sockets, connections.
pub(super) fn status(
    control: &ControlContext,
    session: &mut ConnectionState,
    call: MethodCall,
) -> MethodResult {
    call.params.finish()?;
    Ok(MethodReply::now(&ControlStatus {
        status: StatusReply::new(control.layer.status(), &control.limits),
        mode_cause: control.layer.mode_cause(),
        suspended_callers: control.layer.suspended_callers(),
        recording: control.layer.recording(),
        pid: std::process::id(),
        sockets: control.sockets.each_ref().map(|path| path.display().to_string()),
        connections: control.connections.len(),
        clients: control.clients.all_except(session.connection),
        stopping: control.stop.is_requested(),
    }))
}

/// Reloads the configuration. A change that loosens the policy is applied only after the operator accepts the
/// difference that was shown.
pub(super) fn reload(
    control: &ControlContext,
    session: &mut ConnectionState,
    call: MethodCall,
) -> MethodResult {
    let mut params = call.params;
    // Digest of the candidate that was shown: later changes are not accepted with it.
    let accept: Option<String> = params.optional("accept")?;
    let pin: Option<String> = params.optional("pin")?;
    params.finish()?;
    let (layer, reloader) = (Arc::clone(&control.layer), Arc::clone(&control.reloader));
    let by = session.operator();
    Ok(MethodReply::deferred(async move {
        let acceptance = match accept {
            Some(digest) => {
                layer.approvals().pin().verify(by.endpoint, pin).await.map_err(|error| pin_error(&error))?;
                Acceptance::Confirmed(digest)
            }
            None => Acceptance::Ask,
        };
        rpc::encode_result(&reloader.reload(acceptance).await)
    }))
}

/// Requests the same orderly stop as SIGTERM. The reply is sent before the stop.
pub(super) fn shutdown(
    control: &ControlContext,
    session: &mut ConnectionState,
    call: MethodCall,
) -> MethodResult {
    call.params.finish()?;
    tracing::info!(pid = session.peer.pid(), "shutdown_requested");
    control.stop.request();
    let drain = control.limits.drain_timeout.as_secs();
    Ok(MethodReply::now(&json!({"stopping": true, "drain_seconds": drain})))
}

/// Requests a restart in place with the installed program. That program is checked first; if it cannot serve, the
/// daemon continues. The reply is sent before the stop.
pub(super) fn restart(
    control: &ControlContext,
    session: &mut ConnectionState,
    call: MethodCall,
) -> MethodResult {
    call.params.finish()?;
    let Some(check) = control.stop.restart_check() else {
        return Err(RpcError::server("restart_unavailable", "this daemon cannot replace its program"));
    };
    let (stop, pid) = (control.stop.clone(), session.peer.pid());
    let drain = control.limits.drain_timeout.as_secs();
    Ok(MethodReply::deferred(async move {
        let checked = tokio::task::spawn_blocking(move || check()).await;
        let version = checked.unwrap_or_else(|error| Err(error.to_string()));
        let version = version.map_err(|why| RpcError::server("restart_refused", why))?;
        if stop.is_requested() {
            return Err(RpcError::server("shutting_down", "Sinew is shutting down"));
        }
        tracing::info!(pid, version, "restart_requested");
        stop.request_restart();
        let process = std::process::id();
        rpc::encode_result(
            &json!({"restarting": true, "version": version, "pid": process, "drain_seconds": drain}),
        )
    }))
}

#[derive(Serialize)]
struct MissedEvents {
    /// Events missed since the previous notification.
    count: u64,
    /// Events missed since the stream began.
    total: u64,
}

/// Streams telemetry events as `control/event` notifications until the connection is closed. A client that reads
/// too slowly misses events; `control/events.missed` reports how many. No call waits for a client.
pub(super) fn events(_: &ControlContext, _: &mut ConnectionState, call: MethodCall) -> MethodResult {
    let mut params = call.params;
    let wanted: Option<Vec<String>> = params.optional("events")?;
    params.finish()?;
    // Subscribed before the reply, so that every event after the reply is reported.
    let watch = telemetry::subscribe();
    Ok(MethodReply::follow(move |notifier| stream_events(watch, wanted, notifier)))
}

async fn stream_events(mut watch: EventSubscription, wanted: Option<Vec<String>>, notifier: Notifier) {
    let wants = |event: &str| wanted.as_ref().is_none_or(|wanted| wanted.iter().any(|name| name == event));
    let mut total = 0;
    loop {
        match watch.next().await {
            FeedItem::Event(happened) if wants(happened.event) => {
                notifier.notify("control/event", &happened.record).await;
            }
            FeedItem::Event(_) => {}
            FeedItem::Missed(count) => {
                total += count;
                notifier.notify("control/events.missed", &MissedEvents { count, total }).await;
            }
        }
    }
}
