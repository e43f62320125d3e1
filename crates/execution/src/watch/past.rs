//! Restores the event counters from the ledger, so that a restart does not reset the mode rules.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ledger::entry::{Concluded, Refused};
use ledger::{Entry, Filter, LedgerError, Record, Status};
use tool::RiskLevel;

use super::ends::{RefusedCall, failed};
use super::{BEFORE_START, Counted};
use crate::layer::ToolExecutionLayer;
use crate::transition::was_human;

/// Longest window of a rule.
const HOUR: Duration = Duration::from_secs(60 * 60);
/// Maximum number of events restored per kind.
const MOST: usize = 4096;
/// Number of recent mode changes that are searched for the last one by the operator.
const CHANGES: usize = 64;

impl ToolExecutionLayer {
    /// Counts the recorded events of the last hour again. Runs on the blocking pool.
    pub(crate) async fn recall(self: &Arc<Self>) {
        let layer = Arc::clone(self);
        let recalled = tokio::task::spawn_blocking(move || layer.recall_now()).await;
        if let Ok(Err(error)) = recalled {
            tracing::error!(%error, "events before this start could not be read and are not counted");
        }
    }

    fn recall_now(&self) -> Result<(), LedgerError> {
        let since = Timestamp::now().checked_sub(HOUR).ok();
        let before_seq = Some(self.watch.began_seq.saturating_add(1));
        let of = |kind: &str| Filter { kind: Some(kind.to_owned()), before_seq, ..Filter::default() };
        for kind in ["refusal", "outcome", "retention"] {
            let recent = self.ledger.query(&Filter { since, limit: Some(MOST), ..of(kind) })?;
            for record in recent.iter().rev() {
                let at = self.moment_of(record);
                let mut counters = self.watch.counters();
                self.counted(&record.entry).into_iter().for_each(|what| counters.note(what, at));
            }
        }
        let changes = self.ledger.query(&Filter { limit: Some(CHANGES), ..of("mode") })?;
        let by_human = |record: &&Record| matches!(&record.entry, Entry::Mode(change) if was_human(change));
        if let Some(record) = changes.iter().find(by_human) {
            self.watch.machine().seen_by_human_at(self.moment_of(record));
        }
        self.watch.wake();
        Ok(())
    }

    /// Time of a record on the rule clock. A time in the future counts as now.
    fn moment_of(&self, record: &Record) -> Duration {
        let ago = self.watch.began_at.duration_since(record.time);
        BEFORE_START.saturating_sub(Duration::try_from(ago).unwrap_or(Duration::ZERO))
    }

    fn counted(&self, entry: &Entry) -> Vec<Counted> {
        match entry {
            Entry::Refusal(refused) => self.counted_refusal(refused),
            Entry::Outcome(concluded) => self.counted_outcome(concluded),
            Entry::Retention(retention) if retention.under_pressure > 0 => vec![Counted::LedgerPressure],
            _ => Vec::new(),
        }
    }

    fn counted_refusal(&self, refused: &Refused) -> Vec<Counted> {
        let refused = RefusedCall {
            code: refused.code,
            detail: refused.detail.as_deref(),
            tool: &refused.call.tool,
            connection: refused.call.caller.connection,
            risk: self.world.load().risk_of(&refused.call.tool),
        };
        refused.counted().collect()
    }

    fn counted_outcome(&self, concluded: &Concluded) -> Vec<Counted> {
        let outcome = &concluded.outcome;
        let high = self.world.load().risk_of(&concluded.call.tool) == RiskLevel::High;
        let started = high.then_some(Counted::HighRisk);
        match (outcome.status, outcome.failure) {
            (Status::NotStarted, _) => Vec::new(),
            (Status::Done, _) => started.into_iter().chain([Counted::Ended]).collect(),
            (Status::Failed | Status::Unknown, Some(kind)) => {
                started.into_iter().chain(failed(kind)).collect()
            }
            (Status::Failed | Status::Unknown, None) => started.into_iter().collect(),
        }
    }
}
