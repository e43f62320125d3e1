//! Benchmark of telemetry: `cargo run --release -p telemetry --example measure`.
//!
//! Prints the cost of a secret scan of text without a secret, of the spans of a call that are not exported,
//! and of an event written to the log. `cargo xtask bench` measures the cost of a collector on the whole
//! daemon. With `count look N` or `count spans N` it repeats that operation N times and prints nothing, which
//! suits an instruction counter.

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::json;
use telemetry::redact::Redactor;
use telemetry::{
    CallContext, CallOutcome, CallSpan, LogTarget, Stage, TelemetryEvent, TelemetrySettings, emit,
};
use tool::{CallId, Mode, TraceContext};

const ROUNDS: u32 = 20_000;

fn main() -> Result<(), Box<dyn Error>> {
    let redactor = Redactor::built_in();
    let line = "The call read_file on /home/ada/projects/notes/today.md took 12 ms and returned 4096 bytes. ";
    let clean: String = line.chars().cycle().take(1024).collect();
    if redactor.redact_text(&clean) != clean {
        return Err("the benchmark text must not contain anything that looks like a secret".into());
    }
    let trace = TraceContext::root();
    let (call_id, mode, session) = (CallId::fresh(), Mode::Normal, None);
    let call = CallContext { tool: "read_file", call_id, trace: &trace, mode, session };
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => {}
        ["count", what, times] => {
            let look = *what == "look";
            for _ in 0..times.parse::<usize>()? {
                if look { drop(black_box(redactor.redact_text(&clean))) } else { spans(&call) }
            }
            return Ok(());
        }
        other => {
            return Err(format!("unknown arguments {other:?}: pass nothing or `count look|spans N`").into());
        }
    }
    measure("secret scan of 1 KiB without a secret", || drop(black_box(redactor.redact_text(&clean))));
    measure("secret scan of one line without a secret", || drop(black_box(redactor.redact_text(line))));
    measure("spans of a call, not exported", || spans(&call));
    let folder = tempfile::tempdir()?;
    let log = LogTarget::Directory(folder.path().to_owned());
    let guard = telemetry::init(&TelemetrySettings::default(), &log)?;
    let arguments = json!({"path": "notes/today.md"});
    measure("event written to the log", || {
        emit(TelemetryEvent::ToolCallStarted {
            call,
            arguments_digest: "0123456789abcdef",
            arguments: Some(&arguments),
        });
    });
    let _ = guard.shutdown(Duration::from_secs(2));
    Ok(())
}

fn spans(call: &CallContext<'_>) {
    let span = CallSpan::start(call);
    for stage in [Stage::Check, Stage::Open, Stage::Judge, Stage::Run, Stage::RecordDecision] {
        drop(span.stage(stage));
    }
    span.end(CallOutcome::Done);
}

fn measure(what: &str, work: impl Fn()) {
    let started = Instant::now();
    (0..ROUNDS).for_each(|_| work());
    println!("{what:<44} {:>9.2} µs", (started.elapsed() / ROUNDS).as_secs_f64() * 1e6);
}
