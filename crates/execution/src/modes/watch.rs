//! Watches the machine and the calls, and evaluates the rules for automatic mode changes.
//!
//! One task does this. It wakes when an event is counted that a rule uses. If a rule of the current mode can
//! become true over time, the task also samples the machine every few seconds, on the blocking pool.

mod call_events;
mod event_counters;
mod history;
#[cfg(test)]
mod ordinary_week;
mod rehearsal;

use std::cell::RefCell;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use governance::transitions::{MetricQuery, ModeMachine, TransitionAction, Transitions};
use jiff::Timestamp;
use ledger::{Ledger, LedgerState, SizeLimitPressure};
use telemetry::{TelemetryEvent, emit, metrics};
use tokio::sync::Notify;
use tool::Mode;
use tool::caller::CallerKey;

use crate::current_policy::CurrentPolicy;
use crate::layer::ToolExecutionLayer;
use crate::modes::system_sampling::{BackgroundSampler, SystemSample};
use crate::modes::transition::{ModeChangeRequest, report_proposal};
use crate::modes::{ModeChangeResult, ModeControl};
use crate::recorder::Recorder;
use crate::suspension::{EventSource, MAX_SUSPENDED};

use event_counters::{CountedEvent, EventCounters};

pub use rehearsal::{ConditionPeak, RuleReaction, RuleRehearsal, RuleResponse};

/// Interval between samples of the machine.
const SAMPLE_PERIOD: Duration = Duration::from_secs(5);
/// Minimum interval between evaluations of the rules, also during a flood of refusals.
const MIN_EVALUATION_INTERVAL: Duration = Duration::from_millis(20);
/// Start value of the rule clock, so that events from before this process also have a time on it.
const RULE_CLOCK_START: Duration = Duration::from_secs(2 * 60 * 60);

/// State for the evaluation of the mode rules.
pub(crate) struct ModeWatch {
    started: Instant,
    started_at: Timestamp,
    /// Last ledger record from before this start.
    last_seq_before_start: u64,
    machine: Mutex<ModeMachine>,
    counters: Mutex<EventCounters>,
    /// Notified when an event is counted, or when the mode or the rules change.
    notify: Notify,
}

impl ModeWatch {
    pub(crate) fn new(rules: Arc<Transitions>, mode: Mode, began_seq: u64) -> Self {
        ModeWatch {
            started: Instant::now(),
            started_at: Timestamp::now(),
            last_seq_before_start: began_seq,
            machine: Mutex::new(ModeMachine::new(rules, mode, RULE_CLOCK_START)),
            counters: Mutex::default(),
            notify: Notify::new(),
        }
    }

    /// Current time of the rule clock.
    pub(crate) fn now(&self) -> Duration {
        RULE_CLOCK_START + self.started.elapsed()
    }

    pub(crate) fn machine(&self) -> MutexGuard<'_, ModeMachine> {
        // At worst, a panic leaves a stale condition, which the next evaluation measures again.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counters(&self) -> MutexGuard<'_, EventCounters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an event that happened now. `source` is the agent that caused it.
    pub(crate) fn count(&self, event: CountedEvent, source: Option<EventSource>) {
        self.counters().record(event, source, self.now());
        if event.is_urgent() {
            self.notify.notify_one();
        }
    }

    /// Wakes the task after a change of the mode or the rules.
    pub(crate) fn wake(&self) {
        self.notify.notify_one();
    }

    /// Evaluates the rules once. At most `max_suspensions` callers are suspended before the mode changes.
    fn evaluate(&self, sample: Option<&SystemSample>, max_suspensions: usize) -> RuleEvaluation {
        let now = self.now();
        RuleEvaluation::at(now, &mut self.machine(), &mut self.counters(), sample, max_suspensions)
    }
}

/// Result of an evaluation of the rules.
struct RuleEvaluation {
    /// Callers to suspend, each with the reason of the mode change that this replaces.
    suspended: Vec<(EventSource, String)>,
    action: Option<TransitionAction>,
}

impl RuleEvaluation {
    fn at(
        now: Duration,
        machine: &mut ModeMachine,
        counters: &mut EventCounters,
        sample: Option<&SystemSample>,
        max_suspensions: usize,
    ) -> Self {
        counters.discard_expired(now);
        let mut suspended = Vec::new();
        while suspended.len() < max_suspensions
            && let Some((source, reason)) = find_sole_cause(machine, counters, sample, now)
        {
            counters.discard_refusals_of(&source.key);
            suspended.push((source, reason));
        }
        let action = machine.observe(now, |need| read_metric(counters, sample, now, need, None));
        RuleEvaluation { suspended, action }
    }
}

/// Reads a metric, without the events of the `excluded` caller.
fn read_metric(
    counters: &EventCounters,
    sample: Option<&SystemSample>,
    now: Duration,
    need: MetricQuery,
    excluded: Option<&CallerKey>,
) -> Option<f64> {
    match need.window {
        Some(window) => counters.read(need.metric, now, window, excluded),
        None => sample.and_then(|sample| sample.read(need.metric)),
    }
}

/// Finds a caller without whose refusals the mode would not become stricter, and which caused most of them.
fn find_sole_cause(
    machine: &ModeMachine,
    counters: &EventCounters,
    sample: Option<&SystemSample>,
    now: Duration,
) -> Option<(EventSource, String)> {
    let queries = RefCell::new(Vec::new());
    let reason = stricter_mode(machine, now, |need| {
        queries.borrow_mut().push(need);
        read_metric(counters, sample, now, need, None)
    })?;
    let candidates = queries
        .into_inner()
        .into_iter()
        .filter_map(|need: MetricQuery| counters.main_source(need.metric, now, need.window?));
    let is_sole_cause = |source: &EventSource| {
        let read = |need| read_metric(counters, sample, now, need, Some(&source.key));
        stricter_mode(machine, now, read).is_none()
    };
    candidates.into_iter().find(is_sole_cause).map(|source| (source, reason))
}

/// Reason for which the rules would enter a stricter mode now. Changes nothing.
fn stricter_mode(
    machine: &ModeMachine,
    now: Duration,
    read: impl Fn(MetricQuery) -> Option<f64>,
) -> Option<String> {
    match machine.clone().observe(now, read)? {
        TransitionAction::Change(change) if !ModeChangeResult::loosens(change.to) => Some(change.reason()),
        TransitionAction::Change(_) | TransitionAction::Propose(_) => None,
    }
}

impl ToolExecutionLayer {
    /// Runs until it is dropped. `folder` is on the disk that the rules watch, the one with the ledger.
    pub async fn watch(self: &Arc<Self>, folder: &Path) -> std::convert::Infallible {
        self.restore_counters().await;
        let mut ledger = self.recorder.ledger.watch();
        let mut pressure = self.recorder.ledger.watch_pressure();
        let mut reported = SizeLimitPressure {
            removed_segments: self.recorder.ledger.health().removed.under_pressure,
            reads_refused: false,
        };
        let mut sampler = BackgroundSampler::new(folder);
        let mut next_sample = Instant::now();
        loop {
            let is_sampled = needs_sampling(&self.current, &self.modes.watch);
            tokio::select! {
                () = self.modes.watch.notify.notified() => tokio::time::sleep(MIN_EVALUATION_INTERVAL).await,
                () = tokio::time::sleep_until(next_sample.into()), if is_sampled => {
                    next_sample = Instant::now() + SAMPLE_PERIOD;
                    sampler.start_sample(&sampled_metrics(&self.current, &self.modes.watch));
                }
                () = sampler.sample_finished() => {}
                state = ledger.changed() => on_ledger_state(&self.modes, &self.recorder.ledger, &state).await,
                Ok(()) = pressure.changed() => {
                    let now = *pressure.borrow_and_update();
                    report_pressure(&self.recorder, &self.modes.watch, reported, now);
                    reported = now;
                }
                () = self.recorder.bookkeeping.due() => self.recorder.write_ended_groups(),
            }
            self.apply_mode_rules(sampler.latest()).await;
        }
    }

    /// Changes the mode if a rule requires it, or suspends the caller that alone caused this. A change that
    /// fails is attempted again at the next evaluation.
    pub(crate) async fn apply_mode_rules(self: &Arc<Self>, sample: Option<&SystemSample>) {
        let (suspensions, ledger) = (&self.suspensions, &self.recorder.ledger);
        let max_suspensions = MAX_SUSPENDED.saturating_sub(suspensions.len());
        let RuleEvaluation { suspended, action } = self.modes.watch.evaluate(sample, max_suspensions);
        for (source, reason) in suspended {
            suspensions.suspend(ledger, source, reason);
        }
        match action {
            Some(TransitionAction::Change(transition)) => {
                if let Err(error) = self.change_mode(ModeChangeRequest::from_rule(&transition)).await {
                    tracing::error!(%error, rule = &*transition.rule.id, "mode_not_changed");
                }
            }
            Some(TransitionAction::Propose(transition)) => report_proposal(ledger, &transition),
            None => {}
        }
    }
}

/// Returns true if a rule can become true without a call ending.
fn needs_sampling(current: &CurrentPolicy, watch: &ModeWatch) -> bool {
    !sampled_metrics(current, watch).is_empty() || watch.machine().can_fire_by_time()
}

/// Metrics that must be sampled in this mode.
fn sampled_metrics(current: &CurrentPolicy, watch: &ModeWatch) -> Vec<governance::files::Metric> {
    let machine = watch.machine();
    if !current.snapshot.load().policy.is_monitored(machine.mode()) {
        return Vec::new();
    }
    machine.required_metrics().filter(|need| need.window.is_none()).map(|need| need.metric).collect()
}

async fn on_ledger_state(modes: &ModeControl, ledger: &Ledger, state: &LedgerState) {
    // The number of lost records is known once the ledger is ready again.
    metrics::set_lost_records(ledger.health().lost_records);
    match state {
        LedgerState::Ready => modes.record_deferred(ledger).await,
        LedgerState::Unavailable { .. } => modes.watch.count(CountedEvent::Exhaustion, None),
        LedgerState::Closed => {}
    }
}

/// Raises the alarm where the ledger's size limit removed young records or began to refuse reads.
fn report_pressure(
    recorder: &Recorder,
    watch: &ModeWatch,
    before: SizeLimitPressure,
    now: SizeLimitPressure,
) {
    recorder.bookkeeping.set_closed(now.reads_refused);
    let removed = now.removed_segments.saturating_sub(before.removed_segments);
    let health = recorder.ledger.health();
    let (bytes, max_bytes) = (health.bytes, recorder.ledger.max_bytes().unwrap_or_default());
    if removed > 0 || (now.reads_refused && !before.reads_refused) {
        let reads_refused = now.reads_refused;
        emit(TelemetryEvent::LedgerPressure { removed_segments: removed, reads_refused, bytes, max_bytes });
    }
    if removed > 0 {
        watch.count(CountedEvent::LedgerPressure, None);
    }
}
