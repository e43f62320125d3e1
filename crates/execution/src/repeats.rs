//! Calls that their callers marked with a key: none of them runs twice. Who repeats one is told how it ended, from the
//! record; what the tool answered then is kept nowhere, and cannot be told again.

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

/// How long a key stands for its call.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// One key may have been decided on this often without anything being started; more is not looked through.
const MOST_DECISIONS: usize = 64;

/// The keys of calls that are on the road.
#[derive(Clone, Default)]
pub(crate) struct Keys(Arc<Mutex<HashMap<String, CancellationToken>>>);

/// A key that is this call's alone until its end is on record.
pub(crate) struct Claim {
    key: String,
    keys: Keys,
    ended: CancellationToken,
}

/// A call of the same key that was run.
#[derive(Debug)]
pub(crate) struct Earlier {
    pub(crate) decision: Decision,
    /// How it ended, as far as anybody knows.
    pub(crate) outcome: Option<Outcome>,
    pub(crate) at: Timestamp,
}

impl Keys {
    /// The key, or when whoever has it is through.
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
        // The map is whole after every statement, so a panic elsewhere cannot have broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.keys.list().remove(&self.key);
        self.ended.cancel();
    }
}

/// Stops a call whose key was used before. While another one with the key is on the road, this one waits for its end;
/// the key is then its own, until its own end is on record.
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

/// The call that was run under the key of this one, if there is one. A key that stands for another call is refused.
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

/// The newest call of this key of which anything may have happened.
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
        // A call that was overtaken is decided again under the same id: the end of a decision is the first after it.
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
        format!("This idempotency key stands for another call, of {tool}, with other arguments or elsewhere");
    let refusal = Refusal::new(&call.tool_name, RefusalCode::Conflict, reason).detail("duplicate_id");
    let refusal =
        refusal.hint("nothing was run; use a new key for a new call, and the same only to repeat one");
    Box::new(Refusal { retryable: false, ..refusal })
}

fn unreadable(call: &Call) -> Box<Refusal> {
    let reason = "Permission denied: Sinew failed while looking for an earlier call of this key";
    let refusal = Refusal::new(&call.tool_name, RefusalCode::ResourceExhausted, reason);
    Box::new(refusal.detail("internal_fault").hint("nothing was run; the log has the place"))
}
