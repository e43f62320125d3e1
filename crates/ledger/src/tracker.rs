//! Current state according to the ledger: open calls, the mode, open approvals and recent runs. Pure. It is
//! updated while writing, and rebuilt from the last segment alone after a crash.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;
use tool::{CallId, Mode};

use crate::entry::{
    ApprovalEventEntry, CallHeader, Checkpoint, ExecutionCounts, LedgerEntry, OutcomeStatus, RemovalTotals,
};

/// Seconds for which runs are counted: the longest rate window.
const WINDOW_SECONDS: i64 = 3600;
/// Length of a slot in seconds. A call counts until the end of its slot has left the window, so a restart
/// never drops one early.
const SLOT_SECONDS: i64 = 10;
/// Slots that a window can overlap, plus one that has just left it.
const MAX_SLOTS: usize = (WINDOW_SECONDS / SLOT_SECONDS) as usize + 2;
/// Maximum number of open approvals. The component that requests approvals has a smaller limit. Beyond this
/// one the oldest approval is dropped, so that it can never be used.
const MAX_OPEN_APPROVALS: usize = 1024;

type Slots = VecDeque<(i64, u32)>;

/// Effect of an entry on the state of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallTransition {
    Decided,
    Ended(OutcomeStatus),
    DecidedAndEnded(OutcomeStatus),
    Refused,
}

/// State that results from a sequence of entries.
#[derive(Debug, Default)]
pub(crate) struct LedgerStateTracker {
    /// Open calls. There are few, and call ids sort by time, so an ordered map is faster here than a keyed
    /// hash map that resists chosen keys.
    open: BTreeMap<CallId, Arc<CallHeader>>,
    mode: Option<Mode>,
    executed: BTreeMap<String, BTreeMap<Mode, Slots>>,
    /// Events of approvals that can still be decided or used, in order.
    approvals: VecDeque<ApprovalEventEntry>,
    last_record: Option<Timestamp>,
    removed: RemovalTotals,
}

impl LedgerStateTracker {
    /// Applies one entry.
    pub(crate) fn apply(&mut self, entry: &LedgerEntry, time: Timestamp) {
        self.last_record = self.last_record.max(Some(time));
        match entry {
            LedgerEntry::Decision(decision) => self.apply_call(&decision.call, CallTransition::Decided, time),
            LedgerEntry::Outcome(concluded) => {
                self.apply_call(&concluded.call, CallTransition::Ended(concluded.outcome.status), time);
            }
            LedgerEntry::Call(call) => {
                let step = CallTransition::DecidedAndEnded(call.outcome.status);
                self.apply_call(&call.decision.call, step, time);
            }
            LedgerEntry::Refusal(refused) => self.apply_call(&refused.call, CallTransition::Refused, time),
            LedgerEntry::Mode(change) => self.mode = Some(change.to),
            LedgerEntry::Approval(approval) => self.apply_approval(approval),
            LedgerEntry::Checkpoint(checkpoint) => {
                *self = LedgerStateTracker {
                    last_record: self.last_record,
                    ..LedgerStateTracker::from(checkpoint)
                };
            }
            LedgerEntry::Retention(retention) => self.removed = retention.total,
            LedgerEntry::Reload(_)
            | LedgerEntry::Start(_)
            | LedgerEntry::Stop(_)
            | LedgerEntry::Session(_)
            | LedgerEntry::Undo(_)
            | LedgerEntry::Note(_)
            | LedgerEntry::Recovered(_)
            | LedgerEntry::Resumed(_)
            | LedgerEntry::Other => {}
        }
    }

    /// Applies the effect of one entry on its call.
    pub(crate) fn apply_call(&mut self, call: &Arc<CallHeader>, step: CallTransition, time: Timestamp) {
        match step {
            CallTransition::Decided => {
                self.count_run(call, time);
                self.open.insert(call.call_id, Arc::clone(call));
            }
            CallTransition::Ended(status) => {
                self.open.remove(&call.call_id);
                if status == OutcomeStatus::NotStarted {
                    self.uncount_run(call);
                }
            }
            CallTransition::DecidedAndEnded(OutcomeStatus::NotStarted) => {}
            CallTransition::DecidedAndEnded(_) => self.count_run(call, time),
            CallTransition::Refused => {
                if self.open.remove(&call.call_id).is_some() {
                    self.uncount_run(call);
                }
            }
        }
    }

    /// Returns true if an entry of this kind can change the state.
    pub(crate) fn is_tracked_kind(kind: &str) -> bool {
        matches!(
            kind,
            "decision" | "outcome" | "call" | "refusal" | "mode" | "approval" | "checkpoint" | "retention"
        )
    }

    /// Returns the current mode.
    pub(crate) fn mode(&self) -> Option<Mode> {
        self.mode
    }

    /// Returns true if the call has an intent and no outcome.
    pub(crate) fn is_open(&self, call: CallId) -> bool {
        self.open.contains_key(&call)
    }

    /// Returns the number of open calls.
    pub(crate) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Returns the open calls, oldest first (call ids sort by time).
    pub(crate) fn open_calls(&self) -> Vec<Arc<CallHeader>> {
        self.open.values().cloned().collect()
    }

    /// Returns the latest time of all applied entries.
    pub(crate) fn last_record(&self) -> Option<Timestamp> {
        self.last_record
    }

    /// Returns the events of approvals that are still open, in order.
    pub(crate) fn approvals(&self) -> Vec<ApprovalEventEntry> {
        self.approvals.iter().cloned().collect()
    }

    /// Returns the runs of the hour before `now`.
    pub(crate) fn executed(&self, now: Timestamp) -> Vec<ExecutionCounts> {
        let oldest = now.as_second() - WINDOW_SECONDS;
        let mut out = Vec::new();
        for (tool, modes) in &self.executed {
            for (mode, slots) in modes {
                let slots: Vec<_> = slots.iter().filter(|(end, _)| *end > oldest).copied().collect();
                if !slots.is_empty() {
                    out.push(ExecutionCounts { tool: tool.clone(), mode: *mode, slots });
                }
            }
        }
        out
    }

    /// Returns the whole state, for the start of a new segment.
    pub(crate) fn checkpoint(&self, now: Timestamp) -> Checkpoint {
        let open = self.open_calls().into_iter().map(|call| (*call).clone()).collect();
        Checkpoint {
            mode: self.mode,
            open,
            executed: self.executed(now),
            approvals: self.approvals(),
            removed: self.removed,
        }
    }

    /// Returns the totals of segments that retention has removed so far.
    pub(crate) fn removed(&self) -> RemovalTotals {
        self.removed
    }

    fn apply_approval(&mut self, approval: &ApprovalEventEntry) {
        if !approval.event.is_open() {
            return self.approvals.retain(|open| open.id != approval.id);
        }
        self.approvals.push_back(approval.clone());
        while self.approvals.len() > MAX_OPEN_APPROVALS
            && let Some(oldest) = self.approvals.pop_front()
        {
            self.approvals.retain(|open| open.id != oldest.id);
        }
    }

    fn count_run(&mut self, call: &CallHeader, time: Timestamp) {
        let second = time.as_second();
        let end = second - second.rem_euclid(SLOT_SECONDS) + SLOT_SECONDS;
        self.update_slots(call, |slots| {
            match slots.back_mut() {
                Some((last, count)) if *last == end => *count = count.saturating_add(1),
                _ => slots.push_back((end, 1)),
            }
            // Slots are limited by number and not by age, so that a clock that jumps forward and back cannot
            // erase earlier runs.
            while slots.len() > MAX_SLOTS {
                slots.pop_front();
            }
        });
    }

    fn uncount_run(&mut self, call: &CallHeader) {
        self.update_slots(call, |slots| {
            if let Some((_, count)) = slots.iter_mut().rev().find(|(_, count)| *count > 0) {
                *count -= 1;
            }
        });
    }

    fn update_slots(&mut self, call: &CallHeader, change: impl FnOnce(&mut Slots)) {
        // The name is copied only for the first call of a tool in a mode.
        match self.executed.get_mut(&call.tool).and_then(|modes| modes.get_mut(&call.mode)) {
            Some(slots) => change(slots),
            None => change(self.executed.entry(call.tool.clone()).or_default().entry(call.mode).or_default()),
        }
    }
}

impl From<&Checkpoint> for LedgerStateTracker {
    fn from(checkpoint: &Checkpoint) -> LedgerStateTracker {
        let mut executed: BTreeMap<String, BTreeMap<Mode, Slots>> = BTreeMap::new();
        for ran in &checkpoint.executed {
            let slots = ran.slots.iter().copied().collect();
            executed.entry(ran.tool.clone()).or_default().insert(ran.mode, slots);
        }
        let open = checkpoint.open.iter().map(|call| (call.call_id, Arc::new(call.clone()))).collect();
        let approvals = checkpoint.approvals.iter().cloned().collect();
        let removed = checkpoint.removed;
        LedgerStateTracker { open, mode: checkpoint.mode, executed, approvals, last_record: None, removed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_call_is_open_from_intent_to_outcome() {
        let mut tracker = LedgerStateTracker::default();
        let calls: Vec<_> = (0..4).map(|_| samples::call("write_file")).collect();
        for call in &calls {
            tracker.apply(&samples::decision_entry(call), at(1000));
        }
        tracker.apply(&samples::outcome_entry(&calls[0], OutcomeStatus::Done), at(1001));
        tracker.apply(&samples::outcome_entry(&calls[1], OutcomeStatus::NotStarted), at(1001));
        tracker.apply(&samples::refusal_entry(&calls[2]), at(1001));
        tracker.apply(&samples::refusal_entry(&samples::call("write_file")), at(1001));
        assert_eq!(tracker.open_calls(), [Arc::clone(&calls[3])]);
        assert!(tracker.is_open(calls[3].call_id) && !tracker.is_open(calls[0].call_id));
        let slots = vec![(1010, 2)];
        let ran = vec![ExecutionCounts { tool: "write_file".into(), mode: Mode::Normal, slots }];
        assert_eq!(tracker.executed(at(1002)), ran, "given up is not executed; interrupted is");
    }

    #[test]
    fn a_checkpoint_carries_everything_over() {
        let mut tracker = LedgerStateTracker::default();
        tracker.apply(&samples::decision_entry(&samples::call("a")), at(1000));
        tracker.apply(&samples::decision_entry(&samples::call("b")), at(1015));
        tracker.apply(&samples::mode(Mode::Normal, Mode::Lockdown), at(1016));
        let checkpoint = tracker.checkpoint(at(1017));
        let mut next = LedgerStateTracker::default();
        next.apply(&samples::decision_entry(&samples::call("stale")), at(1));
        next.apply(&LedgerEntry::Checkpoint(checkpoint.clone()), at(1017));
        assert_eq!(next.checkpoint(at(1017)), checkpoint);
        assert_eq!((next.mode(), next.open_count()), (Some(Mode::Lockdown), 2));
    }

    #[test]
    fn approval_stays_open_until_denied_used_or_expired() {
        use crate::entry::ApprovalEvent::{Denied, Expired, Granted, Requested, Standing, Used};
        let mut tracker = LedgerStateTracker::default();
        for (id, event) in [
            ("a", Requested),
            ("b", Requested),
            ("a", Granted),
            ("c", Standing),
            ("d", Requested),
            ("d", Denied),
            ("b", Expired),
            ("e", Requested),
            ("e", serde_json::from_str("\"a word of a later version\"").unwrap()),
        ] {
            tracker.apply(&LedgerEntry::Approval(samples::approval(id, event)), at(1000));
        }
        let open = |tracker: &LedgerStateTracker| -> Vec<String> {
            tracker.approvals().iter().map(|open| format!("{} {:?}", open.id, open.event)).collect()
        };
        assert_eq!(open(&tracker), ["a Requested", "a Granted", "c Standing"]);
        let mut next = LedgerStateTracker::default();
        next.apply(&LedgerEntry::Checkpoint(tracker.checkpoint(at(1001))), at(1001));
        next.apply(&LedgerEntry::Approval(samples::approval("a", Used)), at(1002));
        assert_eq!(open(&next), ["c Standing"]);
        for n in 0..3000 {
            next.apply(&LedgerEntry::Approval(samples::approval(&n.to_string(), Requested)), at(1003));
        }
        assert_eq!(next.approvals().len(), MAX_OPEN_APPROVALS, "memory is bounded");
        assert_eq!(next.approvals().last().unwrap().id, "2999");
    }

    #[test]
    fn runs_are_counted_for_one_hour() {
        let mut tracker = LedgerStateTracker::default();
        let call = samples::call("a");
        for second in (0..20_000).step_by(5) {
            tracker.apply(&samples::decision_entry(&call), at(second));
        }
        let ran = tracker.executed(at(19_999));
        let total: u32 = ran[0].slots.iter().map(|(_, count)| count).sum();
        assert!((720..=722).contains(&total), "one each 5 s for an hour, and at most a slot more: {total}");
        assert!(tracker.executed["a"][&Mode::Normal].len() < 370, "memory is bounded");
        assert!(tracker.executed(at(19_999 + 3620)).is_empty());
    }

    #[test]
    fn clock_jumps_do_not_erase_counted_runs() {
        let day = 24 * 3600;
        let mut tracker = LedgerStateTracker::default();
        let call = samples::call("a");
        let total = |tracker: &LedgerStateTracker, now: i64| -> u32 {
            tracker.executed(at(now)).iter().flat_map(|ran| &ran.slots).map(|(_, count)| count).sum()
        };
        for _ in 0..10 {
            tracker.apply(&samples::decision_entry(&call), at(day));
        }
        tracker.apply(&samples::decision_entry(&call), at(2 * day));
        assert_eq!(total(&tracker, day + 60), 11, "ahead and back: nothing is forgotten");
        tracker.apply(&samples::decision_entry(&call), at(1));
        assert_eq!(total(&tracker, 2), 12, "what seems to come is counted too");
        assert_eq!(total(&tracker, 3 * day), 0, "an hour that has passed is over");
    }
}
