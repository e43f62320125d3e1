//! What the test knows of every call without asking the layer: what a human said yes to, and what was run.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::super::clock::later;

/// What a human said yes to, as it was on the card.
#[derive(Clone, Debug)]
pub(super) struct Yes {
    pub(super) number: usize,
    pub(super) client: String,
    /// What the card showed of the thing that the call would change.
    pub(super) shown: String,
    /// How many rules asked.
    pub(super) asked_by: usize,
    /// Until when it holds, once it is known to: a yes on its way holds from when it is there.
    pub(super) until: Option<Timestamp>,
}

/// A start of the tool.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// How many a human had said yes to by then.
    pub(super) before: usize,
    pub(super) client: String,
    /// What the thing was like when the call was last looked at before it ran, and when that was.
    pub(super) looked: String,
    pub(super) at: Timestamp,
    /// How many rules ask at that moment.
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

/// One thing that calls want to change.
#[derive(Debug, Default)]
pub(super) struct Thing {
    /// What it is like now.
    pub(super) state: usize,
    pub(super) yes: Vec<Yes>,
    pub(super) runs: Vec<Run>,
    /// What happened to it, for whoever reads of a failure.
    pub(super) story: Vec<String>,
}

impl Thing {
    /// Whether every run has a yes of its own: each of them to this, in time, and no two the same.
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

/// All of it. It outlives every crash.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) now: Timestamp,
    pub(super) things: BTreeMap<String, Thing>,
    pub(super) answers: usize,
    pub(super) executed: usize,
    /// How refused calls were told, and how often.
    pub(super) told: BTreeMap<String, usize>,
    /// The calls' own words, by their connections: a call that was taken back is not begun.
    pub(super) withdrawn: BTreeMap<u64, CancellationToken>,
    /// What must not be. A panic inside of a tool would only be a failed call.
    pub(super) wrong: Vec<String>,
}

#[derive(Default)]
pub(super) struct Truth(Mutex<Known>);

impl Truth {
    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap()
    }

    /// A human says yes: it counts before it is on disk, for a run may be faster than the news of it.
    pub(super) fn says_yes(&self, name: &str, yes: impl FnOnce(usize) -> Yes) -> usize {
        let mut known = self.known();
        let number = known.answers;
        known.answers += 1;
        let thing = known.things.entry(name.to_owned()).or_default();
        thing.yes.push(yes(number));
        number
    }

    /// It is on disk.
    pub(super) fn is_said(&self, name: &str, number: usize, until: Timestamp) {
        let mut known = self.known();
        let thing = known.things.entry(name.to_owned()).or_default();
        let said = thing.yes.iter_mut().filter(|yes| yes.number == number);
        said.for_each(|yes| yes.until = Some(until));
        known.look_at(name);
    }

    /// It was not taken after all.
    pub(super) fn unsay(&self, name: &str, number: usize) {
        let mut known = self.known();
        known.things.entry(name.to_owned()).or_default().yes.retain(|yes| yes.number != number);
        known.look_at(name);
    }

    /// The daemon is gone, and with it every call. A yes that was on its way was said by then, or never will be.
    pub(super) fn crashes(&self, lasts: Duration) {
        let mut known = self.known();
        known.withdrawn.clear();
        let until = later(known.now, lasts);
        let on_its_way = known.things.values_mut().flat_map(|thing| &mut thing.yes);
        on_its_way.filter(|yes| yes.until.is_none()).for_each(|yes| yes.until = Some(until));
    }

    /// The tool is started.
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
            self.wrong.push(format!("`{name}` ran without a yes of its own: {yes:?}\n  {story}"));
        }
    }

    pub(super) fn note(&mut self, name: &str, what: String) {
        self.things.entry(name.to_owned()).or_default().story.push(what);
    }
}
