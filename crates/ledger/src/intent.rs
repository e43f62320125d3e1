//! An intent: the proof that a decision is in the record, and so the only way to get at what was decided.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tool::CallId;

use crate::{
    LedgerError, Receipt,
    entry::{Call, Outcome, Status},
    owed::Care,
    shared::Shared,
};

/// A value that may be acted on, because the decision to do so has been recorded, or is owed by the ledger where it was
/// told to let reads through. Made by [`Ledger::intend`](crate::Ledger::intend) alone; holds on to its value for good,
/// so that no other can be put in.
///
/// ```compile_fail
/// let forged = ledger::Intent { value: "run me", call: todo!(), receipt: todo!(), care: todo!(), shared: todo!(), concluded: todo!() };
/// ```
///
/// One that is dropped without [`Ledger::conclude`](crate::Ledger::conclude) is recorded as `unknown` by the ledger.
pub struct Intent<T> {
    value: T,
    call: Arc<Call>,
    receipt: Receipt,
    care: Care,
    shared: Arc<Shared>,
    concluded: AtomicBool,
}

impl<T> Intent<T> {
    pub(crate) fn new(value: T, call: Arc<Call>, receipt: Receipt, care: Care, shared: Arc<Shared>) -> Self {
        Intent { value, call, receipt, care, shared, concluded: AtomicBool::new(false) }
    }

    /// What was decided on.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// The call.
    pub fn call_id(&self) -> CallId {
        self.call.call_id
    }

    /// Whose call it is and where it stands in a trace, for whatever it asks elsewhere.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// Where the decision is.
    pub fn receipt(&self) -> Receipt {
        self.receipt
    }

    pub(crate) fn conclude(&self, outcome: Outcome) -> Result<Receipt, LedgerError> {
        let concluded = self.shared.conclude(&self.call, outcome, self.care);
        // Whatever else went wrong, the ledger has the outcome or will never take it; a bad entry it never saw.
        if !matches!(concluded, Err(LedgerError::Encode(_))) {
            self.concluded.store(true, Ordering::Release);
        }
        concluded
    }
}

impl<T> Drop for Intent<T> {
    fn drop(&mut self) {
        if !self.concluded.load(Ordering::Acquire) {
            self.shared.abandon(&self.call, Status::Unknown, "the call was dropped without an outcome");
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

/// A decision that is written and not yet an intent. Dropped before that, the call is recorded as not started.
pub(crate) struct Pending {
    pub(crate) call: Arc<Call>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) why: &'static str,
    pub(crate) armed: bool,
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.armed {
            self.shared.abandon(&self.call, Status::NotStarted, self.why);
        }
    }
}
