//! Intents: proof that a decision is recorded, and the only access to the value that was decided on.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tool::CallId;

use crate::{
    LedgerError, RecordReceipt,
    deferred::RequiredDurability,
    entry::{CallHeader, LedgerOutcome, OutcomeStatus},
    shared::LedgerShared,
};

/// Value that may be acted on, because the decision is recorded, or deferred if the ledger may allow
/// read-only calls while unavailable. Only [`Ledger::intend`](crate::Ledger::intend) creates it, and its
/// value cannot be replaced.
///
/// ```compile_fail
/// let forged = ledger::Intent { value: "run me", call: todo!(), receipt: todo!(), care: todo!(), shared: todo!(), concluded: todo!() };
/// ```
///
/// The ledger records an intent that is dropped without [`Ledger::conclude`](crate::Ledger::conclude) as
/// `unknown`.
pub struct Intent<T> {
    value: T,
    call: Arc<CallHeader>,
    receipt: RecordReceipt,
    care: RequiredDurability,
    shared: Arc<LedgerShared>,
    concluded: AtomicBool,
}

impl<T> Intent<T> {
    pub(crate) fn new(
        value: T,
        call: Arc<CallHeader>,
        receipt: RecordReceipt,
        care: RequiredDurability,
        shared: Arc<LedgerShared>,
    ) -> Self {
        Intent { value, call, receipt, care, shared, concluded: AtomicBool::new(false) }
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

    /// Returns the receipt of the decision.
    pub fn receipt(&self) -> RecordReceipt {
        self.receipt
    }

    pub(crate) fn conclude(&self, outcome: LedgerOutcome) -> Result<RecordReceipt, LedgerError> {
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
        if !self.concluded.load(Ordering::Acquire) {
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
            .field("receipt", &self.receipt)
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
