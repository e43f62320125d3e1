//! Mode changes: along the allowed transitions, recorded, and applied to waiting and running calls.
//!
//! A looser mode takes effect once it is on disk, so no call that runs under it is older than its record. A
//! stricter mode takes effect at once: if the ledger is unavailable, the change is recorded later, and a
//! crash before that leaves the looser mode.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use approvals::{Approvals, OperatorProof};
use futures_util::FutureExt;
use governance::transitions::{ChangedBy, ModeTransition, is_human_edge, modes_settable_from};
use ledger::entry::{ModeChange, NoteEntry};
use ledger::{Ledger, LedgerEntry, LedgerError};
use serde_json::{Value, json};
use telemetry::{TelemetryEvent, emit, redact};
use tool::{Caller, Mode};

use crate::calls::ActiveCalls;
use crate::current_policy::CurrentPolicy;
use crate::layer::{Capacity, ToolExecutionLayer};
use crate::modes::{ModeChangeResult, ModeControl, ModeError};

/// Mode change requested by a rule or by the operator.
#[derive(Debug)]
pub(crate) struct ModeChangeRequest {
    /// Mode in which a rule requested the change.
    from: Option<Mode>,
    to: Mode,
    reason: String,
    /// Name of the rule or of the operator.
    by: String,
    /// Client of the operator, if it is not the command line.
    via: Option<&'static str>,
    changed_by: ChangedBy,
    /// Proof of the operator, if the operator requested the change.
    proof: Option<OperatorProof>,
    /// Measured values that triggered the rule.
    sensors: Option<Value>,
    /// True if the fleet requested the change.
    by_fleet: bool,
}

impl ModeChangeRequest {
    /// Request by a rule of the policy.
    pub(crate) fn from_rule(transition: &ModeTransition) -> Self {
        ModeChangeRequest {
            from: Some(transition.from),
            to: transition.to,
            reason: transition.reason(),
            by: transition.rule.id.to_string(),
            via: None,
            changed_by: ChangedBy::Rule,
            proof: None,
            sensors: Some(transition.sensors()),
            by_fleet: false,
        }
    }

    fn from_operator(to: Mode, reason: &str, by: &Caller, proof: Option<OperatorProof>) -> Self {
        let operator_client = by.endpoint.operator_client();
        let (reason, by) = (redacted(reason), redacted(&by.display_name()));
        let (via, changed_by) = (operator_client, ChangedBy::Human);
        ModeChangeRequest {
            from: None,
            to,
            reason,
            by,
            via,
            changed_by,
            proof,
            sensors: None,
            by_fleet: false,
        }
    }

    /// Request by the fleet, which no rule of transitions limits: it restricts, or gives back the local mode.
    pub(super) fn from_fleet(to: Mode, reason: &str, by: &str) -> Self {
        let (reason, by, changed_by) = (redacted(reason), redacted(by), ChangedBy::Rule);
        ModeChangeRequest {
            from: None,
            to,
            reason,
            by,
            via: None,
            changed_by,
            proof: None,
            sensors: None,
            by_fleet: true,
        }
    }

    fn to_ledger_entry(&self, from: Mode) -> ModeChange {
        let mut data = json!({"human": self.changed_by == ChangedBy::Human});
        if let (Some(data), Some(sensors)) = (data.as_object_mut(), &self.sensors) {
            data.insert("sensors".to_owned(), sensors.clone());
        }
        let (by, via) = (Some(self.by.clone()), self.via.map(str::to_owned));
        ModeChange { from, to: self.to, reason: self.reason.clone(), by, via, data }
    }
}

/// Returns true if the operator made this change.
pub(crate) fn is_by_operator(change: &ModeChange) -> bool {
    change.data.get("human").and_then(Value::as_bool).unwrap_or(false)
}

fn redacted(text: &str) -> String {
    redact::shared().redact_text(text).into_owned()
}

/// Mode changes that are in effect and could not be recorded yet, oldest first.
#[derive(Default)]
pub(crate) struct UnrecordedModeChanges(Mutex<Vec<ModeChange>>);

impl UnrecordedModeChanges {
    fn lock(&self) -> MutexGuard<'_, Vec<ModeChange>> {
        // The list is consistent after every statement, so a panic elsewhere cannot have broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ToolExecutionLayer {
    /// Changes the mode on request of the operator: along the allowed transitions, and into LOCKDOWN from any
    /// mode. The change is completed even if the client disconnects. A change to the current mode records
    /// nothing. If the change requires the PIN depends on the mode when the change gets its turn, not on the
    /// mode when it was requested.
    pub async fn set_mode(
        self: &Arc<Self>,
        to: Mode,
        reason: &str,
        by: &Caller,
        proof: Option<OperatorProof>,
    ) -> Result<ModeChangeResult, ModeError> {
        self.change_mode(ModeChangeRequest::from_operator(to, reason, by, proof)).await
    }

    pub(crate) async fn change_mode(
        self: &Arc<Self>,
        request: ModeChangeRequest,
    ) -> Result<ModeChangeResult, ModeError> {
        let layer = Arc::clone(self);
        let changing = async move { ModeChangeContext::of(&layer).apply(&request).await };
        let changing = AssertUnwindSafe(changing).catch_unwind();
        let mut changing = Box::pin(changing);
        // Polled here first, so that changes queue in the order of the requests. Of two spawned tasks the
        // later one could take the lock first, and a request to leave LOCKDOWN would be applied after a later
        // request for LOCKDOWN.
        let changed = match poll_fn(|context| Poll::Ready(changing.poll_unpin(context))).await {
            Poll::Ready(changed) => Ok(changed),
            Poll::Pending => tokio::spawn(changing).await,
        };
        let fault = || Err(ModeError::NotRecorded("an internal fault in Sinew".to_owned()));
        changed.ok().and_then(Result::ok).unwrap_or_else(fault)
    }
}

/// Parts of the layer that a mode change uses.
pub(super) struct ModeChangeContext<'a> {
    modes: &'a ModeControl,
    current: &'a CurrentPolicy,
    capacity: &'a Capacity,
    approvals: &'a Approvals,
    active_calls: &'a ActiveCalls,
    ledger: &'a Ledger,
}

impl<'a> ModeChangeContext<'a> {
    pub(super) fn of(layer: &'a ToolExecutionLayer) -> Self {
        ModeChangeContext {
            modes: &layer.modes,
            current: &layer.current,
            capacity: &layer.capacity,
            approvals: &layer.approvals,
            active_calls: &layer.active_calls,
            ledger: &layer.recorder.ledger,
        }
    }

    /// Applies one change at a time, so that the last recorded mode is the current one.
    async fn apply(&self, request: &ModeChangeRequest) -> Result<ModeChangeResult, ModeError> {
        let turn = self.modes.lock.lock().await;
        self.apply_in_turn(request, &turn).await
    }

    /// Applies a change while the caller holds the turn.
    pub(super) async fn apply_in_turn(
        &self,
        request: &ModeChangeRequest,
        _turn: &tokio::sync::MutexGuard<'_, ()>,
    ) -> Result<ModeChangeResult, ModeError> {
        let (from, to) = (self.current.mode.get(), request.to);
        if from == to || request.from.is_some_and(|expected| expected != from) {
            if from == to && !request.by_fleet {
                self.modes.fleet.note_local(to);
            }
            return Ok(ModeChangeResult { previous: from, recorded: true });
        }
        if let Some(fleet) = self.modes.fleet.forbids(to).filter(|_| !request.by_fleet) {
            tracing::warn!(%from, %to, %fleet, by = request.by, "mode_change_refused");
            return Err(ModeError::RestrictedByFleet { fleet });
        }
        if request.changed_by == ChangedBy::Human && !is_human_edge(from, to) {
            tracing::warn!(%from, %to, by = request.by, "mode_change_refused");
            return Err(ModeError::NoTransition { from, to, allowed: modes_settable_from(from).collect() });
        }
        let is_proven = request.proof.is_some() || !self.approvals.pin().is_set();
        if request.changed_by == ChangedBy::Human && ModeChangeResult::needs_pin(from, to) && !is_proven {
            return Err(ModeError::PinRequired);
        }
        if !request.by_fleet {
            self.modes.fleet.note_local(to);
        }
        let change = request.to_ledger_entry(from);
        let recorded = if ModeChangeResult::loosens(to) {
            let recorded = self.modes.record(self.ledger, change.clone()).await;
            recorded.map_err(|error| ModeError::NotRecorded(error.to_string()))?;
            self.enter(&change, request.changed_by);
            true
        } else {
            self.enter(&change, request.changed_by);
            self.modes.record_or_defer(self.ledger, change).await
        };
        let (reason, by, sensors) = (&request.reason, &request.by, request.sensors.as_ref());
        emit(TelemetryEvent::ModeTransition { from, to, reason, by, sensors });
        Ok(ModeChangeResult { previous: from, recorded })
    }

    /// Puts a mode into effect, also for waiting and running calls.
    fn enter(&self, change: &ModeChange, by: ChangedBy) {
        self.current.mode.set(change);
        // Must precede the change of the version, after which waiting calls are judged again.
        self.current.end_recording_for_mode(self.ledger, change.to);
        self.modes.watch.machine().enter(change.to, self.modes.watch.now(), by);
        self.capacity.limits.set_capacity(self.current.max_running_calls());
        self.current.changes.send_modify(|changes| *changes += 1);
        self.current.stop_forbidden_calls(self.active_calls);
        self.modes.watch.wake();
    }
}

impl ModeControl {
    async fn record_or_defer(&self, ledger: &Ledger, change: ModeChange) -> bool {
        match self.record_stricter(ledger, change.clone()).await {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(%error, to = %change.to, "the mode is in effect, but could not be recorded yet");
                self.unrecorded.lock().push(change);
                false
            }
        }
    }

    /// Writes a change to disk, after the deferred ones.
    async fn record(&self, ledger: &Ledger, change: ModeChange) -> Result<(), LedgerError> {
        self.write_deferred(ledger).await?;
        ledger.append_durably(&LedgerEntry::Mode(change)).await.map(|_| ())
    }

    /// Like `record`, for a stricter mode: it also uses the space that the ledger reserves on a full
    /// disk.
    async fn record_stricter(&self, ledger: &Ledger, change: ModeChange) -> Result<(), LedgerError> {
        self.write_deferred(ledger).await?;
        ledger.append_final(&LedgerEntry::Mode(change)).await.map(|_| ())
    }

    async fn write_deferred(&self, ledger: &Ledger) -> Result<(), LedgerError> {
        let unrecorded = self.unrecorded.lock().clone();
        for change in unrecorded {
            ledger.append_final(&LedgerEntry::Mode(change)).await?;
            self.unrecorded.lock().remove(0);
        }
        Ok(())
    }

    /// Records the deferred changes after the ledger has become available again.
    pub(crate) async fn record_deferred(&self, ledger: &Ledger) {
        let _turn = self.lock.lock().await;
        if let Err(error) = self.write_deferred(ledger).await {
            tracing::error!(%error, "a mode change is still not recorded");
        }
    }
}

/// Reports a proposed mode change to the operator: in the ledger, in the log and in the status.
pub(crate) fn report_proposal(ledger: &Ledger, transition: &ModeTransition) {
    let (from, to, reason) = (transition.from, transition.to, transition.reason());
    tracing::warn!(%from, %to, reason, "mode_change_proposed: `sinew mode set {to}` confirms it");
    let data = json!({"from": from, "to": to, "sensors": transition.sensors()});
    let note = NoteEntry { about: "mode_proposal".to_owned(), text: reason, data };
    if let Err(error) = ledger.append(&LedgerEntry::Note(note)) {
        tracing::error!(%error, "a mode change proposal could not be recorded");
    }
}
