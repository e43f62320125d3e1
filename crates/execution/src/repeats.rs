//! Idempotency keys: a call with a key is never run twice. A repeated call gets the recorded outcome of the
//! first one. The output of the tool is not stored and cannot be returned again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use ledger::entry::{Concluded, Decision, Outcome};
use ledger::{Entry, Filter, Ledger, LedgerError, Status};
use tokio_util::sync::CancellationToken;
use tool::{Refusal, RefusalCode};

use crate::call::Call;
use crate::layer::ToolExecutionLayer;
use crate::pipeline::Halt;
use crate::recorder;

/// Lifetime of a key.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of decisions per key that are searched. A call that is decided again before it starts has
/// several.
const MOST_DECISIONS: usize = 64;

/// Keys of the calls in the pipeline.
#[derive(Clone, Default)]
pub(crate) struct Keys(Arc<Mutex<HashMap<String, CancellationToken>>>);

/// Exclusive claim of a call on its key, held until the outcome is recorded.
pub(crate) struct Claim {
    key: String,
    keys: Keys,
    ended: CancellationToken,
}

/// Earlier call with the same key that was run.
#[derive(Debug)]
pub(crate) struct Earlier {
    pub(crate) decision: Decision,
    /// Recorded outcome, if there is one.
    pub(crate) outcome: Option<Outcome>,
    pub(crate) at: Timestamp,
}

impl Keys {
    /// Claims a key, or returns a token that is cancelled when the current holder releases it.
    fn claim(&self, key: &str) -> Result<Claim, CancellationToken> {
        let mut taken = self.list();
        if let Some(ended) = taken.get(key) {
            return Err(ended.clone());
        }
        let ended = CancellationToken::new();
        taken.insert(key.to_owned(), ended.clone());
        Ok(Claim { key: key.to_owned(), keys: self.clone(), ended })
    }

    fn list(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        // The map is consistent after every statement, so a panic elsewhere cannot have broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.keys.list().remove(&self.key);
        self.ended.cancel();
    }
}

/// Claims the key of a call, and halts the call if the key was used before. If another call in the pipeline
/// holds the key, this one waits for it to end.
pub(crate) async fn stop_repeat(layer: &ToolExecutionLayer, call: &Call) -> Result<(), Halt> {
    let Some(key) = call.key.as_ref().map(|key| key.scoped.as_str()) else { return Ok(()) };
    if call.claim.get().is_some() {
        return Ok(());
    }
    loop {
        match layer.keys.claim(key) {
            Ok(claim) => break drop(call.claim.set(claim)),
            Err(ended) => call.in_time(ended.cancelled()).await?,
        }
    }
    match ran_before(layer, call).await? {
        None => Ok(()),
        Some(earlier) => Err(Halt::Repeated(Box::new(earlier))),
    }
}

/// Returns the earlier call with the key of this one, if there is one. Refuses a key that was used for a
/// different call.
pub(crate) async fn ran_before(
    layer: &ToolExecutionLayer,
    call: &Call,
) -> Result<Option<Earlier>, Box<Refusal>> {
    let Some(key) = call.key.as_ref() else { return Ok(None) };
    let (ledger, wanted) = (Arc::clone(&layer.ledger), key.scoped.clone());
    let reading = tokio::task::spawn_blocking(move || earlier(&ledger, &wanted));
    let found = match call.in_time(reading).await? {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return Err(recorder::unavailable(&call.tool_name, &error)),
        Err(_) => return Err(unreadable(call)),
    };
    match found {
        Some(earlier) if !earlier.is_the_same(call) => Err(conflict(call, &earlier)),
        found => Ok(found),
    }
}

/// Returns the newest call with this key that may have had an effect.
fn earlier(ledger: &Ledger, key: &str) -> Result<Option<Earlier>, LedgerError> {
    let since = SystemTime::now().checked_sub(KEPT).and_then(|since| Timestamp::try_from(since).ok());
    let filter = Filter {
        kind: Some("decision".to_owned()),
        idempotency_key: Some(key.to_owned()),
        since,
        limit: Some(MOST_DECISIONS),
        ..Filter::default()
    };
    for record in ledger.query(&filter)? {
        let Entry::Decision(decision) = record.entry else { continue };
        let ends = Filter {
            kind: Some("outcome".to_owned()),
            call_id: Some(decision.call.call_id),
            after_seq: Some(record.seq),
            ..Filter::default()
        };
        // A call can be decided again under the same id, so the outcome of a decision is the first one after
        // it.
        let outcome = ledger.query(&ends)?.pop().and_then(|record| match record.entry {
            Entry::Outcome(Concluded { outcome, .. }) => Some(outcome),
            _ => None,
        });
        if outcome.as_ref().is_some_and(|outcome| outcome.status == Status::NotStarted) {
            continue;
        }
        return Ok(Some(Earlier { decision, outcome, at: record.time }));
    }
    Ok(None)
}

impl Earlier {
    fn is_the_same(&self, call: &Call) -> bool {
        let tool = call.world.registry.get(&call.tool_name).map(|tool| tool.definition().name().as_str());
        tool == Some(self.decision.call.tool.as_str())
            && call.key.as_ref().map(|key| &key.request) == self.decision.request_digest.as_ref()
    }
}

fn conflict(call: &Call, earlier: &Earlier) -> Box<Refusal> {
    let tool = &earlier.decision.call.tool;
    let reason =
        format!("This idempotency key was used for another call of {tool}: its arguments or folder differ");
    let refusal = Refusal::new(&call.tool_name, RefusalCode::Conflict, reason).detail("duplicate_id");
    let refusal =
        refusal.hint("nothing was run; use a new key for a new call, and the same key only to repeat a call");
    Box::new(Refusal { retryable: false, ..refusal })
}

fn unreadable(call: &Call) -> Box<Refusal> {
    let reason = "Permission denied: Sinew failed while looking for an earlier call with this key";
    let refusal = Refusal::new(&call.tool_name, RefusalCode::ResourceExhausted, reason);
    Box::new(refusal.detail("internal_fault").hint("nothing was run; see the daemon log for details"))
}
