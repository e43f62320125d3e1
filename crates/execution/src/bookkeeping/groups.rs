//! Groups: counts of records of one kind and one caller within a window of time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use ledger::entry::NoteEntry;
use serde_json::{Value, json};
use telemetry::redact;
use tool::Caller;
use tool::caller::CallerKey;

use super::{Kind, wall_clock};
use crate::call::redact_client_name;

/// Window of a group of one caller.
pub(super) const WINDOW: Duration = Duration::from_secs(10);
/// Window of a group of all callers.
pub(super) const MACHINE_WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of groups of single callers. Beyond it, records go to machine-wide groups.
const MOST: usize = 512;

/// Groups whose window has not ended.
#[derive(Debug, Default)]
pub(super) struct Groups {
    of_callers: HashMap<(CallerKey, Kind), Group>,
    machine_wide: HashMap<&'static str, Group>,
}

/// Records that are counted instead of written.
#[derive(Debug)]
pub(super) struct Group {
    kind: &'static str,
    /// Caller as recorded; null for all callers together.
    caller: Value,
    pub(super) count: u64,
    /// Number of records that were written in full and are not in `count`.
    pub(super) in_full: u32,
    first: Timestamp,
    last: Timestamp,
    ends: Instant,
}

impl Groups {
    /// Number of records in the group's window that were written in full.
    pub(super) fn in_full(&self, caller: &CallerKey, kind: Kind, now: Instant) -> u32 {
        let own = self.of_callers.get(&(*caller, kind)).filter(|group| now < group.ends);
        let wide = || self.machine_wide.get(kind.name()).filter(|_| self.of_callers.len() >= MOST);
        own.or_else(wide).map_or(0, |group| group.in_full)
    }

    /// Returns the group of a record: that of its caller, or a machine-wide one if there are too many groups.
    pub(super) fn find_or_begin(
        &mut self,
        key: CallerKey,
        caller: &Caller,
        kind: Kind,
        now: Instant,
    ) -> &mut Group {
        let key = (key, kind);
        // The window of this group has ended, and its record is not written yet.
        if self.of_callers.get(&key).is_some_and(|group| group.ends <= now)
            && let Some(ended) = self.of_callers.remove(&key)
            && ended.count > 0
        {
            self.merge(&ended, now);
        }
        let begun = |caller, window| Group::begin(kind.name(), caller, now + window);
        if self.of_callers.len() >= MOST && !self.of_callers.contains_key(&key) {
            let wide = self.machine_wide.entry(kind.name());
            return wide.or_insert_with(|| begun(Value::Null, MACHINE_WINDOW));
        }
        self.of_callers.entry(key).or_insert_with(|| {
            begun(redact::shared().redact_value(&json!(redact_client_name(caller.clone()))), WINDOW)
        })
    }

    /// Adds the counts of a group to the group of all callers.
    pub(super) fn merge(&mut self, group: &Group, now: Instant) {
        let begun = || Group::begin(group.kind, Value::Null, now + MACHINE_WINDOW);
        let wide = self.machine_wide.entry(group.kind).or_insert_with(begun);
        wide.first = wide.first.min(group.first);
        wide.add(group.count, group.last);
    }

    /// Time at which the next window ends.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.of_callers.values().chain(self.machine_wide.values()).map(|group| group.ends).min()
    }

    pub(super) fn take_of_callers(&mut self, now: Instant) -> Vec<Group> {
        self.of_callers.extract_if(|_, group| group.ends <= now).map(|(_, group)| group).collect()
    }

    pub(super) fn take_machine_wide(&mut self, now: Instant) -> Vec<Group> {
        self.machine_wide.extract_if(|_, group| group.ends <= now).map(|(_, group)| group).collect()
    }

    pub(super) fn take_all(&mut self) -> Vec<Group> {
        let of_callers = std::mem::take(&mut self.of_callers).into_values();
        of_callers.chain(std::mem::take(&mut self.machine_wide).into_values()).collect()
    }
}

impl Group {
    fn begin(kind: &'static str, caller: Value, ends: Instant) -> Self {
        let now = wall_clock();
        Group { kind, caller, count: 0, in_full: 0, first: now, last: now, ends }
    }

    pub(super) fn add(&mut self, count: u64, at: Timestamp) {
        self.count += count;
        self.last = self.last.max(at);
    }

    /// Approximate size of the group's record, in bytes.
    pub(super) fn bytes(&self) -> usize {
        super::size_of(&self.note())
    }

    /// Ledger record of the group.
    pub(super) fn note(&self) -> NoteEntry {
        let Group { kind, caller, count, first, last, .. } = self;
        let owner = if caller.is_null() { "all callers" } else { "one caller" };
        NoteEntry {
            about: "grouped".to_owned(),
            text: format!("{count} more `{kind}` records of {owner} are counted and not written one by one"),
            data: json!({"kind": kind, "caller": caller, "count": count, "first": first, "last": last}),
        }
    }
}
