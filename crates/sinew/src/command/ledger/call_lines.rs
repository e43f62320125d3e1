//! One line per call, from its decision, outcome, approval and refusal records; other events have a line each.

use anstyle::Style;
use jiff::Timestamp;
use ledger::{LedgerReader, LedgerRecord, RecordFilter};
use serde_json::Value;
use tool::CallId;

use super::{call_target, record_outcome, record_subject, text_field};
use crate::table::{Column, Table};
use crate::terminal::{DIM_STYLE, ERROR_STYLE, WARNING_STYLE, escape_invisible_line, paint};
use crate::units;

/// Kinds of records that make up a call.
const CALL_KINDS: [&str; 5] = ["decision", "outcome", "call", "refusal", "approval"];
/// Lengths of a short id: the time in milliseconds, then further groups if two calls share it.
const SHORT_ID_LENGTHS: [usize; 4] = [13, 18, 23, 36];
/// Width below which a target stands below its tool.
const NARROW: usize = 64;
/// Width below which an outcome is one word, so that each call has one line.
const WIDE: usize = 110;

/// State of a call, or another event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallLine {
    /// Sequence number of the last record.
    seq: u64,
    time: Timestamp,
    /// Id of the call, also for its undo; empty for other events.
    id: String,
    is_call: bool,
    name: String,
    target: String,
    outcome: String,
    state: LineState,
    latency_us: Option<u64>,
}

/// Meaning of a line, shown as its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineState {
    /// The call ended as intended, or the line is not about a call.
    Ordinary,
    /// The call runs.
    Running,
    /// The operator was or is asked.
    Approval,
    /// The call was refused or failed.
    Problem,
}

impl LineState {
    fn style(self) -> Style {
        match self {
            LineState::Ordinary => Style::new(),
            LineState::Running => DIM_STYLE,
            LineState::Approval => WARNING_STYLE,
            LineState::Problem => ERROR_STYLE,
        }
    }
}

/// Returns the lines of these records, in the order in which the calls began. `reader` finds the target of a call whose
/// decision is not among them.
pub(super) fn call_lines(records: &[LedgerRecord], reader: &LedgerReader) -> Vec<CallLine> {
    let mut lines: Vec<CallLine> = Vec::new();
    for record in records {
        let body = record.json();
        let id = text_field(&body, "call_id");
        let kind = record.entry.kind();
        let is_step = kind == "checkpoint" || (kind == "undo" && text_field(&body, "event") == "restoring");
        let is_known = |line: &&mut CallLine| line.is_call && !id.is_empty() && line.id == id;
        let known = lines.iter_mut().rev().find(|line| CALL_KINDS.contains(&kind) && is_known(line));
        match known {
            _ if is_step => {}
            Some(line) => line.add(record.seq, &body),
            None => {
                let mut line = CallLine::new(record, &body);
                if ["outcome", "approval"].contains(&kind) {
                    line.target = recorded_target(reader, id).unwrap_or_default();
                }
                lines.push(line);
            }
        }
    }
    lines
}

/// Reads the target of a call from its decision.
pub(crate) fn recorded_target(reader: &LedgerReader, id: &str) -> Option<String> {
    let call_id: CallId = id.parse().ok()?;
    let filter = RecordFilter { call_id: Some(call_id), ..RecordFilter::default() };
    let records = reader.query(&filter).ok()?;
    let targets = records.iter().map(|record| call_target(&record.json()));
    targets.into_iter().find(|target| !target.is_empty())
}

impl CallLine {
    fn new(record: &LedgerRecord, body: &Value) -> CallLine {
        let kind = record.entry.kind();
        let is_call = CALL_KINDS.contains(&kind);
        let mut line = CallLine {
            seq: record.seq,
            time: record.time,
            id: escape_invisible_line(text_field(body, "call_id")),
            is_call,
            name: escape_invisible_line(if is_call { text_field(body, "tool") } else { kind }),
            target: if is_call { String::new() } else { record_subject(body) },
            outcome: if is_call { String::new() } else { record_outcome(body) },
            state: LineState::Ordinary,
            latency_us: None,
        };
        if is_call {
            line.add(record.seq, body);
        }
        line
    }

    /// Adds a further record of the same call.
    fn add(&mut self, seq: u64, body: &Value) {
        self.seq = seq;
        if self.target.is_empty() {
            self.target = call_target(body);
        }
        let was_asked = self.state == LineState::Approval || body.get("approval_id").is_some();
        let (outcome, state) = match (text_field(body, "kind"), text_field(body, "outcome")) {
            ("decision", _) => ("running".to_owned(), LineState::Running),
            ("approval", _) => (approval_text(text_field(body, "event")), LineState::Approval),
            ("refusal", _) => match text_field(body, "code") {
                "approval_pending" => ("waiting for approval".to_owned(), LineState::Approval),
                code => (format!("refused: {}", escape_invisible_line(code)), LineState::Problem),
            },
            (_, "done") => ("done".to_owned(), LineState::Ordinary),
            (_, other) => (escape_invisible_line(&other.replace('_', " ")), LineState::Problem),
        };
        (self.outcome, self.state) = match state {
            LineState::Running | LineState::Ordinary if was_asked => (
                format!("{outcome}, approved").replace(", approved, approved", ", approved"),
                LineState::Approval,
            ),
            state => (outcome, state),
        };
        self.latency_us = body.get("latency_us").and_then(Value::as_u64).or(self.latency_us);
    }

    /// Returns the outcome in one word: for a refusal, its code.
    fn short_outcome(&self) -> &str {
        match self.outcome.strip_prefix("refused: ") {
            Some(code) => code,
            None => self.outcome.strip_suffix(" for approval").unwrap_or(&self.outcome),
        }
    }

    /// Returns true for a call that was decided and has not ended.
    pub(super) fn is_running(&self) -> bool {
        self.outcome.starts_with("running")
    }
}

fn approval_text(event: &str) -> String {
    match event {
        "requested" => "waiting for approval".to_owned(),
        "granted" => "approved, not run yet".to_owned(),
        "used" => "approved".to_owned(),
        other => format!("approval {}", escape_invisible_line(other)),
    }
}

/// Returns a table of the lines for a terminal of this width. Ids are whole. A narrow table has the target below the tool.
pub(super) fn table(lines: &[CallLine], width: Option<usize>) -> Table {
    let ids: Vec<&str> = lines.iter().map(|line| line.id.as_str()).collect();
    let id_width = short_id_length(&ids);
    let is_narrow = width.is_some_and(|width| width < NARROW);
    let is_wide = width.is_none_or(|width| width >= WIDE);
    let (time, call, took) =
        (Column::optional("TIME", 1), Column::whole("CALL"), Column::optional("TOOK", 2));
    let mut table = Table::default();
    match is_narrow {
        true => table.set_header([time, call, Column::path("TOOL"), "OUTCOME".into(), took]),
        false => table.set_header([
            time,
            call,
            Column::name("TOOL"),
            Column::path("TARGET"),
            Column::name("OUTCOME"),
            took,
        ]),
    };
    for line in lines {
        let mut cells = vec![units::short_local_time(line.time), line.id.chars().take(id_width).collect()];
        match is_narrow {
            true => cells.push(format!("{}\n{}", line.name, line.target).trim_end().to_owned()),
            false => cells.extend([line.name.clone(), line.target.clone()]),
        }
        let outcome = if is_wide || is_narrow { &line.outcome } else { line.short_outcome() };
        cells.push(paint(line.state.style(), outcome));
        cells.push(line.latency_us.map(units::duration).unwrap_or_default());
        table.add_row(cells);
    }
    table
}

/// Returns the smallest length at which different ids differ.
pub(crate) fn short_id_length(ids: &[&str]) -> usize {
    let is_unique = |length: &usize| {
        let mut seen: Vec<(&str, &str)> = Vec::new();
        ids.iter().filter(|id| !id.is_empty()).all(|id| {
            let short = id.get(..*length).unwrap_or(id);
            seen.push((short, id));
            seen.iter().all(|(other, whole)| *other != short || whole == id)
        })
    };
    SHORT_ID_LENGTHS.into_iter().find(is_unique).unwrap_or(36)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(id: &str) -> CallLine {
        CallLine {
            seq: 1,
            time: "2026-01-31T12:00:00Z".parse().unwrap(),
            id: id.to_owned(),
            is_call: true,
            name: "write_file".to_owned(),
            target: "/a/long/path/to/a/file/with/a/name.txt".to_owned(),
            outcome: String::new(),
            state: LineState::Ordinary,
            latency_us: None,
        }
    }

    #[test]
    fn outcome_of_a_call_follows_its_records() {
        let decision = json!({"kind": "decision"});
        let approved = json!({"kind": "decision", "approval_id": "x"});
        let done = json!({"kind": "outcome", "outcome": "done", "latency_us": 1500});
        let check = |records: &[&Value], outcome: &str, state: LineState| {
            let mut line = line("a");
            records.iter().for_each(|record| line.add(2, record));
            assert_eq!((&*line.outcome, line.state), (outcome, state), "{records:?}");
        };
        check(&[&decision], "running", LineState::Running);
        check(&[&decision, &done], "done", LineState::Ordinary);
        check(&[&approved, &done], "done, approved", LineState::Approval);
        let requested = json!({"kind": "approval", "event": "requested"});
        let pending = json!({"kind": "refusal", "code": "approval_pending"});
        check(&[&requested, &pending], "waiting for approval", LineState::Approval);
        check(
            &[&json!({"kind": "refusal", "code": "path_forbidden"})],
            "refused: path_forbidden",
            LineState::Problem,
        );
        check(
            &[&decision, &json!({"kind": "outcome", "outcome": "not_started"})],
            "not started",
            LineState::Problem,
        );
    }

    #[test]
    fn short_ids_differ_if_the_calls_do() {
        let ids = ["01a1f055-8940-719f-8be1-3a875f42bb4e", "01a1f055-8941-719f-8be1-3a875f42bb4e", ""];
        assert_eq!(short_id_length(&ids), 13);
        let close = [ids[0], "01a1f055-8940-719f-8be2-3a875f42bb4e", ids[0]];
        assert_eq!(short_id_length(&close), 23);
    }

    #[test]
    fn each_call_has_one_line_of_a_common_terminal() {
        let mut refused = line("01a1f055-8940-719f-8be1-3a875f42bb4e");
        refused.name = "system_metrics_snapshot".to_owned();
        refused.add(2, &json!({"kind": "refusal", "code": "sandbox_unavailable", "latency_us": 27_361}));
        let mut waiting = line("01a1f055-8941-719f-8be1-3a875f42bb4e");
        waiting.add(2, &json!({"kind": "refusal", "code": "approval_pending"}));
        for width in [70, 80, 100, 120] {
            let text = table(&[refused.clone(), waiting.clone()], Some(width)).lines(Some(width));
            assert_eq!(text.len(), 3, "a header and two lines at {width}: {text:#?}");
        }
        let at_80 = table(&[refused, waiting], Some(80)).lines(Some(80)).join("\n");
        assert!(!at_80.contains("refused: ") && at_80.contains("waiting"), "{at_80}");
    }

    #[test]
    fn lines_fit_the_terminal() {
        let mut refused = line("01a1f055-8940-719f-8be1-3a875f42bb4e");
        refused.add(2, &json!({"kind": "refusal", "code": "path_forbidden", "latency_us": 27_361}));
        for width in [50, 70, 80, 90, 110, 130] {
            let text = table(std::slice::from_ref(&refused), Some(width)).lines(Some(width)).join("\n");
            let text = anstream::adapter::strip_str(&text).to_string();
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert!(
                text.contains("01a1f055-8940")
                    && text.contains("name.txt")
                    && text.contains("path_forbidden")
            );
        }
    }
}
