//! Test oracle: tracks independently of the layer what the operator approved and what ran.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::later;

/// Approval by the operator, as the request was displayed.
#[derive(Clone, Debug)]
pub(super) struct ExpectedApproval {
    pub(super) number: usize,
    pub(super) client: String,
    /// Displayed state of the object.
    pub(super) shown: String,
    /// Number of rules that required approval.
    pub(super) rule_count: usize,
    /// Expiry, once the approval is confirmed. An approval in flight counts from its submission on.
    pub(super) until: Option<Timestamp>,
}

/// Start of the tool.
#[derive(Clone, Debug)]
pub(super) struct ObservedRun {
    /// Number of approvals submitted before this run.
    pub(super) approvals_before: usize,
    pub(super) client: String,
    /// State of the object in the last preview before the run, and its time.
    pub(super) previewed: String,
    pub(super) at: Timestamp,
    /// Number of rules that require approval at that moment.
    pub(super) rule_count: usize,
}

impl ObservedRun {
    fn is_covered_by(&self, yes: &ExpectedApproval) -> bool {
        yes.number < self.approvals_before
            && yes.client == self.client
            && yes.shown == self.previewed
            && self.rule_count <= yes.rule_count
            && yes.until.is_none_or(|until| self.at < until)
    }
}

/// One object that calls want to change.
#[derive(Debug, Default)]
pub(super) struct TestObject {
    /// Current state.
    pub(super) state: usize,
    pub(super) approvals: Vec<ExpectedApproval>,
    pub(super) runs: Vec<ObservedRun>,
    /// History of events for failure messages.
    pub(super) history: Vec<String>,
}

impl TestObject {
    /// Returns true if every run has a matching approval of its own.
    fn is_justified(&self) -> bool {
        fn explain(runs: &[ObservedRun], yes: &[&ExpectedApproval]) -> bool {
            let Some((first, rest)) = runs.split_first() else { return true };
            yes.iter().any(|one| {
                let others: Vec<&ExpectedApproval> =
                    yes.iter().copied().filter(|yes| yes.number != one.number).collect();
                first.is_covered_by(one) && explain(rest, &others)
            })
        }
        explain(&self.runs, &self.approvals.iter().collect::<Vec<_>>())
    }
}

/// State of the oracle. It survives simulated crashes.
#[derive(Debug, Default)]
pub(super) struct OracleState {
    pub(super) now: Timestamp,
    pub(super) objects: BTreeMap<String, TestObject>,
    pub(super) approvals: usize,
    pub(super) executed: usize,
    /// Number of calls by result: refusal detail, refusal code or `done`.
    pub(super) results: BTreeMap<String, usize>,
    /// Cancellation tokens of the calls by connection: a withdrawn call must not start.
    pub(super) withdrawn: BTreeMap<u64, CancellationToken>,
    /// Violations of the invariant. They are collected here because a panic inside a tool only fails the
    /// call.
    pub(super) violations: Vec<String>,
}

#[derive(Default)]
pub(super) struct ApprovalOracle(Mutex<OracleState>);

impl ApprovalOracle {
    pub(super) fn lock(&self) -> MutexGuard<'_, OracleState> {
        self.0.lock().unwrap()
    }

    /// Records an approval before it is on disk, because a run may start before the decision returns.
    pub(super) fn record_approval(&self, name: &str, yes: impl FnOnce(usize) -> ExpectedApproval) -> usize {
        let mut known = self.lock();
        let number = known.approvals;
        known.approvals += 1;
        let thing = known.objects.entry(name.to_owned()).or_default();
        thing.approvals.push(yes(number));
        number
    }

    /// Confirms that the approval is on disk.
    pub(super) fn confirm_approval(&self, name: &str, number: usize, until: Timestamp) {
        let mut known = self.lock();
        let thing = known.objects.entry(name.to_owned()).or_default();
        let text = thing.approvals.iter_mut().filter(|yes| yes.number == number);
        text.for_each(|yes| yes.until = Some(until));
        known.check_object(name);
    }

    /// Retracts an approval that was rejected.
    pub(super) fn retract_approval(&self, name: &str, number: usize) {
        let mut known = self.lock();
        known.objects.entry(name.to_owned()).or_default().approvals.retain(|yes| yes.number != number);
        known.check_object(name);
    }

    /// Records a crash, which ends every call. An approval in flight is either on disk by now or lost.
    pub(super) fn record_crash(&self, lasts: Duration) {
        let mut known = self.lock();
        known.withdrawn.clear();
        let until = later(known.now, lasts);
        let on_its_way = known.objects.values_mut().flat_map(|thing| &mut thing.approvals);
        on_its_way.filter(|yes| yes.until.is_none()).for_each(|yes| yes.until = Some(until));
    }

    /// Records a start of the tool.
    pub(super) fn record_run(&self, name: &str, run: impl FnOnce(usize) -> ObservedRun) {
        let mut known = self.lock();
        known.executed += 1;
        let run = run(known.approvals);
        let thing = known.objects.entry(name.to_owned()).or_default();
        thing.history.push(format!("{run:?}"));
        thing.runs.push(run);
        known.check_object(name);
    }
}

impl OracleState {
    fn check_object(&mut self, name: &str) {
        let thing = &self.objects[name];
        if !thing.is_justified() {
            let (yes, story) = (&thing.approvals, thing.history.join("\n  "));
            self.violations.push(format!("`{name}` ran without an approval of its own: {yes:?}\n  {story}"));
        }
    }

    pub(super) fn note(&mut self, name: &str, what: String) {
        self.objects.entry(name.to_owned()).or_default().history.push(what);
    }
}
