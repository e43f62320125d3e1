//! `sinew trace`: shows the calls of one trace as a tree, each with the timeline of its stages.

use ledger::{CallIdPrefix, LedgerReader, LedgerRecord, RecordFilter};
use serde_json::{Value, json};

use crate::cli::TraceArgs;
use crate::command::call_ids;
use crate::command::ledger::read_error;
use crate::command_context::CommandContext;
use crate::compose;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{
    DIM_STYLE, ERROR_STYLE, HEADING_STYLE, SUCCESS_STYLE, WARNING_STYLE, escape_invisible_line, paint,
    print_result_line, print_whole_line, stdout_width,
};
use crate::units;

/// Width of the bars where there is space.
const MAX_BAR_WIDTH: usize = 40;
/// Columns beside a bar: the name of the stage, its duration, and the labels of a page.
const BESIDE_BAR: usize = 44;

pub(crate) fn run(args: &TraceArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let records = trace_records(&context, args.id.as_deref())?;
    if args.output.json {
        let records: Vec<Value> = records.iter().map(LedgerRecord::json).collect();
        render::print_json(json!({"records": records}))?;
        return Ok(ExitKind::Done);
    }
    let calls = calls(&records);
    let trace = records.first().map(|record| text_at(&record.json(), "/trace/trace_id")).unwrap_or_default();
    print_result_line(format!("{} {}", paint(HEADING_STYLE, "trace"), escape_invisible_line(&trace)))?;
    for call in calls.iter().filter(|call| !calls.iter().any(|other| call.is_child_of(other))) {
        draw_call(call, &calls, 0)?;
    }
    Ok(ExitKind::Done)
}

/// Returns all records of a trace, oldest first. A call id selects the trace that the call belongs to, and no id that of
/// the last call.
fn trace_records(context: &CommandContext, id: Option<&str>) -> Result<Vec<LedgerRecord>, CommandError> {
    let folder = compose::ledger_dir(context);
    let reader = LedgerReader::new(&folder);
    let unknown = || {
        let shown = id.unwrap_or("the last call");
        let problem = CommandError::failed(format!("no record of trace or call `{shown}`"));
        problem.with_hint("take `metadata.trace_id` or `metadata.call_id` of a result")
    };
    let trace_of = |records: Vec<LedgerRecord>| match records.first() {
        Some(record) => Ok(text_at(&record.json(), "/trace/trace_id")),
        None => Err(unknown()),
    };
    let is_trace_id = |id: &str| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let trace = match id {
        Some(id) if is_trace_id(id) => id.to_ascii_lowercase(),
        Some(id) => {
            let prefix = CallIdPrefix::parse(id).ok_or_else(unknown)?;
            let call = call_ids::find_recorded(context, &prefix)?;
            trace_of(reader.call(call).map_err(read_error(&folder))?)?
        }
        None => {
            let last = ["outcome", "refusal"].map(|kind| RecordFilter {
                kind: Some(kind.to_owned()),
                limit: Some(1),
                ..RecordFilter::default()
            });
            let found: Result<Vec<_>, _> = last.iter().map(|filter| reader.query(filter)).collect();
            let mut found = found.map_err(read_error(&folder))?.concat();
            found.sort_by_key(|record| std::cmp::Reverse(record.seq));
            trace_of(found)?
        }
    };
    let filter = RecordFilter { trace: Some(trace), ..RecordFilter::default() };
    let mut records = reader.query(&filter).map_err(read_error(&folder))?;
    records.reverse();
    if records.is_empty() { Err(unknown()) } else { Ok(records) }
}

/// Call of a trace, read from its last record.
struct TraceCall {
    id: String,
    tool: String,
    outcome: String,
    span: String,
    parent: String,
    latency_us: u64,
    stages: Vec<Bar>,
}

impl TraceCall {
    fn is_child_of(&self, other: &TraceCall) -> bool {
        !self.parent.is_empty() && self.parent == other.span
    }
}

fn calls(records: &[LedgerRecord]) -> Vec<TraceCall> {
    let mut calls: Vec<TraceCall> = Vec::new();
    for record in records {
        let body = record.json();
        let id = text_at(&body, "/call_id");
        let call = TraceCall {
            tool: text_at(&body, "/tool"),
            outcome: [text_at(&body, "/outcome"), text_at(&body, "/code")].concat(),
            span: text_at(&body, "/trace/span_id"),
            parent: text_at(&body, "/trace/parent_span_id"),
            latency_us: body.get("latency_us").and_then(Value::as_u64).unwrap_or(0),
            stages: stages(&body),
            id,
        };
        match calls.iter_mut().find(|known| known.id == call.id) {
            Some(known) => *known = call,
            None => calls.push(call),
        }
    }
    calls
}

fn stages(body: &Value) -> Vec<Bar> {
    // An outcome has them in `run`; a refusal, and an outcome of an older version, in `facts`.
    let listed = body.pointer("/run/stages").or_else(|| body.pointer("/facts/stages"));
    let listed = listed.and_then(Value::as_array).into_iter().flatten();
    let number = |stage: &Value, key: &str| stage[key].as_u64().unwrap_or(0);
    let bar = |stage: &Value| Bar {
        name: escape_invisible_line(&text_at(stage, "/stage")),
        start_us: number(stage, "start_us"),
        duration_us: number(stage, "duration_us"),
    };
    let mut bars: Vec<Bar> = listed.map(bar).collect();
    bars.sort_by_key(|bar| bar.start_us);
    bars
}

/// Draws the stages of a record, one bar per line.
pub(super) fn stage_bars(body: &Value) -> Vec<String> {
    draw_bars(&stages(body), body.get("latency_us").and_then(Value::as_u64).unwrap_or(0), bar_width())
}

/// Returns the width of a bar that fits the terminal.
fn bar_width() -> usize {
    stdout_width().map_or(MAX_BAR_WIDTH, |width| width.saturating_sub(BESIDE_BAR).clamp(4, MAX_BAR_WIDTH))
}

fn draw_call(call: &TraceCall, all: &[TraceCall], depth: usize) -> Result<(), CommandError> {
    let indent = "  ".repeat(depth);
    let style = match call.outcome.as_str() {
        "done" => SUCCESS_STYLE,
        "" | "approval_pending" => WARNING_STYLE,
        _ => ERROR_STYLE,
    };
    let end =
        if call.outcome.is_empty() { "in progress".to_owned() } else { escape_invisible_line(&call.outcome) };
    let time = units::duration(call.latency_us);
    let name = paint(HEADING_STYLE, escape_invisible_line(&call.tool));
    print_result_line(format!(
        "{indent}└ {name} {} {time} {}",
        paint(style, end),
        paint(DIM_STYLE, format!("call {}", escape_invisible_line(&call.id)))
    ))?;
    for line in draw_bars(&call.stages, call.latency_us, bar_width()) {
        print_whole_line(format!("{indent}  {line}"))?;
    }
    // The depth limit exceeds any real trace and stops the recursion if a span is its own ancestor.
    for child in all.iter().filter(|other| depth < 16 && other.is_child_of(call)) {
        draw_call(child, all, depth + 1)?;
    }
    Ok(())
}

fn text_at(body: &Value, pointer: &str) -> String {
    body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Start and duration of one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bar {
    name: String,
    start_us: u64,
    duration_us: u64,
}

/// Draws one bar per line on a time line of `width` columns.
fn draw_bars(bars: &[Bar], total_us: u64, width: usize) -> Vec<String> {
    let end = bars.iter().map(|bar| bar.start_us + bar.duration_us).max().unwrap_or(0);
    let total = total_us.max(end).max(1);
    let column =
        |at: u64| usize::try_from(u128::from(at) * width as u128 / u128::from(total)).unwrap_or(width);
    bars.iter()
        .map(|bar| {
            let start = column(bar.start_us).min(width.saturating_sub(1));
            // A stage too short for a column still gets one.
            let length =
                column(bar.start_us + bar.duration_us).saturating_sub(start).max(1).min(width - start);
            let rest = width - start - length;
            let line = [" ".repeat(start), "█".repeat(length), " ".repeat(rest)].concat();
            format!("{:<16}│{line}│ {}", bar.name, units::duration(bar.duration_us))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, start_us: u64, duration_us: u64) -> Bar {
        Bar { name: name.into(), start_us, duration_us }
    }

    #[test]
    fn bars_are_placed_by_start_and_duration() {
        let lines =
            draw_bars(&[bar("check", 0, 10), bar("run", 50, 50), bar("record_decision", 100, 0)], 100, 10);
        assert_eq!(
            lines,
            [
                "check           │█         │ 10 µs",
                "run             │     █████│ 50 µs",
                "record_decision │         █│ 0 µs",
            ]
        );
    }

    #[test]
    fn extreme_values_keep_the_bar_width() {
        for bars in
            [vec![], vec![bar("a", 0, 0)], vec![bar("a", u64::MAX / 2, u64::MAX / 2)], vec![bar("a", 500, 1)]]
        {
            for line in draw_bars(&bars, 1, 10) {
                assert_eq!(line.chars().filter(|c| *c == '│').count(), 2);
                assert_eq!(line.split('│').nth(1).unwrap().chars().count(), 10);
            }
        }
    }
}
