//! Watches the machine and the calls, and evaluates the rules for automatic mode changes.
//!
//! One task does this. It wakes when an event is counted that a rule uses. If a rule of the current mode can
//! become true over time, the task also samples the machine every few seconds, on the blocking pool.

mod counters;
mod ends;
mod feed;
mod past;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use governance::{Machine, Move, Need, Transitions};
use jiff::Timestamp;
use ledger::{Pressure, State};
use telemetry::{Event, emit, metrics};
use tokio::sync::Notify;
use tool::Mode;

use crate::layer::ToolExecutionLayer;
use crate::sensors::{Eye, Sample};
use crate::transition::Wish;

use counters::{Counted, Counters};

/// Interval between samples of the machine.
const PERIOD: Duration = Duration::from_secs(5);
/// Minimum interval between evaluations of the rules, also during a flood of refusals.
const BREATH: Duration = Duration::from_millis(20);
/// Start value of the rule clock, so that events from before this process also have a time on it.
const BEFORE_START: Duration = Duration::from_secs(2 * 60 * 60);

/// State for the evaluation of the mode rules.
pub(crate) struct ModeWatch {
    began: Instant,
    began_at: Timestamp,
    /// Last ledger record from before this start.
    began_seq: u64,
    machine: Mutex<Machine>,
    counters: Mutex<Counters>,
    /// Notified when an event is counted, or when the mode or the rules change.
    bell: Notify,
}

impl ModeWatch {
    pub(crate) fn new(rules: Arc<Transitions>, mode: Mode, began_seq: u64) -> Self {
        ModeWatch {
            began: Instant::now(),
            began_at: Timestamp::now(),
            began_seq,
            machine: Mutex::new(Machine::new(rules, mode, BEFORE_START)),
            counters: Mutex::default(),
            bell: Notify::new(),
        }
    }

    /// Current time of the rule clock.
    pub(crate) fn now(&self) -> Duration {
        BEFORE_START + self.began.elapsed()
    }

    pub(crate) fn machine(&self) -> MutexGuard<'_, Machine> {
        // At worst, a panic leaves a stale condition, which the next evaluation measures again.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counters(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an event that happened now.
    pub(crate) fn count(&self, what: Counted) {
        self.counters().note(what, self.now());
        if what.is_trouble() {
            self.bell.notify_one();
        }
    }

    /// Wakes the task after a change of the mode or the rules.
    pub(crate) fn wake(&self) {
        self.bell.notify_one();
    }

    /// Evaluates the rules once.
    fn ask(&self, sample: Option<&Sample>) -> Option<Move> {
        let now = self.now();
        let mut machine = self.machine();
        let mut counters = self.counters();
        counters.forget_before(now);
        let read = |need: Need| match need.window {
            Some(window) => counters.read(need.metric, now, window),
            None => sample.and_then(|sample| sample.read(need.metric)),
        };
        machine.observe(now, read)
    }
}

impl ToolExecutionLayer {
    /// Runs until it is dropped. `folder` is on the disk that the rules watch, the one with the ledger.
    pub async fn watch(self: &Arc<Self>, folder: &Path) -> std::convert::Infallible {
        self.recall().await;
        let mut ledger = self.ledger.watch();
        let mut pressure = self.ledger.watch_pressure();
        let mut reported =
            Pressure { removed_segments: self.ledger.health().removed.under_pressure, reads_refused: false };
        let mut eye = Eye::on(folder);
        let mut next_look = Instant::now();
        loop {
            let paced = self.is_paced();
            tokio::select! {
                () = self.watch.bell.notified() => tokio::time::sleep(BREATH).await,
                () = tokio::time::sleep_until(next_look.into()), if paced => {
                    next_look = Instant::now() + PERIOD;
                    eye.look(&self.measured());
                }
                () = eye.seen() => {}
                state = ledger.changed() => self.hear_of_ledger(&state).await,
                Ok(()) = pressure.changed() => {
                    let now = *pressure.borrow_and_update();
                    self.report_pressure(reported, now);
                    reported = now;
                }
                () = self.bookkeeping.due() => self.write_ended_groups(),
            }
            self.follow_rules(eye.latest()).await;
        }
    }

    /// Returns true if a rule can become true without a call ending.
    fn is_paced(&self) -> bool {
        !self.measured().is_empty() || self.watch.machine().ripens()
    }

    /// Metrics that must be sampled in this mode.
    fn measured(&self) -> Vec<governance::files::Metric> {
        let machine = self.watch.machine();
        if !self.world.load().policy.watches(machine.mode()) {
            return Vec::new();
        }
        machine.needs().filter(|need| need.window.is_none()).map(|need| need.metric).collect()
    }

    async fn hear_of_ledger(&self, state: &State) {
        // The number of lost records is known once the ledger is ready again.
        metrics::lost_records(self.ledger.health().lost_records);
        match state {
            State::Ready => self.settle_modes().await,
            State::Unavailable { .. } => self.watch.count(Counted::Exhaustion),
            State::Closed => {}
        }
    }

    /// Raises the alarm where the ledger's size limit removed young records or began to refuse reads.
    fn report_pressure(&self, before: Pressure, now: Pressure) {
        self.bookkeeping.set_closed(now.reads_refused);
        let removed = now.removed_segments.saturating_sub(before.removed_segments);
        let health = self.ledger.health();
        let (bytes, max_bytes) = (health.bytes, self.ledger.max_bytes().unwrap_or_default());
        if removed > 0 || (now.reads_refused && !before.reads_refused) {
            let reads_refused = now.reads_refused;
            emit(Event::LedgerPressure { removed_segments: removed, reads_refused, bytes, max_bytes });
        }
        if removed > 0 {
            self.watch.count(Counted::LedgerPressure);
        }
    }

    /// Changes the mode if a rule requires it. A change that fails is attempted again at the next evaluation.
    pub(crate) async fn follow_rules(self: &Arc<Self>, sample: Option<&Sample>) {
        match self.watch.ask(sample) {
            Some(Move::Change(transition)) => {
                if let Err(error) = self.change_mode(Wish::of_rule(&transition)).await {
                    tracing::error!(%error, rule = &*transition.rule.id, "mode_not_changed");
                }
            }
            Some(Move::Propose(transition)) => self.propose(&transition),
            None => {}
        }
    }
}
