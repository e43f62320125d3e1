//! `sinew trace`: shows the calls of one trace as a tree, each with the timeline of its stages.

use std::path::Path;

use ledger::{Filter, Reader, Record};
use serde_json::{Value, json};
use tool::CallId;

use crate::cli::TraceArgs;
use crate::command::ledger::unreadable;
use crate::compose;
use crate::exit::{Exit, Problem};
use crate::setting::Setting;
use crate::terminal::{BAD, GOOD, QUIET, STRONG, paint, say, visible_line};
use crate::waterfall::{self, Bar};

const WIDTH: usize = 40;

pub(crate) fn run(args: &TraceArgs) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    let records = records_of(&compose::ledger_folder(&setting), &args.id)?;
    if args.output.json {
        let records: Vec<Value> = records.iter().map(Record::json).collect();
        say(json!({"schema_version": 1, "records": records}))?;
        return Ok(Exit::Done);
    }
    let calls = calls(&records);
    let trace = records.first().map(|record| text(&record.json(), "/trace/trace_id")).unwrap_or_default();
    say(format!("{} {}", paint(STRONG, "trace"), visible_line(&trace)))?;
    for call in calls.iter().filter(|call| !calls.iter().any(|other| call.is_below(other))) {
        draw(call, &calls, 0)?;
    }
    Ok(Exit::Done)
}

/// Returns all records of a trace, oldest first. A call id selects the trace that the call belongs to.
fn records_of(folder: &Path, id: &str) -> Result<Vec<Record>, Problem> {
    let reader = Reader::new(folder);
    let unknown = || {
        let problem = Problem::new(Exit::Failed, format!("no record of trace or call `{id}`"));
        problem.hint("take `metadata.trace_id` or `metadata.call_id` of a result")
    };
    // A trace id has 32 hexadecimal digits; only a call id contains hyphens.
    let trace = match id.parse::<CallId>().ok().filter(|_| id.contains('-')) {
        Some(call) => {
            let records = reader.call(call).map_err(unreadable(folder))?;
            text(&records.first().ok_or_else(unknown)?.json(), "/trace/trace_id")
        }
        None => id.to_ascii_lowercase(),
    };
    let filter = Filter { trace: Some(trace), ..Filter::default() };
    let mut records = reader.query(&filter).map_err(unreadable(folder))?;
    records.reverse();
    if records.is_empty() { Err(unknown()) } else { Ok(records) }
}

/// Call of a trace, read from its last record.
struct Call {
    id: String,
    tool: String,
    end: String,
    span: String,
    parent: String,
    latency_us: u64,
    stages: Vec<Bar>,
}

impl Call {
    fn is_below(&self, other: &Call) -> bool {
        !self.parent.is_empty() && self.parent == other.span
    }
}

fn calls(records: &[Record]) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for record in records {
        let body = record.json();
        let id = text(&body, "/call_id");
        let call = Call {
            tool: text(&body, "/tool"),
            end: [text(&body, "/outcome"), text(&body, "/code")].concat(),
            span: text(&body, "/trace/span_id"),
            parent: text(&body, "/trace/parent_span_id"),
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
    let listed = body.pointer("/facts/stages").and_then(Value::as_array).into_iter().flatten();
    let number = |stage: &Value, key: &str| stage.get(key).and_then(Value::as_u64).unwrap_or(0);
    let bar = |stage: &Value| Bar {
        name: visible_line(&text(stage, "/stage")),
        start_us: number(stage, "start_us"),
        duration_us: number(stage, "duration_us"),
    };
    let mut bars: Vec<Bar> = listed.map(bar).collect();
    bars.sort_by_key(|bar| bar.start_us);
    bars
}

fn draw(call: &Call, all: &[Call], depth: usize) -> Result<(), Problem> {
    let indent = "  ".repeat(depth);
    let style = if call.end == "done" { GOOD } else { BAD };
    let end = if call.end.is_empty() { "in progress".to_owned() } else { visible_line(&call.end) };
    let time = waterfall::shown(call.latency_us);
    let name = paint(STRONG, visible_line(&call.tool));
    say(format!(
        "{indent}└ {name} {} {time} {}",
        paint(style, end),
        paint(QUIET, format!("call {}", visible_line(&call.id)))
    ))?;
    for line in waterfall::draw(&call.stages, call.latency_us, WIDTH) {
        say(format!("{indent}  {line}"))?;
    }
    // The depth limit exceeds any real trace and stops the recursion if a span is its own ancestor.
    for child in all.iter().filter(|other| depth < 16 && other.is_below(call)) {
        draw(child, all, depth + 1)?;
    }
    Ok(())
}

fn text(body: &Value, pointer: &str) -> String {
    body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
