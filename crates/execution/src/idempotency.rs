//! Idempotency keys: a call with a key is never run twice. A repeated call gets the recorded outcome of the
//! first one. The output of the tool is not stored and cannot be returned again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use ledger::entry::{LedgerOutcome, RecordedDecision};
use ledger::{Ledger, LedgerEntry, LedgerError, OutcomeStatus, RecordFilter};
use tokio_util::sync::CancellationToken;
use tool::{Refusal, RefusalCode};

use crate::call::PipelineCall;
use crate::pipeline::PipelineHalt;
use crate::recorder;

/// Lifetime of a key.
const KEY_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of decisions per key that are searched. A call that is decided again before it starts has
/// several.
const MAX_DECISIONS_PER_KEY: usize = 64;

/// Keys of the calls in the pipeline.
#[derive(Clone, Default)]
pub(crate) struct ActiveKeys(Arc<Mutex<HashMap<String, CancellationToken>>>);

/// Exclusive claim of a call on its key, held until the outcome is recorded.
pub(crate) struct KeyClaim {
    key: String,
    keys: ActiveKeys,
    ended: CancellationToken,
}

/// Earlier call with the same key that was run.
#[derive(Debug)]
pub(crate) struct EarlierCall {
    pub(crate) decision: RecordedDecision,
    /// Recorded outcome, if there is one.
    pub(crate) outcome: Option<LedgerOutcome>,
    pub(crate) at: Timestamp,
}

impl ActiveKeys {
    /// Claims a key, or returns a token that is cancelled when the current holder releases it.
    fn claim(&self, key: &str) -> Result<KeyClaim, CancellationToken> {
        let mut keys = self.lock();
        if let Some(ended) = keys.get(key) {
            return Err(ended.clone());
        }
        let ended = CancellationToken::new();
        keys.insert(key.to_owned(), ended.clone());
        Ok(KeyClaim { key: key.to_owned(), keys: self.clone(), ended })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        // The map is consistent after every statement, so a panic elsewhere cannot have broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for KeyClaim {
    fn drop(&mut self) {
        self.keys.lock().remove(&self.key);
        self.ended.cancel();
    }
}

/// Claims the key of a call, and halts the call if the key was used before. If another call in the pipeline
/// holds the key, this one waits for it to end.
pub(crate) async fn claim_key(
    active_keys: &ActiveKeys,
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
        match active_keys.claim(key) {
            Ok(claim) => break drop(call.key_claim.set(claim)),
            Err(ended) => call.within_deadline(ended.cancelled()).await?,
        }
    }
    match find_earlier_call(ledger, call).await? {
        None => Ok(()),
        Some(earlier) => Err(PipelineHalt::Repeated(Box::new(earlier))),
    }
}

/// Returns the earlier call with the key of this one, if there is one. Refuses a key that was used for a
/// different call.
pub(crate) async fn find_earlier_call(
    ledger: &Arc<Ledger>,
    call: &PipelineCall,
) -> Result<Option<EarlierCall>, Box<Refusal>> {
    let Some(key) = call.idempotency_key.as_ref() else { return Ok(None) };
    let (ledger, wanted) = (Arc::clone(ledger), key.scoped_digest.clone());
    let reading = tokio::task::spawn_blocking(move || query_earlier_call(&ledger, &wanted));
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

/// Returns the newest call with this key that may have had an effect.
fn query_earlier_call(ledger: &Ledger, key: &str) -> Result<Option<EarlierCall>, LedgerError> {
    let since = SystemTime::now().checked_sub(KEY_LIFETIME).and_then(|since| Timestamp::try_from(since).ok());
    let filter = RecordFilter {
        kind: Some("decision".to_owned()),
        idempotency_key: Some(key.to_owned()),
        since,
        limit: Some(MAX_DECISIONS_PER_KEY),
        ..RecordFilter::default()
    };
    for record in ledger.query(&filter)? {
        let LedgerEntry::Decision(decision) = record.entry else { continue };
        let ends = RecordFilter {
            kind: Some("outcome".to_owned()),
            call_id: Some(decision.call.call_id),
            after_seq: Some(record.seq),
            ..RecordFilter::default()
        };
        // A call can be decided again under the same id, so the outcome of a decision is the first one after
        // it.
        let outcome = ledger.query(&ends)?.pop().and_then(|record| Some(record.entry.outcome()?.1.clone()));
        if outcome.as_ref().is_some_and(|outcome| outcome.status == OutcomeStatus::NotStarted) {
            continue;
        }
        return Ok(Some(EarlierCall { decision, outcome, at: record.time }));
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
