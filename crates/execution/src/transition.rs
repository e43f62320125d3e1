//! A change of the mode: along an edge, on record, and with what it means for calls that wait or run.
//!
//! A mode that is looser holds once it is on disk: calls that ran by it are never older than its record. A stricter mode
//! holds at once: what the record owes is written when it can be, and a crash before that leaves the looser one.

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

/// A change that somebody or something wants.
#[derive(Debug)]
pub(crate) struct Wish {
    /// The mode it was wished in, where that matters.
    from: Option<Mode>,
    to: Mode,
    reason: String,
    /// A rule's name or a person.
    by: String,
    who: ChangedBy,
    /// Where a human wants it: that it is them.
    proof: Option<OperatorProof>,
    /// What the sensors said.
    sensors: Option<Value>,
}

impl Wish {
    /// What a rule of the file wants.
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

/// Whether a person made this change.
pub(crate) fn was_human(change: &ModeChange) -> bool {
    change.data.get("human").and_then(Value::as_bool).unwrap_or(false)
}

fn redacted(text: &str) -> String {
    redact::shared().redact_text(text).into_owned()
}

/// Changes that hold and could not be recorded yet, oldest first.
#[derive(Default)]
pub(crate) struct OwedChanges(Mutex<Vec<ModeChange>>);

impl OwedChanges {
    fn list(&self) -> MutexGuard<'_, Vec<ModeChange>> {
        // The list is whole after every statement, so a panic elsewhere cannot have broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ToolExecutionLayer {
    /// Changes the mode because a human says so: along the edges, and into LOCKDOWN from anywhere. It happens even if
    /// whoever asked goes away; staying in a mode writes nothing. Where it takes the PIN, that is found out by the mode it
    /// is left in its turn, whatever it was when the human asked.
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
        // Begun here, where it takes its turn: of two tasks the later one could come to it first, and a way out of LOCKDOWN would
        // be taken after the LOCKDOWN that was asked for behind it.
        let changed = match poll_fn(|context| Poll::Ready(changing.poll_unpin(context))).await {
            Poll::Ready(changed) => Ok(changed),
            Poll::Pending => tokio::spawn(changing).await,
        };
        let fault = || Err(ModeError::NotRecorded("a fault inside Sinew".to_owned()));
        changed.ok().and_then(Result::ok).unwrap_or_else(fault)
    }

    /// One change at a time: what is on record last is what holds.
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

    /// Makes a mode hold, for calls that wait and run too.
    fn enter(&self, mode: Mode, by: ChangedBy) {
        self.mode.set(mode);
        self.watch.machine().enter(mode, self.watch.now(), by);
        self.limits.set_places(self.places());
        self.changes.send_modify(|changes| *changes += 1);
        self.cancel_forbidden();
        self.watch.wake();
    }

    /// Ends running calls that the current mode forbids, where it says so, and whatever is kept for more of them. Those that
    /// would need a human now had no need of one when they began, and come to their end.
    pub(crate) fn cancel_forbidden(&self) {
        let (world, mode) = (self.world.load(), self.mode.get());
        let is_forbidden = |definition: &ToolDefinition| !world.policy.offers(definition, mode);
        match world.policy.running_calls(mode) {
            RunningCalls::Finish => world.let_go(Whose::Everybodys, is_forbidden),
            // Where calls are cut short, nothing is left over from before.
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
                tracing::error!(%error, to = %change.to, "the mode holds, but could not be recorded yet");
                self.owed_changes.list().push(change);
                false
            }
        }
    }

    /// On disk when this returns, and after whatever was owed before it.
    async fn record_mode(&self, change: ModeChange) -> Result<(), LedgerError> {
        self.pay_modes().await?;
        self.ledger.append_durably(&Entry::Mode(change)).await.map(|_| ())
    }

    /// The same for a stricter mode, which a full disk must not make forgotten.
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

    /// Records what is owed, now that records are taken again.
    pub(crate) async fn settle_modes(&self) {
        let _turn = self.mode_turn.lock().await;
        if let Err(error) = self.pay_modes().await {
            tracing::error!(%error, "a change of the mode is still not recorded");
        }
    }

    /// Puts a proposal where a human finds it: on record, in the log and in the status.
    pub(crate) fn propose(&self, transition: &Transition) {
        let (from, to, reason) = (transition.from, transition.to, transition.reason());
        tracing::warn!(%from, %to, reason, "mode_change_proposed: `sinew mode set {to}` confirms it");
        let data = json!({"from": from, "to": to, "sensors": transition.sensors()});
        let note = Note { about: "mode_proposal".to_owned(), text: reason, data };
        if let Err(error) = self.ledger.append(&Entry::Note(note)) {
            tracing::error!(%error, "a proposal could not be recorded");
        }
    }
}
