//! `control/console.open`: a web console announces the loopback port that it serves.

use serde_json::json;

use super::ControlContext;
use crate::connection_state::ConnectionState;
use crate::rpc::RpcError;
use crate::service::{MethodCall, MethodReply, MethodResult};

/// Opens a console on this connection, until the connection ends. Its port is closed to every call, and what
/// loosens on this connection needs a PIN that is set.
pub(super) fn open(
    control: &ControlContext,
    session: &mut ConnectionState,
    call: MethodCall,
) -> MethodResult {
    let port: u32 = call.params.only("port")?;
    let Some(port) = u16::try_from(port).ok().filter(|port| *port != 0) else {
        return Err(RpcError::invalid_params("port", "`port` must be between 1 and 65535"));
    };
    if session.is_console {
        return Err(RpcError::server("already_open", "this connection has opened a console already"));
    }
    session.is_console = true;
    let opened = control.layer.open_console(port, &session.operator());
    let opened = opened.map_err(|error| {
        RpcError::server("ledger_unavailable", error.to_string()).with_data("port", json!(port))
    })?;
    Ok(MethodReply::follow(move |_| async move {
        let _open = opened;
        std::future::pending().await
    }))
}
