//! Mode changes: along the allowed transitions, recorded, and applied to waiting and running calls.
//!
//! A looser mode takes effect once it is on disk, so no call that runs under it is older than its record. A
//! stricter mode takes effect at once: if the ledger is unavailable, the change is recorded later, and a
//! crash before that leaves the looser mode.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures_util::FutureExt;
use governance::files::RunningCalls;
use governance::{ChangedBy, Transition, a_human_may_lead, ways_out};
use ledger::entry::{ModeChange, Note};
use ledger::{Entry, LedgerError};
use registry::Whose;
use serde_json::{Value, json};
use telemetry::{Event, emit, redact};
use tool::{Caller, Mode, ToolDefinition};

use crate::approvals::OperatorProof;
use crate::layer::ToolExecutionLayer;
use crate::mode::{ModeError, ModeSet};

/// Mode change requested by a rule or by the operator.
#[derive(Debug)]
pub(crate) struct Wish {
    /// Mode in which a rule requested the change.
    from: Option<Mode>,
    to: Mode,
    reason: String,
    /// Name of the rule or of the operator.
    by: String,
    who: ChangedBy,
    /// Proof of the operator, if the operator requested the change.
    proof: Option<OperatorProof>,
    /// Measured values that triggered the rule.
    sensors: Option<Value>,
}

impl Wish {
    /// Request by a rule of the policy.
    pub(crate) fn of_rule(transition: &Transition) -> Self {
        Wish {
            from: Some(transition.from),
            to: transition.to,
            reason: transition.reason(),
            by: transition.rule.id.to_string(),
            who: ChangedBy::Rule,
            proof: None,
            sensors: Some(transition.sensors()),
        }
    }

    fn of_human(to: Mode, reason: &str, by: &Caller, proof: Option<OperatorProof>) -> Self {
        let (reason, by) = (redacted(reason), redacted(&by.display_name()));
        Wish { from: None, to, reason, by, who: ChangedBy::Human, proof, sensors: None }
    }

    fn on_record(&self, from: Mode) -> ModeChange {
        let mut data = json!({"human": self.who == ChangedBy::Human});
        if let (Some(data), Some(sensors)) = (data.as_object_mut(), &self.sensors) {
            data.insert("sensors".to_owned(), sensors.clone());
        }
        ModeChange { from, to: self.to, reason: self.reason.clone(), by: Some(self.by.clone()), data }
    }
}

/// Returns true if the operator made this change.
pub(crate) fn was_human(change: &ModeChange) -> bool {
    change.data.get("human").and_then(Value::as_bool).unwrap_or(false)
}

fn redacted(text: &str) -> String {
    redact::shared().redact_text(text).into_owned()
}

/// Mode changes that are in effect and could not be recorded yet, oldest first.
#[derive(Default)]
pub(crate) struct OwedChanges(Mutex<Vec<ModeChange>>);

impl OwedChanges {
    fn list(&self) -> MutexGuard<'_, Vec<ModeChange>> {
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
    ) -> Result<ModeSet, ModeError> {
        self.change_mode(Wish::of_human(to, reason, by, proof)).await
    }

    pub(crate) async fn change_mode(self: &Arc<Self>, wish: Wish) -> Result<ModeSet, ModeError> {
        let layer = Arc::clone(self);
        let changing = AssertUnwindSafe(async move { layer.change_in_turn(&wish).await }).catch_unwind();
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

    /// Applies one change at a time, so that the last recorded mode is the current one.
    async fn change_in_turn(&self, wish: &Wish) -> Result<ModeSet, ModeError> {
        let _turn = self.mode_turn.lock().await;
        let (from, to) = (self.mode.get(), wish.to);
        if from == to || wish.from.is_some_and(|expected| expected != from) {
            return Ok(ModeSet { previous: from, recorded: true });
        }
        if wish.who == ChangedBy::Human && !a_human_may_lead(from, to) {
            tracing::warn!(%from, %to, by = wish.by, "mode_change_refused");
            return Err(ModeError::NoWay { from, to, ways: ways_out(from).collect() });
        }
        let is_proven = wish.proof.is_some() || !self.approvals.pin_is_set();
        if wish.who == ChangedBy::Human && ModeSet::needs_pin(from, to) && !is_proven {
            return Err(ModeError::Unproven);
        }
        let change = wish.on_record(from);
        let recorded = if ModeSet::loosens(to) {
            self.record_mode(change).await.map_err(|error| ModeError::NotRecorded(error.to_string()))?;
            self.enter(to, wish.who);
            true
        } else {
            self.enter(to, wish.who);
            self.record_or_owe(change).await
        };
        let (reason, by, sensors) = (&wish.reason, &wish.by, wish.sensors.as_ref());
        emit(Event::ModeTransition { from, to, reason, by, sensors });
        Ok(ModeSet { previous: from, recorded })
    }

    /// Puts a mode into effect, also for waiting and running calls.
    fn enter(&self, mode: Mode, by: ChangedBy) {
        self.mode.set(mode);
        self.watch.machine().enter(mode, self.watch.now(), by);
        self.limits.set_places(self.places());
        self.changes.send_modify(|changes| *changes += 1);
        self.cancel_forbidden();
        self.watch.wake();
    }

    /// Stops running calls that the current mode forbids, if the policy cancels running calls in this mode,
    /// and releases what tools keep for further calls. A call that would now require approval continues,
    /// because it required none when it was started.
    pub(crate) fn cancel_forbidden(&self) {
        let (world, mode) = (self.world.load(), self.mode.get());
        let is_forbidden = |definition: &ToolDefinition| !world.policy.offers(definition, mode);
        match world.policy.running_calls(mode) {
            RunningCalls::Finish => world.let_go(Whose::Everybodys, is_forbidden),
            // If calls are cancelled, no tool keeps anything from before.
            RunningCalls::Cancel => {
                self.calls.forbid(is_forbidden);
                world.let_go(Whose::Everybodys, |_| true);
            }
        }
    }

    async fn record_or_owe(&self, change: ModeChange) -> bool {
        match self.record_last(change.clone()).await {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(%error, to = %change.to, "the mode is in effect, but could not be recorded yet");
                self.owed_changes.list().push(change);
                false
            }
        }
    }

    /// Writes a change to disk, after the deferred ones.
    async fn record_mode(&self, change: ModeChange) -> Result<(), LedgerError> {
        self.pay_modes().await?;
        self.ledger.append_durably(&Entry::Mode(change)).await.map(|_| ())
    }

    /// Like `record_mode`, for a stricter mode: it also uses the space that the ledger reserves on a full
    /// disk.
    async fn record_last(&self, change: ModeChange) -> Result<(), LedgerError> {
        self.pay_modes().await?;
        self.ledger.append_last(&Entry::Mode(change)).await.map(|_| ())
    }

    async fn pay_modes(&self) -> Result<(), LedgerError> {
        let owed = self.owed_changes.list().clone();
        for change in owed {
            self.ledger.append_last(&Entry::Mode(change)).await?;
            self.owed_changes.list().remove(0);
        }
        Ok(())
    }

    /// Records the deferred changes after the ledger has become available again.
    pub(crate) async fn settle_modes(&self) {
        let _turn = self.mode_turn.lock().await;
        if let Err(error) = self.pay_modes().await {
            tracing::error!(%error, "a mode change is still not recorded");
        }
    }

    /// Reports a proposed mode change to the operator: in the ledger, in the log and in the status.
    pub(crate) fn propose(&self, transition: &Transition) {
        let (from, to, reason) = (transition.from, transition.to, transition.reason());
        tracing::warn!(%from, %to, reason, "mode_change_proposed: `sinew mode set {to}` confirms it");
        let data = json!({"from": from, "to": to, "sensors": transition.sensors()});
        let note = Note { about: "mode_proposal".to_owned(), text: reason, data };
        if let Err(error) = self.ledger.append(&Entry::Note(note)) {
            tracing::error!(%error, "a mode change proposal could not be recorded");
        }
    }
}
