//! Intents: proof that a decision is recorded, and the only access to the value that was decided on.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use tool::CallId;

use crate::{
    LedgerError, RecordReceipt,
    deferred::RequiredDurability,
    entry::{CallHeader, LedgerOutcome, OutcomeStatus, RecordedDecision, RecordedRead},
    shared::{LedgerShared, lock},
};

/// Value that may be acted on, because its decision is recorded, deferred, or recorded with the outcome of a read.
/// Only [`Ledger::intend`](crate::Ledger::intend) and [`Ledger::intend_read`](crate::Ledger::intend_read) create it,
/// and its value cannot be replaced.
///
/// ```compile_fail
/// let forged = ledger::Intent { value: "run me", call: todo!(), decision: todo!(), care: todo!(), shared: todo!(), concluded: todo!() };
/// ```
///
/// The ledger records an intent that is dropped without [`Ledger::conclude`](crate::Ledger::conclude) as
/// `unknown`, unless its decision was to be recorded with the outcome.
pub struct Intent<T> {
    value: T,
    call: Arc<CallHeader>,
    decision: IntentDecision,
    care: RequiredDurability,
    shared: Arc<LedgerShared>,
    concluded: AtomicBool,
}

/// Record of the decision behind an intent.
pub(crate) enum IntentDecision {
    /// The decision is written or deferred.
    Recorded(RecordReceipt),
    /// The decision is written together with the outcome, which takes it.
    WithOutcome(Mutex<Option<Box<RecordedDecision>>>),
}

impl<T> Intent<T> {
    pub(crate) fn new(
        value: T,
        call: Arc<CallHeader>,
        decision: IntentDecision,
        care: RequiredDurability,
        shared: Arc<LedgerShared>,
    ) -> Self {
        Intent { value, call, decision, care, shared, concluded: AtomicBool::new(false) }
    }

    /// Returns the value that was decided on.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Returns the id of the call.
    pub fn call_id(&self) -> CallId {
        self.call.call_id
    }

    /// Returns the call with its caller and trace context, for requests that it makes to other components.
    pub fn call(&self) -> &CallHeader {
        &self.call
    }

    /// Returns the receipt of the decision, or `None` if it is recorded with the outcome.
    pub fn receipt(&self) -> Option<RecordReceipt> {
        match self.decision {
            IntentDecision::Recorded(receipt) => Some(receipt),
            IntentDecision::WithOutcome(_) => None,
        }
    }

    pub(crate) fn conclude(&self, outcome: LedgerOutcome) -> Result<RecordReceipt, LedgerError> {
        if let IntentDecision::WithOutcome(decision) = &self.decision {
            let decision = lock(decision).take().ok_or(LedgerError::AlreadyConcluded(self.call.call_id))?;
            return self.shared.record_read(RecordedRead { decision, outcome }, self.care);
        }
        let concluded = self.shared.conclude(&self.call, outcome, self.care);
        // After any other error the ledger has the outcome or will never accept it. After an encoding error
        // it never received one.
        if !matches!(concluded, Err(LedgerError::Encode(_))) {
            self.concluded.store(true, Ordering::Release);
        }
        concluded
    }
}

impl<T> Drop for Intent<T> {
    fn drop(&mut self) {
        // A read that is recorded with its outcome has no effect, and without an outcome nothing left the daemon.
        let is_recorded = matches!(self.decision, IntentDecision::Recorded(_));
        if is_recorded && !self.concluded.load(Ordering::Acquire) {
            self.shared.abandon(
                &self.call,
                OutcomeStatus::Unknown,
                "the call was dropped without an outcome",
            );
        }
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Intent<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Intent")
            .field("receipt", &self.receipt())
            .field("call", &self.call)
            .field("value", &self.value)
            .finish()
    }
}

/// Guard of a decision that is written but not yet an intent. If dropped before, it records the call as not
/// started.
pub(crate) struct PendingDecision {
    pub(crate) call: Arc<CallHeader>,
    pub(crate) shared: Arc<LedgerShared>,
    pub(crate) reason: &'static str,
    pub(crate) armed: bool,
}

impl Drop for PendingDecision {
    fn drop(&mut self) {
        if self.armed {
            self.shared.abandon(&self.call, OutcomeStatus::NotStarted, self.reason);
        }
    }
}
