//! Watches the machine and the calls, and asks the rules whether the mode should change.
//!
//! One task, awake only when something happened that a rule counts, or when a rule of the current mode can come true
//! by itself: then it looks every few seconds, and measures on a thread that may block.

mod counters;
mod ends;
mod feed;
mod past;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use governance::{Machine, Move, Need, Transitions};
use jiff::Timestamp;
use ledger::State;
use telemetry::metrics;
use tokio::sync::Notify;
use tool::Mode;

use crate::layer::ToolExecutionLayer;
use crate::sensors::{Eye, Sample};
use crate::transition::Wish;

use counters::{Counted, Counters};

/// How often the machine is looked at.
const PERIOD: Duration = Duration::from_secs(5);
/// However fast calls are refused, the rules are asked no more often than this.
const BREATH: Duration = Duration::from_millis(20);
/// Where the clock of the rules begins, so that what happened before this process has a time on it too.
const BEFORE_START: Duration = Duration::from_secs(2 * 60 * 60);

/// What the rules about the mode are asked with.
pub(crate) struct ModeWatch {
    began: Instant,
    began_at: Timestamp,
    /// The last record of those before.
    began_seq: u64,
    machine: Mutex<Machine>,
    counters: Mutex<Counters>,
    /// Rung when something was counted, or when the mode or the rules changed.
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

    /// The time by the clock of the rules.
    pub(crate) fn now(&self) -> Duration {
        BEFORE_START + self.began.elapsed()
    }

    pub(crate) fn machine(&self) -> MutexGuard<'_, Machine> {
        // What a panic could leave behind is a condition that is measured again at the next look.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counters(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts something that happened now.
    pub(crate) fn count(&self, what: Counted) {
        self.counters().note(what, self.now());
        if what.is_trouble() {
            self.bell.notify_one();
        }
    }

    /// The mode or the rules changed.
    pub(crate) fn wake(&self) {
        self.bell.notify_one();
    }

    /// Asks the rules once.
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
    /// Watches until it is dropped. `folder` is on the disk that matters: the one the records are written to.
    pub async fn watch(self: &Arc<Self>, folder: &Path) -> std::convert::Infallible {
        self.recall().await;
        let mut ledger = self.ledger.watch();
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
            }
            self.follow_rules(eye.latest()).await;
        }
    }

    /// Whether a rule can come true although no call ends.
    fn is_paced(&self) -> bool {
        !self.measured().is_empty() || self.watch.machine().ripens()
    }

    /// What has to be measured in this mode.
    fn measured(&self) -> Vec<governance::files::Metric> {
        let machine = self.watch.machine();
        if !self.world.load().policy.watches(machine.mode()) {
            return Vec::new();
        }
        machine.needs().filter(|need| need.window.is_none()).map(|need| need.metric).collect()
    }

    async fn hear_of_ledger(&self, state: &State) {
        // What was lost is known once it is ready again.
        metrics::lost_records(self.ledger.health().lost_records);
        match state {
            State::Ready => self.settle_modes().await,
            State::Unavailable { .. } => self.watch.count(Counted::Exhaustion),
            State::Closed => {}
        }
    }

    /// Changes the mode where a rule says so. What cannot be changed now is asked about again at the next look.
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
