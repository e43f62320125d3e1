//! Restores the event counters from the ledger, so that a restart does not reset the mode rules.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ledger::entry::RecordedRefusal;
use ledger::{
    CallHeader, LedgerEntry, LedgerError, LedgerOutcome, LedgerRecord, OutcomeStatus, RecordFilter,
};
use tool::RiskLevel;

use super::call_events::{RefusedCall, denied_effect, failure_events, refused_effect};
use super::{CountedEvent, RULE_CLOCK_START};
use crate::config_snapshot::ConfigSnapshot;
use crate::layer::ToolExecutionLayer;
use crate::modes::mode_cell::ModeCause;
use crate::modes::transition::is_by_operator;
use crate::suspension::EventSource;

/// Longest window of a rule.
const HOUR: Duration = Duration::from_secs(60 * 60);
/// Maximum number of events restored per kind.
const MAX_RESTORED: usize = 4096;
/// Number of recent mode changes that are searched for the last one by the operator.
const MAX_MODE_CHANGES: usize = 64;

impl ToolExecutionLayer {
    /// Counts the recorded events of the last hour again. Runs on the blocking pool.
    pub(crate) async fn restore_counters(self: &Arc<Self>) {
        let layer = Arc::clone(self);
        let recalled = tokio::task::spawn_blocking(move || layer.restore_counters_blocking()).await;
        if let Ok(Err(error)) = recalled {
            tracing::error!(%error, "events before this start could not be read and are not counted");
        }
    }

    fn restore_counters_blocking(&self) -> Result<(), LedgerError> {
        let since = Timestamp::now().checked_sub(HOUR).ok();
        let before_seq = Some(self.modes.watch.last_seq_before_start.saturating_add(1));
        let of =
            |kind: &str| RecordFilter { kind: Some(kind.to_owned()), before_seq, ..RecordFilter::default() };
        for kind in ["refusal", "outcome", "retention"] {
            let recent =
                self.recorder.ledger.query(&RecordFilter { since, limit: Some(MAX_RESTORED), ..of(kind) })?;
            for record in recent.iter().rev() {
                let at = self.rule_clock_time(record);
                let mut counters = self.modes.watch.counters();
                let source = entry_source(&record.entry);
                let snapshot = self.current.snapshot.load();
                for what in entry_events(&snapshot, &record.entry) {
                    counters.record(what, source.clone(), at);
                }
            }
        }
        let changes =
            self.recorder.ledger.query(&RecordFilter { limit: Some(MAX_MODE_CHANGES), ..of("mode") })?;
        let by_human = |record: &&LedgerRecord| matches!(&record.entry, LedgerEntry::Mode(change) if is_by_operator(change));
        if let Some(record) = changes.iter().find(by_human) {
            self.modes.watch.machine().set_human_change(self.rule_clock_time(record));
        }
        if let Some((LedgerEntry::Mode(change), time)) =
            changes.first().map(|record| (&record.entry, record.time))
            && change.to == self.current.mode.get()
        {
            self.current.mode.restore_cause(ModeCause::new(change, time));
        }
        self.modes.watch.wake();
        Ok(())
    }

    /// Time of a record on the rule clock. A time in the future counts as now.
    fn rule_clock_time(&self, record: &LedgerRecord) -> Duration {
        let ago = self.modes.watch.started_at.duration_since(record.time);
        RULE_CLOCK_START.saturating_sub(Duration::try_from(ago).unwrap_or(Duration::ZERO))
    }
}

/// Events that a recorded entry counts as, by the risk of its tool in this configuration.
pub(super) fn entry_events(snapshot: &ConfigSnapshot, entry: &LedgerEntry) -> Vec<CountedEvent> {
    match entry {
        LedgerEntry::Refusal(refused) => refusal_events(snapshot, refused),
        LedgerEntry::Retention(retention) if retention.under_pressure > 0 => {
            vec![CountedEvent::LedgerPressure]
        }
        entry => {
            entry.outcome().map_or_else(Vec::new, |(call, outcome)| outcome_events(snapshot, call, outcome))
        }
    }
}

fn refusal_events(snapshot: &ConfigSnapshot, refused: &RecordedRefusal) -> Vec<CountedEvent> {
    let refused = RefusedCall {
        code: refused.code,
        detail: refused.detail.as_deref(),
        tool: &refused.call.tool,
        caller: &refused.call.caller.key(),
        risk: snapshot.risk_of(&refused.call.tool),
        effect: refused_effect(
            &refused.call.tool,
            &refused.facts,
            refused.arguments_digest.as_deref().unwrap_or_default(),
        ),
    };
    refused.events().collect()
}

fn outcome_events(
    snapshot: &ConfigSnapshot,
    call: &CallHeader,
    outcome: &LedgerOutcome,
) -> Vec<CountedEvent> {
    let high = snapshot.risk_of(&call.tool) == RiskLevel::High;
    let started = high.then_some(CountedEvent::HighRisk);
    match (outcome.status, outcome.failure) {
        (OutcomeStatus::NotStarted, _) => Vec::new(),
        (OutcomeStatus::Done, _) => started.into_iter().chain([CountedEvent::Ended]).collect(),
        (OutcomeStatus::Failed | OutcomeStatus::Unknown, Some(kind)) => {
            let message = outcome.message.as_deref().unwrap_or_default();
            let effect = denied_effect(&call.tool, message);
            started.into_iter().chain(failure_events(kind, effect)).collect()
        }
        (OutcomeStatus::Failed | OutcomeStatus::Unknown, None) => started.into_iter().collect(),
    }
}

/// Caller that caused a recorded event.
pub(super) fn entry_source(entry: &LedgerEntry) -> Option<EventSource> {
    match entry {
        LedgerEntry::Refusal(refused) => {
            let caller = &refused.call.caller;
            EventSource::of(caller.key(), caller)
        }
        entry => {
            let (call, _) = entry.outcome()?;
            EventSource::of(call.caller.key(), &call.caller)
        }
    }
}
