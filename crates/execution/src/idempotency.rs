//! Idempotency keys: a call with a key is never run twice. A repeated call gets the recorded outcome of the
//! first one. The output of the tool is not stored and cannot be returned again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use ledger::entry::{LedgerOutcome, RecordedDecision};
use ledger::{Ledger, LedgerEntry, LedgerError, OutcomeStatus, RecordFilter};
use tokio_util::sync::CancellationToken;
use tool::{CallId, Refusal, RefusalCode};

use crate::call::PipelineCall;
use crate::pipeline::PipelineHalt;
use crate::recorder;

/// Lifetime of a key.
const KEY_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Smallest number of keys at which expired ones are removed.
const MIN_KEYS_PRUNED: usize = 1024;

/// Idempotency keys of the calls in the pipeline and of the last day. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct IdempotencyKeys {
    /// Keys of the calls in the pipeline.
    active: Arc<Mutex<HashMap<String, CancellationToken>>>,
    /// Decided calls of the last day by key. Read from the ledger before the first use, so that neither a repeat
    /// nor a new key depends on the index.
    recent: Arc<OnceLock<Mutex<DecidedCalls>>>,
}

/// Exclusive claim of a call on its key, held until the outcome is recorded.
pub(crate) struct KeyClaim {
    key: String,
    keys: IdempotencyKeys,
    ended: CancellationToken,
}

#[derive(Default)]
struct DecidedCalls {
    /// Calls of each key, oldest first.
    by_key: HashMap<String, Vec<(CallId, Timestamp)>>,
    /// Number of keys at which expired ones are removed.
    prune_at: usize,
}

/// Earlier call with the same key that was run.
#[derive(Debug)]
pub(crate) struct EarlierCall {
    pub(crate) decision: RecordedDecision,
    /// Recorded outcome, if there is one.
    pub(crate) outcome: Option<LedgerOutcome>,
    pub(crate) at: Timestamp,
}

impl IdempotencyKeys {
    /// Claims a key, or returns a token that is cancelled when the current holder releases it.
    fn claim(&self, key: &str) -> Result<KeyClaim, CancellationToken> {
        let mut active = lock(&self.active);
        if let Some(ended) = active.get(key) {
            return Err(ended.clone());
        }
        let ended = CancellationToken::new();
        active.insert(key.to_owned(), ended.clone());
        Ok(KeyClaim { key: key.to_owned(), keys: self.clone(), ended })
    }

    /// Calls of a key in the last day, oldest first. Blocking at the first use.
    fn calls(&self, ledger: &Ledger, key: &str) -> Result<Vec<CallId>, LedgerError> {
        let calls = match self.recent.get() {
            Some(calls) => calls,
            None => {
                let restored = DecidedCalls::restore(ledger)?;
                // Two calls may restore at once. Neither has added a decision, which needs the restored value.
                let _ = self.recent.set(Mutex::new(restored));
                self.recent.get().ok_or(LedgerError::Closed)?
            }
        };
        let oldest = oldest_valid();
        let calls = lock(calls);
        let of_key = calls.by_key.get(key).into_iter().flatten();
        Ok(of_key.filter(|(_, at)| *at >= oldest).map(|(call, _)| *call).collect())
    }
}

impl KeyClaim {
    /// Remembers that this call was decided with the key.
    pub(crate) fn remember(&self, call: CallId) {
        if let Some(calls) = self.keys.recent.get() {
            lock(calls).add(self.key.clone(), call, Timestamp::now());
        }
    }
}

impl DecidedCalls {
    fn restore(ledger: &Ledger) -> Result<Self, LedgerError> {
        let mut calls = DecidedCalls::default();
        for record in ledger.reader().decisions_with_key(oldest_valid())? {
            if let LedgerEntry::Decision(decision) = record.entry
                && let Some(key) = decision.idempotency_key
            {
                calls.add(key, decision.call.call_id, record.time);
            }
        }
        Ok(calls)
    }

    fn add(&mut self, key: String, call: CallId, at: Timestamp) {
        if self.by_key.len() >= self.prune_at {
            let oldest = oldest_valid();
            self.by_key.retain(|_, calls| calls.last().is_some_and(|(_, at)| *at >= oldest));
            self.prune_at = (2 * self.by_key.len()).max(MIN_KEYS_PRUNED);
        }
        self.by_key.entry(key).or_default().push((call, at));
    }
}

/// Time of the oldest decision whose key is still valid.
fn oldest_valid() -> Timestamp {
    Timestamp::now() - KEY_LIFETIME
}

fn lock<T>(map: &Mutex<T>) -> MutexGuard<'_, T> {
    // Both maps are consistent after every statement, so a panic elsewhere cannot have broken them.
    map.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for KeyClaim {
    fn drop(&mut self) {
        lock(&self.keys.active).remove(&self.key);
        self.ended.cancel();
    }
}

/// Claims the key of a call, and halts the call if the key was used before. If another call in the pipeline
/// holds the key, this one waits for it to end.
pub(crate) async fn claim_key(
    keys: &IdempotencyKeys,
    ledger: &Arc<Ledger>,
    call: &PipelineCall,
) -> Result<(), PipelineHalt> {
    let Some(key) = call.idempotency_key.as_ref().map(|key| key.scoped_digest.as_str()) else {
        return Ok(());
    };
    if call.key_claim.get().is_some() {
        return Ok(());
    }
    loop {
        match keys.claim(key) {
            Ok(claim) => break drop(call.key_claim.set(claim)),
            Err(ended) => call.within_deadline(ended.cancelled()).await?,
        }
    }
    match find_earlier_call(keys, ledger, call).await? {
        None => Ok(()),
        Some(earlier) => Err(PipelineHalt::Repeated(Box::new(earlier))),
    }
}

/// Returns the earlier call with the key of this one, if there is one. Refuses a key that was used for a
/// different call.
pub(crate) async fn find_earlier_call(
    keys: &IdempotencyKeys,
    ledger: &Arc<Ledger>,
    call: &PipelineCall,
) -> Result<Option<EarlierCall>, Box<Refusal>> {
    let Some(key) = call.idempotency_key.as_ref() else { return Ok(None) };
    let (keys, ledger, key) = (keys.clone(), Arc::clone(ledger), key.scoped_digest.clone());
    let reading =
        tokio::task::spawn_blocking(move || read_earlier_call(&ledger, &keys.calls(&ledger, &key)?));
    let found = match call.within_deadline(reading).await? {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return Err(recorder::ledger_unavailable(&call.tool_name, &error)),
        Err(_) => return Err(key_lookup_failed(call)),
    };
    match found {
        Some(earlier) if !earlier.matches(call) => Err(conflict(call, &earlier)),
        found => Ok(found),
    }
}

/// Returns the newest of these calls that may have had an effect.
fn read_earlier_call(ledger: &Ledger, calls: &[CallId]) -> Result<Option<EarlierCall>, LedgerError> {
    for call_id in calls.iter().rev() {
        let records = ledger.query(&RecordFilter { call_id: Some(*call_id), ..RecordFilter::default() })?;
        let (mut is_found, mut outcome) = (false, None);
        // Newest first. A call can be decided again under its id, so the outcome of a decision is the one read last.
        for record in records {
            match record.entry {
                LedgerEntry::Outcome(concluded) => outcome = Some(concluded.outcome),
                LedgerEntry::Decision(decision) => {
                    is_found = true;
                    let outcome = outcome.take();
                    if outcome.as_ref().is_none_or(|outcome| outcome.status != OutcomeStatus::NotStarted) {
                        return Ok(Some(EarlierCall { decision, outcome, at: record.time }));
                    }
                }
                _ => {}
            }
        }
        if !is_found {
            let reason = format!("call {call_id} with this idempotency key is not in the ledger any more");
            return Err(LedgerError::Unavailable { reason: reason.into() });
        }
    }
    Ok(None)
}

impl EarlierCall {
    fn matches(&self, call: &PipelineCall) -> bool {
        let tool = call.snapshot.registry.get(&call.tool_name).map(|tool| tool.definition().name().as_str());
        tool == Some(self.decision.call.tool.as_str())
            && call.idempotency_key.as_ref().map(|key| &key.request_digest)
                == self.decision.request_digest.as_ref()
    }
}

fn conflict(call: &PipelineCall, earlier: &EarlierCall) -> Box<Refusal> {
    let tool = &earlier.decision.call.tool;
    let reason =
        format!("This idempotency key was used for another call of {tool}: its arguments or folder differ");
    let refusal = Refusal::new(&call.tool_name, RefusalCode::Conflict, reason).with_detail("duplicate_id");
    let refusal = refusal
        .with_hint("nothing was run; use a new key for a new call, and the same key only to repeat a call");
    Box::new(Refusal { retryable: false, ..refusal })
}

fn key_lookup_failed(call: &PipelineCall) -> Box<Refusal> {
    let reason = "Permission denied: Sinew failed while looking for an earlier call with this key";
    let refusal = Refusal::new(&call.tool_name, RefusalCode::ResourceExhausted, reason);
    Box::new(
        refusal.with_detail("internal_fault").with_hint("nothing was run; see the daemon log for details"),
    )
}
