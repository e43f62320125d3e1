//! Filters for ledger queries. Pure.

use jiff::Timestamp;
use tool::{CallId, Mode};

use crate::search_fields::SearchFields;

/// First hexadecimal digits of a call id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallIdPrefix(String);

impl CallIdPrefix {
    /// Minimum number of digits. Ids start with their time, and this many digits span a month and a half.
    const MIN_DIGITS: usize = 4;

    /// Parses the start of a call id, with or without its hyphens.
    pub fn parse(text: &str) -> Option<CallIdPrefix> {
        let digits: String = text.chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase()).collect();
        let is_prefix =
            (Self::MIN_DIGITS..=32).contains(&digits.len()) && digits.chars().all(|c| c.is_ascii_hexdigit());
        is_prefix.then_some(CallIdPrefix(digits))
    }

    /// Returns the id if these are all its digits.
    pub fn whole_id(&self) -> Option<CallId> {
        if self.0.len() == 32 { self.0.parse().ok() } else { None }
    }

    /// Returns true if the id starts with these digits.
    pub fn matches(&self, id: &str) -> bool {
        let mut digits = id.bytes().filter(|byte| *byte != b'-');
        self.0.bytes().all(|digit| digits.next() == Some(digit))
    }

    /// Returns the smallest and the largest id with these digits.
    pub(crate) fn range(&self) -> [String; 2] {
        ['0', 'f'].map(|digit| format!("{}{}", self.0, String::from(digit).repeat(32 - self.0.len())))
    }
}

impl std::fmt::Display for CallIdPrefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Conditions that records must meet; an absent condition matches all records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordFilter {
    /// Kind of entry: `decision`, `outcome`, `refusal`, … A `call` is a decision and an outcome, and matches both.
    pub kind: Option<String>,
    /// Name of the tool.
    pub tool: Option<String>,
    /// `done`, `failed`, `unknown`, `not_started`, or `refused` for refusals.
    pub outcome: Option<String>,
    /// Mode in which a call was judged, or that was entered.
    pub mode: Option<Mode>,
    /// Name of the client, or `uid N`.
    pub caller: Option<String>,
    /// Id of the worker session.
    pub session: Option<String>,
    /// Trace id, in 32 hexadecimal digits.
    pub trace: Option<String>,
    /// Id of the call.
    pub call_id: Option<CallId>,
    /// First digits of the id of the call.
    pub call_id_prefix: Option<CallIdPrefix>,
    /// Key by which a caller marks repeats of one call.
    pub idempotency_key: Option<String>,
    /// Earliest time, inclusive.
    pub since: Option<Timestamp>,
    /// Latest time, exclusive.
    pub until: Option<Timestamp>,
    /// Upper bound of the sequence number, exclusive, for the next page.
    pub before_seq: Option<u64>,
    /// Lower bound of the sequence number, exclusive, for new records.
    pub after_seq: Option<u64>,
    /// Maximum number of records.
    pub limit: Option<usize>,
}

impl RecordFilter {
    /// Returns the smallest and the largest sequence number that can match.
    pub(crate) fn seq_range(&self) -> (u64, u64) {
        let first = self.after_seq.map_or(0, |seq| seq.saturating_add(1));
        let last = self.before_seq.map_or(u64::MAX, |seq| seq.saturating_sub(1));
        (first, last)
    }

    /// Returns the conditions on the columns of the `sort` table as SQL, each with its only parameter.
    pub(crate) fn sort_conditions(&self) -> Vec<(&'static str, String)> {
        let kind = if self.includes_calls() { "kind IN (?, 'call')" } else { "kind = ?" };
        let words = [
            (kind, self.kind.clone()),
            ("tool = ?", self.tool.clone()),
            ("outcome = ?", self.outcome.clone()),
            ("mode = ?", self.mode.map(|mode| mode.as_str().to_owned())),
            ("caller = ?", self.caller.clone()),
        ];
        words.into_iter().filter_map(|(condition, word)| Some((condition, word?))).collect()
    }

    /// Returns true if a record of a whole call has the requested kind.
    fn includes_calls(&self) -> bool {
        matches!(self.kind.as_deref(), Some("decision" | "outcome"))
    }

    pub(crate) fn matches(&self, fields: &SearchFields) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        let (first, last) = self.seq_range();
        let mode = self.mode.map(|mode| mode.as_str().to_owned());
        let call = self.call_id.map(|call| call.to_string());
        (first..=last).contains(&fields.seq)
            && self.since.is_none_or(|since| fields.time >= since.as_millisecond())
            && self.until.is_none_or(|until| fields.time < until.as_millisecond())
            && (is(&self.kind, Some(&fields.kind)) || (self.includes_calls() && fields.kind == "call"))
            && is(&self.tool, fields.tool.as_deref())
            && is(&self.outcome, fields.outcome.as_deref())
            && is(&mode, fields.mode.as_deref())
            && is(&self.caller, fields.caller.as_deref())
            && is(&self.session, fields.session.as_deref())
            && is(&self.trace, fields.trace.as_deref())
            && is(&call, fields.call.as_deref())
            && self
                .call_id_prefix
                .as_ref()
                .is_none_or(|prefix| fields.call.as_deref().is_some_and(|id| prefix.matches(id)))
            && is(&self.idempotency_key, fields.idempotency_key.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{entry::OutcomeStatus, key::LedgerKey, line::EntryBody, samples};

    fn fields(entry: &crate::LedgerEntry) -> SearchFields<'static> {
        let key = LedgerKey::derive(&[1; 32]).unwrap();
        let time = Timestamp::from_second(1000).unwrap();
        let line = EntryBody::new(entry, &key).unwrap().into_sealed_line(
            &key,
            5,
            time,
            &crate::hash::SealHash::NONE,
        );
        let text = line.bytes;
        SearchFields::parse(text.leak().strip_suffix(b"\n").unwrap()).unwrap()
    }

    #[test]
    fn each_condition_of_a_filter_applies() {
        let call = samples::call("read_file");
        let outcome = fields(&samples::outcome_entry(&call, OutcomeStatus::Done));
        let some = |text: &str| Some(text.to_owned());
        let at = |second| Some(Timestamp::from_second(second).unwrap());
        let none = RecordFilter::default();
        let check = |yes: RecordFilter, no: RecordFilter| {
            assert!(yes.matches(&outcome), "{yes:?}");
            assert!(!no.matches(&outcome), "{no:?}");
        };
        check(
            RecordFilter { kind: some("outcome"), ..none.clone() },
            RecordFilter { kind: some("decision"), ..none.clone() },
        );
        let whole = fields(&samples::call_entry(&call, OutcomeStatus::Done));
        for (kind, matches) in [("call", true), ("decision", true), ("outcome", true), ("refusal", false)] {
            let filter = RecordFilter { kind: some(kind), ..none.clone() };
            assert_eq!(filter.matches(&whole), matches, "{kind}");
        }
        check(
            RecordFilter { tool: some("read_file"), ..none.clone() },
            RecordFilter { tool: some("read"), ..none.clone() },
        );
        check(
            RecordFilter { outcome: some("done"), ..none.clone() },
            RecordFilter { outcome: some("failed"), ..none.clone() },
        );
        check(
            RecordFilter { mode: Some(Mode::Normal), ..none.clone() },
            RecordFilter { mode: Some(Mode::Alert), ..none.clone() },
        );
        check(
            RecordFilter { caller: some("claude"), ..none.clone() },
            RecordFilter { caller: some("uid 501"), ..none.clone() },
        );
        check(
            RecordFilter { session: some("s-1"), ..none.clone() },
            RecordFilter { session: some("s-2"), ..none.clone() },
        );
        let trace = Some(call.trace.trace_id.to_string());
        check(RecordFilter { trace, ..none.clone() }, RecordFilter { trace: some("0"), ..none.clone() });
        let digits = call.call_id.to_string();
        let prefix = |text: &str| CallIdPrefix::parse(text);
        check(
            RecordFilter { call_id_prefix: prefix(&digits[..13]), ..none.clone() },
            RecordFilter { call_id_prefix: prefix("0000"), ..none.clone() },
        );
        let other = Some(tool::CallId::fresh());
        check(
            RecordFilter { call_id: Some(call.call_id), ..none.clone() },
            RecordFilter { call_id: other, ..none.clone() },
        );
        check(none.clone(), RecordFilter { idempotency_key: some("k"), ..none.clone() });
        check(
            RecordFilter { since: at(1000), ..none.clone() },
            RecordFilter { since: at(1001), ..none.clone() },
        );
        check(
            RecordFilter { until: at(1001), ..none.clone() },
            RecordFilter { until: at(1000), ..none.clone() },
        );
        check(
            RecordFilter { before_seq: Some(6), ..none.clone() },
            RecordFilter { before_seq: Some(5), ..none.clone() },
        );
        check(
            RecordFilter { after_seq: Some(4), ..none.clone() },
            RecordFilter { after_seq: Some(5), ..none },
        );
    }

    #[test]
    fn prefix_has_four_to_32_digits() {
        for text in ["01a1", "01A1F055-8940", "01a1f055-8940-719f-8be1-3a875f42bb4e"] {
            assert!(
                CallIdPrefix::parse(text).unwrap().matches("01a1f055-8940-719f-8be1-3a875f42bb4e"),
                "{text}"
            );
        }
        for text in ["", "01a", "0-1-a", "01a1g", "01a1f055-8940-719f-8be1-3a875f42bb4e0"] {
            assert_eq!(CallIdPrefix::parse(text), None, "{text}");
        }
        let [first, last] = CallIdPrefix::parse("01a1f").unwrap().range();
        assert_eq!(
            (first.as_str(), last.as_str()),
            (&*format!("01a1f{}", "0".repeat(27)), &*format!("01a1f{}", "f".repeat(27)))
        );
    }

    #[test]
    fn each_kind_has_its_searchable_fields() {
        assert_eq!(fields(&samples::refusal_entry(&samples::call("x"))).outcome.as_deref(), Some("refused"));
        assert_eq!(fields(&samples::mode(Mode::Normal, Mode::Alert)).mode.as_deref(), Some("ALERT"));
        let id = "s-9".to_owned();
        let session = crate::entry::SessionEntry {
            id,
            event: crate::entry::SessionEvent::Opened,
            data: serde_json::Value::Null,
        };
        assert_eq!(fields(&crate::LedgerEntry::Session(session)).session.as_deref(), Some("s-9"));
        let note = fields(&samples::note("x"));
        assert_eq!((note.seq, note.time, &*note.kind, note.tool), (5, 1_000_000, "note", None));
    }
}
