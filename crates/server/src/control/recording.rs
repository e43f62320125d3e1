//! `control/recording.…`: recording of what a project needs, while the allowlists of its tools do not apply.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use execution::recording::{RecordingError, RecordingRequest};
use serde_json::json;

use super::{ControlContext, pin_error};
use crate::connection_state::ConnectionState;
use crate::rpc::{self, RpcError};
use crate::service::{MethodCall, MethodReply, MethodResult};

/// Shows what a recording makes possible, or starts it once the operator accepts what was shown.
pub(super) fn start(
    control: &ControlContext,
    session: &mut ConnectionState,
    call: MethodCall,
) -> MethodResult {
    let mut params = call.params;
    let (workspace, seconds): (PathBuf, u64) = (params.required("workspace")?, params.required("seconds")?);
    // Digest of the effects that were shown. No other effects are accepted with it.
    let accept: Option<String> = params.optional("accept")?;
    let pin: Option<String> = params.optional("pin")?;
    params.finish()?;
    let request = RecordingRequest { workspace, duration: Duration::from_secs(seconds) };
    let (layer, caller) = (Arc::clone(&control.layer), session.operator());
    Ok(MethodReply::deferred(async move {
        let Some(candidate) = accept else {
            let preview = layer.preview_recording(&request).map_err(|error| start_error(&error))?;
            return rpc::encode_result(&preview);
        };
        let proof =
            layer.approvals().pin().verify(caller.endpoint, pin).await.map_err(|error| pin_error(&error))?;
        let started = layer.start_recording(&request, &candidate, &caller, proof).await;
        let status = started.map_err(|error| start_error(&error))?;
        rpc::encode_result(&json!({"recording": status}))
    }))
}

/// Ends the recording. It needs no PIN, because the policy applies as before.
pub(super) fn stop(control: &ControlContext, _: &mut ConnectionState, call: MethodCall) -> MethodResult {
    call.params.finish()?;
    let ended = control.layer.end_recording("the operator ended it");
    let reply = ended.map_or_else(|| json!({}), |ended| json!({"recording": ended}));
    Ok(MethodReply::now(&reply))
}

fn start_error(error: &RecordingError) -> RpcError {
    let word = match error {
        RecordingError::NotAWorkspace(_) => "not_a_workspace",
        RecordingError::InvalidDuration => "invalid_duration",
        RecordingError::WrongMode(_) => "wrong_mode",
        RecordingError::AlreadyActive(_) => "already_recording",
        RecordingError::NotAsShown => "not_as_shown",
        RecordingError::NotRecorded(_) => "not_recorded",
    };
    RpcError::server(word, error.to_string())
}
