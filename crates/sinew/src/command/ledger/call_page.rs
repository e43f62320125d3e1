//! The page of one call: what ran, for whom, by which rules, how long each stage took, what changed, and how to undo it.

use jiff::tz::TimeZone;
use ledger::LedgerRecord;
use serde_json::Value;
use tool::RuleRef;

use super::{call_target, record_outcome, text_field};
use crate::command::trace::stage_bars;
use crate::exit::CommandError;
use crate::render;
use crate::table::{Column, Table};
use crate::terminal::{
    DIM_STYLE, ERROR_STYLE, HEADING_STYLE, SUCCESS_STYLE, WARNING_STYLE, escape_invisible,
    escape_invisible_line, paint, print_result_line,
};
use crate::units;

/// Prints the page of a call from all its records, oldest first.
pub(super) fn print(records: &[LedgerRecord]) -> Result<(), CommandError> {
    let bodies: Vec<Value> = records.iter().map(LedgerRecord::json).collect();
    let page = RecordedCallPage { records, bodies: &bodies };
    print_result_line(page.heading())?;
    let mut table = Table::default();
    table.set_header([Column::whole(""), "".into()]);
    for (label, lines) in page.sections() {
        table.add_row([paint(DIM_STYLE, label), lines.join("\n")]);
    }
    render::print_table(&table)
}

struct RecordedCallPage<'a> {
    records: &'a [LedgerRecord],
    bodies: &'a [Value],
}

impl RecordedCallPage<'_> {
    fn of_kind(&self, kinds: &[&str]) -> Option<&Value> {
        self.bodies.iter().rev().find(|body| kinds.contains(&text_field(body, "kind")))
    }

    /// Returns the last record that has the field.
    fn field(&self, name: &str) -> Option<&Value> {
        self.bodies.iter().rev().find_map(|body| body.get(name))
    }

    fn heading(&self) -> String {
        let tool = self.field("tool").and_then(Value::as_str).unwrap_or_default();
        let target =
            self.bodies.iter().map(call_target).find(|target| !target.is_empty()).unwrap_or_default();
        let end = self.of_kind(&["outcome", "call", "refusal"]);
        let (text, style) = match end {
            None => ("in progress".to_owned(), WARNING_STYLE),
            Some(body) => match (record_outcome(body), text_field(body, "kind")) {
                (outcome, "refusal") if outcome.starts_with("approval_pending") => {
                    ("waiting for approval".to_owned(), WARNING_STYLE)
                }
                (outcome, "refusal") => (format!("refused: {outcome}"), ERROR_STYLE),
                (outcome, _) if outcome == "done" => (outcome, SUCCESS_STYLE),
                (outcome, _) => (outcome.replace('_', " "), ERROR_STYLE),
            },
        };
        let taken = self.field("latency_us").and_then(Value::as_u64).map(units::duration);
        let taken = taken.map(|taken| format!(" in {taken}")).unwrap_or_default();
        let name = format!("{} {}", escape_invisible_line(tool), escape_invisible_line(&target));
        format!("{}  {}{taken}", paint(HEADING_STYLE, name.trim_end()), paint(style, text))
    }

    fn sections(&self) -> Vec<(&'static str, Vec<String>)> {
        let id = self.field("call_id").and_then(Value::as_str).unwrap_or_default();
        let mut sections = vec![("call", vec![escape_invisible_line(id)]), ("when", vec![self.time()])];
        sections.push(("who", vec![self.caller()]));
        sections.push(("judged in", vec![self.judged_in()]));
        sections.push(("why", self.reasons()));
        sections.push(("approval", self.approvals()));
        sections.push(("timeline", self.timeline()));
        sections.push(("effects", self.effects()));
        sections.push(("receipt", self.receipt()));
        sections.push(("next", self.next_command(id)));
        sections.retain(|(_, lines)| lines.iter().any(|line| !line.is_empty()));
        sections
    }

    fn time(&self) -> String {
        let first = self.records.first().map(|record| record.time.to_zoned(TimeZone::system()));
        first.map(|time| time.strftime("%Y-%m-%d %H:%M:%S%.3f %Z").to_string()).unwrap_or_default()
    }

    fn caller(&self) -> String {
        let Some(caller) = self.field("caller") else { return String::new() };
        let name = caller["client"].as_str().map_or("an unnamed client".to_owned(), escape_invisible_line);
        let number = |key: &str| caller[key].as_u64().map(|number| format!("{key} {number}"));
        let ids: Vec<String> = ["uid", "pid"].into_iter().filter_map(number).collect();
        let session = caller["session"].as_str().map(escape_invisible_line);
        let session = session.map(|session| format!(", session {session}")).unwrap_or_default();
        let endpoint = escape_invisible_line(caller["endpoint"].as_str().unwrap_or("an unknown endpoint"));
        format!("{name} ({}) over {endpoint}{session}", ids.join(", "))
    }

    fn judged_in(&self) -> String {
        let word = |name: &str| self.field(name).and_then(Value::as_str).map(escape_invisible_line);
        let mut parts: Vec<String> = word("mode").into_iter().collect();
        parts.extend(word("risk").map(|risk| format!("{risk} risk")));
        parts.extend(word("effect").map(|effect| match effect.as_str() {
            "reads" => "reads only".to_owned(),
            _ => "may change the machine".to_owned(),
        }));
        parts.join(", ")
    }

    /// Returns the reason of a refusal or failure, and the rules that decided.
    fn reasons(&self) -> Vec<String> {
        let reason = ["reason", "message"].into_iter().find_map(|key| self.field(key)?.as_str());
        let reason = reason.map(|reason| reason.replace("⚠\u{fe0f}", "⚠"));
        let mut lines: Vec<String> = reason
            .iter()
            .flat_map(|reason| escape_invisible(reason).lines().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        let listed = self.field("rules").and_then(Value::as_array).into_iter().flatten();
        for rule in listed.chain(self.field("rule")) {
            let rule = serde_json::from_value(rule.clone()).map(|rule: RuleRef| render::format_rule(&rule));
            lines.extend(rule.ok().filter(|rule| !lines.contains(rule)));
        }
        lines
    }

    fn approvals(&self) -> Vec<String> {
        let events = self.bodies.iter().filter(|body| text_field(body, "kind") == "approval");
        events
            .map(|body| {
                let by = body["by"].as_str().map(|by| format!(" by {}", escape_invisible_line(by)));
                let (event, id) = (text_field(body, "event"), text_field(body, "id"));
                format!(
                    "{}{} ({})",
                    escape_invisible_line(event),
                    by.unwrap_or_default(),
                    escape_invisible_line(id)
                )
            })
            .collect()
    }

    fn timeline(&self) -> Vec<String> {
        let end = self.of_kind(&["outcome", "call", "refusal"]);
        end.map(stage_bars).unwrap_or_default()
    }

    fn effects(&self) -> Vec<String> {
        let files = self.field("files_touched").and_then(Value::as_array).into_iter().flatten();
        let mut lines: Vec<String> = files
            .filter_map(Value::as_str)
            .map(|file| format!("changed {}", escape_invisible_line(file)))
            .collect();
        if let Some(usage) = self.field("usage") {
            let bytes = |key: &str| units::byte_count(usage[key].as_u64().unwrap_or(0));
            let mut parts =
                vec![format!("{:.1} ms of processor time", usage["cpu_ms"].as_f64().unwrap_or(0.0))];
            parts.extend(
                [("read", "read_bytes"), ("wrote", "written_bytes")]
                    .into_iter()
                    .filter(|(_, key)| usage[*key].as_u64().unwrap_or(0) > 0)
                    .map(|(verb, key)| format!("{verb} {}", bytes(key))),
            );
            lines.push(parts.join(", "));
        }
        if let Some(from) = self.bodies.iter().find_map(|body| body.pointer("/run/cached_from")?.as_str()) {
            lines.push(format!("result of call {}; the tool did not run", escape_invisible_line(from)));
        }
        lines
    }

    fn receipt(&self) -> Vec<String> {
        let numbers: Vec<String> = self.records.iter().map(|record| record.seq.to_string()).collect();
        let seal = self.field("hash").and_then(Value::as_str).unwrap_or_default();
        let policy = self.field("policy_hash").and_then(Value::as_str).unwrap_or_default();
        let short = |hash: &str| escape_invisible_line(&hash.chars().take(16).collect::<String>());
        let records = if numbers.len() == 1 { "record" } else { "records" };
        vec![format!("{records} {}, seal {}, policy {}", numbers.join(", "), short(seal), short(policy))]
    }

    /// Returns the command that continues from here.
    fn next_command(&self, id: &str) -> Vec<String> {
        let is_undoable = self.bodies.iter().any(|body| {
            ["/run/undoable", "/facts/undoable"].iter().any(|at| body.pointer(at) == Some(&Value::Bool(true)))
        });
        let end = self.of_kind(&["outcome", "call", "refusal"]);
        let code = end.map(|body| text_field(body, "code")).unwrap_or_default();
        let id = escape_invisible_line(id);
        match code {
            "" if is_undoable => vec![format!("`sinew undo {id}` reverts it")],
            "" => Vec::new(),
            "approval_pending" => vec!["`sinew approvals list` shows the request".to_owned()],
            _ => vec![format!("`sinew allow {id}` proposes a policy that permits it")],
        }
    }
}
