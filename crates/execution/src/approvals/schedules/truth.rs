//! Test oracle: tracks independently of the layer what the operator approved and what ran.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::super::clock::later;

/// Approval by the operator, as the request was displayed.
#[derive(Clone, Debug)]
pub(super) struct Yes {
    pub(super) number: usize,
    pub(super) client: String,
    /// Displayed state of the object.
    pub(super) shown: String,
    /// Number of rules that required approval.
    pub(super) asked_by: usize,
    /// Expiry, once the approval is confirmed. An approval in flight counts from its submission on.
    pub(super) until: Option<Timestamp>,
}

/// Start of the tool.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Number of approvals submitted before this run.
    pub(super) before: usize,
    pub(super) client: String,
    /// State of the object in the last preview before the run, and its time.
    pub(super) looked: String,
    pub(super) at: Timestamp,
    /// Number of rules that require approval at that moment.
    pub(super) asks: usize,
}

impl Run {
    fn is_by(&self, yes: &Yes) -> bool {
        yes.number < self.before
            && yes.client == self.client
            && yes.shown == self.looked
            && self.asks <= yes.asked_by
            && yes.until.is_none_or(|until| self.at < until)
    }
}

/// One object that calls want to change.
#[derive(Debug, Default)]
pub(super) struct Thing {
    /// Current state.
    pub(super) state: usize,
    pub(super) yes: Vec<Yes>,
    pub(super) runs: Vec<Run>,
    /// History of events for failure messages.
    pub(super) story: Vec<String>,
}

impl Thing {
    /// Returns true if every run has a matching approval of its own.
    fn is_explained(&self) -> bool {
        fn explain(runs: &[Run], yes: &[&Yes]) -> bool {
            let Some((first, rest)) = runs.split_first() else { return true };
            yes.iter().any(|one| {
                let others: Vec<&Yes> = yes.iter().copied().filter(|yes| yes.number != one.number).collect();
                first.is_by(one) && explain(rest, &others)
            })
        }
        explain(&self.runs, &self.yes.iter().collect::<Vec<_>>())
    }
}

/// State of the oracle. It survives simulated crashes.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) now: Timestamp,
    pub(super) things: BTreeMap<String, Thing>,
    pub(super) answers: usize,
    pub(super) executed: usize,
    /// Number of calls by result: refusal detail, refusal code or `done`.
    pub(super) told: BTreeMap<String, usize>,
    /// Cancellation tokens of the calls by connection: a withdrawn call must not start.
    pub(super) withdrawn: BTreeMap<u64, CancellationToken>,
    /// Violations of the invariant. They are collected here because a panic inside a tool only fails the
    /// call.
    pub(super) wrong: Vec<String>,
}

#[derive(Default)]
pub(super) struct Truth(Mutex<Known>);

impl Truth {
    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap()
    }

    /// Records an approval before it is on disk, because a run may start before the decision returns.
    pub(super) fn says_yes(&self, name: &str, yes: impl FnOnce(usize) -> Yes) -> usize {
        let mut known = self.known();
        let number = known.answers;
        known.answers += 1;
        let thing = known.things.entry(name.to_owned()).or_default();
        thing.yes.push(yes(number));
        number
    }

    /// Confirms that the approval is on disk.
    pub(super) fn is_said(&self, name: &str, number: usize, until: Timestamp) {
        let mut known = self.known();
        let thing = known.things.entry(name.to_owned()).or_default();
        let said = thing.yes.iter_mut().filter(|yes| yes.number == number);
        said.for_each(|yes| yes.until = Some(until));
        known.look_at(name);
    }

    /// Retracts an approval that was rejected.
    pub(super) fn unsay(&self, name: &str, number: usize) {
        let mut known = self.known();
        known.things.entry(name.to_owned()).or_default().yes.retain(|yes| yes.number != number);
        known.look_at(name);
    }

    /// Records a crash, which ends every call. An approval in flight is either on disk by now or lost.
    pub(super) fn crashes(&self, lasts: Duration) {
        let mut known = self.known();
        known.withdrawn.clear();
        let until = later(known.now, lasts);
        let on_its_way = known.things.values_mut().flat_map(|thing| &mut thing.yes);
        on_its_way.filter(|yes| yes.until.is_none()).for_each(|yes| yes.until = Some(until));
    }

    /// Records a start of the tool.
    pub(super) fn runs(&self, name: &str, run: impl FnOnce(usize) -> Run) {
        let mut known = self.known();
        known.executed += 1;
        let run = run(known.answers);
        let thing = known.things.entry(name.to_owned()).or_default();
        thing.story.push(format!("{run:?}"));
        thing.runs.push(run);
        known.look_at(name);
    }
}

impl Known {
    fn look_at(&mut self, name: &str) {
        let thing = &self.things[name];
        if !thing.is_explained() {
            let (yes, story) = (&thing.yes, thing.story.join("\n  "));
            self.wrong.push(format!("`{name}` ran without an approval of its own: {yes:?}\n  {story}"));
        }
    }

    pub(super) fn note(&mut self, name: &str, what: String) {
        self.things.entry(name.to_owned()).or_default().story.push(what);
    }
}
