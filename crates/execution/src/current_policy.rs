//! Configuration snapshot and mode that new calls are judged by.

use std::sync::Arc;

use arc_swap::ArcSwap;
use governance::files::RunningCalls;
use registry::CacheScope;
use tokio::sync::watch;
use tool::{Mode, ToolDefinition};

use crate::call::PipelineCall;
use crate::calls::ActiveCalls;
use crate::config_snapshot::ConfigSnapshot;
use crate::modes::ModeCell;
use crate::recording::RecordingState;

/// Snapshot and mode in effect, with a version for calls that wait.
pub(crate) struct CurrentPolicy {
    pub(crate) snapshot: ArcSwap<ConfigSnapshot>,
    pub(crate) mode: ModeCell,
    /// Version of the snapshot and the mode. Waiting calls are judged again when it changes.
    pub(crate) changes: watch::Sender<u64>,
    pub(crate) recording: RecordingState,
}

impl CurrentPolicy {
    pub(crate) fn new(snapshot: ConfigSnapshot, mode: Mode) -> Self {
        CurrentPolicy {
            snapshot: ArcSwap::from_pointee(snapshot),
            mode: ModeCell::new(mode),
            changes: watch::Sender::new(0),
            recording: RecordingState::default(),
        }
    }

    /// Returns true if the mode or the rules changed since the call was judged, or if the recording that
    /// permitted it has ended.
    pub(crate) fn has_changed_since(&self, call: &PipelineCall) -> bool {
        let (judged_by, is_over) = match &call.recorded_from {
            Some(snapshot) => (snapshot, !self.recording.covers(&call.snapshot)),
            None => (&call.snapshot, false),
        };
        is_over || self.mode.get() != call.header.mode || !Arc::ptr_eq(&self.snapshot.load(), judged_by)
    }

    /// Maximum number of concurrent calls for the current mode and rules.
    pub(crate) fn max_running_calls(&self) -> usize {
        max_running_calls(&self.snapshot.load(), self.mode.get())
    }

    /// Stops running calls that the current mode forbids, if the policy cancels running calls in this mode,
    /// and releases what tools keep for further calls. A call that would now require approval continues,
    /// because it required none when it was started.
    pub(crate) fn stop_forbidden_calls(&self, active_calls: &ActiveCalls) {
        let (snapshot, mode) = (self.snapshot.load(), self.mode.get());
        let is_forbidden = |definition: &ToolDefinition| !snapshot.policy.may_run(definition, mode);
        match snapshot.policy.running_calls(mode) {
            RunningCalls::Finish => snapshot.release_resources(CacheScope::All, is_forbidden),
            // If calls are cancelled, every tool also releases the resources that it keeps for further calls.
            RunningCalls::Cancel => {
                active_calls.stop_forbidden(is_forbidden);
                snapshot.release_resources(CacheScope::All, |_| true);
            }
        }
    }
}

/// Maximum number of concurrent calls: the limit of the policy, capped by `MAX_RUNNING`.
pub(crate) fn max_running_calls(snapshot: &ConfigSnapshot, mode: Mode) -> usize {
    let allowed = snapshot.policy.max_concurrent_tasks(mode).and_then(|max| usize::try_from(max).ok());
    allowed.unwrap_or(MAX_RUNNING).min(MAX_RUNNING)
}

/// Cap on concurrent calls. The tools of this process share one blocking pool; calls beyond its size would
/// only queue inside it.
const MAX_RUNNING: usize = 256;
