//! Recording of what a project needs. For a limited time, a call in one workspace that only an allowlist of
//! its tool refuses is judged again without these lists and runs. Its record states that.
//!
//! Applies in mode NORMAL only, and only to calls that run in the pipeline: a host would run its tools without a
//! sandbox. The operator starts it; it ends at its deadline, on a change of the mode, on request and with the daemon.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use approvals::OperatorProof;
use jiff::Timestamp;
use ledger::entry::NoteEntry;
use ledger::{Ledger, LedgerEntry};
use serde::Serialize;
use serde_json::json;
use tool::definition::ExternalTargetKind;
use tool::{Caller, Mode, Refusal, RefusalCode, canonical};

use crate::call::PipelineCall;
use crate::config_snapshot::ConfigSnapshot;
use crate::current_policy::CurrentPolicy;
use crate::layer::ToolExecutionLayer;

/// Longest recording.
pub const MAX_RECORDING: Duration = Duration::from_secs(24 * 60 * 60);
/// Subject of the ledger notes about recordings.
pub const RECORDING_NOTE: &str = "recording";

/// Refusals of an allowlist.
const ALLOWLIST_CODES: [RefusalCode; 3] =
    [RefusalCode::PathNotAllowed, RefusalCode::CommandNotAllowed, RefusalCode::DomainNotAllowed];

/// Recording that the operator asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingRequest {
    /// Root of the workspace.
    pub workspace: PathBuf,
    /// Duration.
    pub duration: Duration,
}

/// Effects of a recording, for the consent of the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordingPreview {
    /// Effects that become possible, one line each.
    pub becomes_possible: Vec<String>,
    /// Digest of the request and its effects, so that the operator consents to exactly what was shown.
    pub candidate: String,
}

/// State of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordingStatus {
    /// Root of the workspace.
    pub workspace: String,
    /// Time of the start.
    pub since: Timestamp,
    /// Time at which it ends by itself.
    pub until: Timestamp,
    /// Calls that ran because of it.
    pub calls: u64,
}

/// Reason why a recording does not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordingError {
    /// The folder is not a workspace.
    #[error("`{0}` is not a workspace; `sinew workspace list` shows them")]
    NotAWorkspace(String),
    /// The duration is zero or too long.
    #[error("a recording lasts at least 1 second and at most {} hours", MAX_RECORDING.as_secs() / 3600)]
    InvalidDuration,
    /// The mode is not NORMAL.
    #[error("calls are recorded in mode NORMAL only, and the mode is {0}")]
    WrongMode(Mode),
    /// A recording runs.
    #[error("a recording of `{0}` is already active; end it with `sinew policy record --stop`")]
    AlreadyActive(String),
    /// The configuration or the request differs from what was shown.
    #[error("the effects differ from those that were shown; run the command again")]
    NotAsShown,
    /// The start could not be recorded.
    #[error("the start could not be recorded: {0}")]
    NotRecorded(String),
}

/// Recording in progress, if there is one.
#[derive(Default)]
pub(crate) struct RecordingState(Mutex<Option<ActiveRecording>>);

struct ActiveRecording {
    status: RecordingStatus,
    root: PathBuf,
    deadline: Instant,
    /// Snapshot without allowlists, with the one it is derived from.
    derived: Option<(Arc<ConfigSnapshot>, Arc<ConfigSnapshot>)>,
}

impl ActiveRecording {
    /// Returns true at the deadline, by either clock: one stands still while the machine sleeps, the other can be set.
    fn is_over(&self) -> bool {
        Instant::now() >= self.deadline || Timestamp::now() >= self.status.until
    }
}

impl RecordingState {
    fn lock(&self) -> MutexGuard<'_, Option<ActiveRecording>> {
        // The state is replaced as a whole, so a panic elsewhere cannot leave it inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn status(&self) -> Option<RecordingStatus> {
        self.lock().as_ref().filter(|active| !active.is_over()).map(|active| active.status.clone())
    }

    pub(crate) fn is_active(&self) -> bool {
        self.lock().as_ref().is_some_and(|active| !active.is_over())
    }

    /// Returns true if this snapshot is the one of the recording in progress, and not of an earlier one.
    pub(crate) fn covers(&self, derived: &Arc<ConfigSnapshot>) -> bool {
        let state = self.lock();
        let active = state.as_ref().filter(|active| !active.is_over());
        active
            .and_then(|active| active.derived.as_ref())
            .is_some_and(|(_, current)| Arc::ptr_eq(current, derived))
    }

    /// Returns the root of the recorded workspace and the snapshot by which its calls are judged.
    pub(crate) fn derive(&self, current: &Arc<ConfigSnapshot>) -> Option<(PathBuf, Arc<ConfigSnapshot>)> {
        let mut state = self.lock();
        let active = state.as_mut().filter(|active| !active.is_over())?;
        let is_fresh = |(from, _): &(Arc<ConfigSnapshot>, Arc<ConfigSnapshot>)| Arc::ptr_eq(from, current);
        if !active.derived.as_ref().is_some_and(is_fresh) {
            let derived = Arc::new(recording_snapshot(current, &active.root));
            active.derived = Some((Arc::clone(current), derived));
        }
        let derived = active.derived.as_ref().map(|(_, derived)| Arc::clone(derived))?;
        Some((active.root.clone(), derived))
    }

    /// Begins a recording of an hour.
    #[cfg(test)]
    pub(crate) fn begin(&self, root: &Path) {
        let (hour, since) = (std::time::Duration::from_secs(3600), Timestamp::now());
        let workspace = root.to_string_lossy().into_owned();
        let status = RecordingStatus { workspace, since, until: since + hour, calls: 0 };
        let deadline = Instant::now() + hour;
        *self.lock() = Some(ActiveRecording { status, root: root.to_owned(), deadline, derived: None });
    }

    pub(crate) fn count_call(&self) {
        if let Some(active) = self.lock().as_mut() {
            active.status.calls += 1;
        }
    }
}

/// Returns true for a refusal that does not come from the rules: the operator, the caller or the daemon ended
/// the call.
pub(crate) fn is_decided_later(code: RefusalCode) -> bool {
    match code {
        RefusalCode::ApprovalDenied
        | RefusalCode::ApprovalTimedOut
        | RefusalCode::ApprovalPending
        | RefusalCode::Busy
        | RefusalCode::LedgerUnavailable
        | RefusalCode::ResourceExhausted
        | RefusalCode::ShuttingDown
        | RefusalCode::Conflict
        | RefusalCode::Cancelled
        | RefusalCode::ControlPlane => true,
        RefusalCode::UnknownTool
        | RefusalCode::NotInAllowlist
        | RefusalCode::InvalidArguments
        | RefusalCode::ValidatorRejected
        | RefusalCode::ModeDenied
        | RefusalCode::RateLimited
        | RefusalCode::PathForbidden
        | RefusalCode::PathNotAllowed
        | RefusalCode::CommandNotAllowed
        | RefusalCode::DomainNotAllowed
        | RefusalCode::TooLarge
        | RefusalCode::HopBudgetExhausted
        | RefusalCode::CostCapExceeded
        | RefusalCode::SandboxUnavailable => false,
    }
}

fn recording_snapshot(current: &ConfigSnapshot, root: &Path) -> ConfigSnapshot {
    ConfigSnapshot {
        registry: current.registry.clone(),
        policy: current.policy.for_recording(),
        curated: Arc::clone(&current.curated),
        workspaces: current.workspaces.within(root),
        hosts: Arc::clone(&current.hosts),
        keys: current.keys.clone(),
        problems: current.problems.clone(),
    }
}

impl CurrentPolicy {
    /// Returns the snapshot by which a refused call is judged again, if the refusal is one that the recording lifts.
    pub(crate) fn recording_for(
        &self,
        call: &PipelineCall,
        refusal: &Refusal,
    ) -> Option<Arc<ConfigSnapshot>> {
        let is_listed = refusal.detail.as_deref() == Some("not_listed");
        if call.is_recorded() || call.header.mode != Mode::Normal || !is_listed {
            return None;
        }
        if !ALLOWLIST_CODES.contains(&refusal.code) || self.has_changed_since(call) {
            return None;
        }
        let (root, snapshot) = self.recording.derive(&call.snapshot)?;
        is_in_workspace(call, &root).then_some(snapshot)
    }

    /// Ends the recording if it is `is_meant`, records that, and returns its last state.
    fn end_recording(
        &self,
        ledger: &Ledger,
        is_meant: impl Fn(&ActiveRecording) -> bool,
        reason: &str,
    ) -> Option<RecordingStatus> {
        let status = self.recording.lock().take_if(|active| is_meant(active))?.status;
        // Calls that wait are judged again, without the recording.
        self.changes.send_modify(|changes| *changes += 1);
        record_end(ledger, &status, reason);
        tracing::warn!(workspace = status.workspace, calls = status.calls, reason, "recording_ended");
        Some(status)
    }

    /// Ends the recording because the mode changes.
    pub(crate) fn end_recording_for_mode(&self, ledger: &Ledger, mode: Mode) {
        self.end_recording(ledger, |_| true, &format!("the mode changed to {mode}"));
    }
}

impl ToolExecutionLayer {
    /// Shows what a recording makes possible.
    pub fn preview_recording(&self, request: &RecordingRequest) -> Result<RecordingPreview, RecordingError> {
        let (snapshot, mode) = (self.current.snapshot.load(), self.current.mode.get());
        let shown = request.workspace.display().to_string();
        if !snapshot.workspaces.iter().any(|folder| folder.root() == request.workspace) {
            return Err(RecordingError::NotAWorkspace(shown));
        }
        if request.duration < Duration::from_secs(1) || request.duration > MAX_RECORDING {
            return Err(RecordingError::InvalidDuration);
        }
        if mode != Mode::Normal {
            return Err(RecordingError::WrongMode(mode));
        }
        if let Some(active) = self.current.recording.status() {
            return Err(RecordingError::AlreadyActive(active.workspace));
        }
        let becomes_possible = snapshot.policy.recording_effects(&request.workspace);
        let seconds = request.duration.as_secs();
        let shown = json!([shown, seconds, snapshot.policy.hash(), becomes_possible]);
        Ok(RecordingPreview { becomes_possible, candidate: canonical::sha256_hex(&canonical::bytes(&shown)) })
    }

    /// Starts a recording that the operator has consented to, once its start is recorded.
    pub async fn start_recording(
        self: &Arc<Self>,
        request: &RecordingRequest,
        candidate: &str,
        by: &Caller,
        _proof: OperatorProof,
    ) -> Result<RecordingStatus, RecordingError> {
        let preview = self.preview_recording(request)?;
        if preview.candidate != candidate {
            return Err(RecordingError::NotAsShown);
        }
        let since = Timestamp::now();
        let until = since.checked_add(request.duration).map_err(|_| RecordingError::InvalidDuration)?;
        let workspace = request.workspace.display().to_string();
        let status = RecordingStatus { workspace, since, until, calls: 0 };
        let text = format!("calls in {} are recorded until {until}", status.workspace);
        let data = json!({"event": "start", "workspace": status.workspace, "until": until,
            "by": by.display_name(), "becomes_possible": preview.becomes_possible});
        let note = LedgerEntry::Note(NoteEntry { about: RECORDING_NOTE.to_owned(), text, data });
        let written = self.recorder.ledger.append_durably(&note).await;
        written.map_err(|error| RecordingError::NotRecorded(error.to_string()))?;
        let deadline = Instant::now() + request.duration;
        let active = ActiveRecording {
            status: status.clone(),
            root: request.workspace.clone(),
            deadline,
            derived: None,
        };
        // Another start may have come first while the note was written.
        let is_first = {
            let mut state = self.current.recording.lock();
            let is_first = state.as_ref().is_none_or(ActiveRecording::is_over);
            if is_first {
                *state = Some(active);
            }
            is_first
        };
        if !is_first {
            record_end(&self.recorder.ledger, &status, "another recording runs");
            return Err(RecordingError::AlreadyActive(status.workspace));
        }
        // A change of the mode ends the recording only if it is active by then, so the mode is checked once
        // more.
        let mode = self.current.mode.get();
        if mode != Mode::Normal {
            self.end_recording("the mode changed");
            return Err(RecordingError::WrongMode(mode));
        }
        let layer = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep_until(deadline.into()).await;
            if let Some(layer) = layer.upgrade() {
                let is_meant = |active: &ActiveRecording| active.status.since == since;
                layer.current.end_recording(&layer.recorder.ledger, is_meant, "its time is over");
            }
        });
        tracing::warn!(workspace = status.workspace, %until, "recording_started");
        Ok(status)
    }

    /// Ends the recording, if there is one, and returns its last state.
    pub fn end_recording(&self, reason: &str) -> Option<RecordingStatus> {
        self.current.end_recording(&self.recorder.ledger, |_| true, reason)
    }

    /// State of the recording, if there is one.
    pub fn recording(&self) -> Option<RecordingStatus> {
        self.current.recording.status()
    }
}

fn record_end(ledger: &Ledger, status: &RecordingStatus, reason: &str) {
    let text = format!("calls in {} are no longer recorded: {reason}", status.workspace);
    let data = json!({"event": "end", "workspace": status.workspace, "since": status.since,
        "calls": status.calls, "reason": reason});
    let note = NoteEntry { about: RECORDING_NOTE.to_owned(), text, data };
    if let Err(error) = ledger.append(&LedgerEntry::Note(note)) {
        tracing::error!(%error, "the end of a recording could not be recorded");
    }
}

/// Returns true if the call starts in the workspace, or names paths and starts no program. The judge admits only paths
/// in the workspace.
fn is_in_workspace(call: &PipelineCall, root: &Path) -> bool {
    let starts_inside = call.workspaces.base().is_some_and(|base| base.starts_with(root));
    let names_only_paths = || {
        let tool = call.snapshot.registry.get(&call.tool_name);
        tool.is_some_and(|tool| {
            let (paths, targets) =
                (tool.definition().path_arguments(), tool.definition().external_target_arguments());
            !paths.is_empty() && !targets.iter().any(|target| target.kind == ExternalTargetKind::Command)
        })
    };
    starts_inside || names_only_paths()
}
