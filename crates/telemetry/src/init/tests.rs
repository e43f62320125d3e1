//! Path from an event to the bytes on disk, with a subscriber local to the test.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::{Value, json};
use tool::{CallId, FailureKind, Mode, RefusalCode, RiskLevel, RuleRef, TraceContext};
use tracing::Dispatch;

use super::*;
use crate::{ApprovalDecision, CallContext, TelemetryEvent, emit};

/// Runs `work` with a log in `directory` and returns the parsed lines, after checking their bytes.
fn log_lines(directory: &Path, settings: &TelemetrySettings, work: impl FnOnce(&Dispatch)) -> Vec<Value> {
    let (subscriber, guard) =
        build_subscriber(settings, &LogTarget::Directory(directory.to_owned()), None).unwrap();
    let dispatch = Dispatch::new(subscriber);
    tracing::dispatcher::with_default(&dispatch, || work(&dispatch));
    assert_eq!(guard.shutdown(Duration::from_secs(10)), FlushOutcome::Complete);
    let bytes = fs::read(directory.join("sinew.log")).unwrap();
    assert!(bytes.iter().all(|b| *b == b'\n' || (0x20..0x7f).contains(b) || *b >= 0x80), "control bytes");
    let text = String::from_utf8(bytes).unwrap();
    let misleading =
        ['\u{85}', '\u{9b}', '\u{200b}', '\u{2028}', '\u{2029}', '\u{202e}', '\u{2066}', '\u{feff}'];
    assert!(!text.contains(misleading), "{text:?}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn settings_with_level(level: &str) -> TelemetrySettings {
    let log = LogSettings { level: level.to_owned(), calls: LoggedCalls::All, ..LogSettings::default() };
    TelemetrySettings { log, ..TelemetrySettings::default() }
}

const HOSTILE: [&str; 9] = [
    "two\nlines\r\n{\"forged\":true}",
    "nul\0 bell\u{7} escape\u{1b}[2J\u{1b}]0;x\u{7}",
    "separators \u{2028}\u{2029}\u{85}",
    "direction \u{202e}txt.exe\u{2066}",
    "quote \" backslash \\ slash /",
    "delete \u{7f} c1 \u{9b}31m",
    "\u{feff}byte order mark \u{200b}",
    "emoji \u{1f600} and é",
    "",
];

#[test]
fn hostile_event_is_still_one_line() {
    let home = tempfile::tempdir().unwrap();
    let lines = log_lines(home.path(), &settings_with_level("trace"), |_| {
        for text in HOSTILE {
            tracing::warn!(target: "x", path = text, "{text}");
            tracing::info!(path = ?text, time = text, level = "fake", target = 5, event = "fake");
        }
    });
    assert_eq!(lines.len(), HOSTILE.len() * 2);
    for (text, pair) in HOSTILE.iter().zip(lines.chunks(2)) {
        assert_eq!((&pair[0]["path"], &pair[0]["message"]), (&json!(text), &json!(text)));
        assert_eq!((&pair[0]["target"], &pair[0]["level"]), (&json!("x"), &json!("WARN")));
        assert_eq!((&pair[1]["field.time"], &pair[1]["field.target"]), (&json!(text), &json!(5)));
        assert_eq!((&pair[1]["level"], &pair[1]["field.event"]), (&json!("INFO"), &json!("fake")));
        assert_eq!(pair[1].get("event"), None, "only this crate names events");
        let time = pair[0]["time"].as_str().unwrap();
        assert!(time.len() == 24 && time.ends_with('Z') && time.parse::<jiff::Timestamp>().is_ok(), "{time}");
    }
}

#[test]
fn concurrent_writers_do_not_mix_lines() {
    let home = tempfile::tempdir().unwrap();
    let lines = log_lines(home.path(), &settings_with_level("info"), |dispatch| {
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                scope.spawn(move || {
                    tracing::dispatcher::with_default(dispatch, || {
                        for number in 0..200_u64 {
                            tracing::info!(thread, number, padding = "x\n".repeat(200).as_str());
                        }
                    });
                });
            }
        });
    });
    let mut seen: Vec<_> = lines
        .iter()
        .map(|line| (line["thread"].as_u64().unwrap(), line["number"].as_u64().unwrap()))
        .collect();
    for thread in 0..8 {
        assert!(
            seen.iter().filter(|(t, _)| *t == thread).map(|(_, n)| *n).is_sorted(),
            "order within a thread"
        );
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 1600);
}

#[test]
fn no_secret_reaches_the_file() {
    let home = tempfile::tempdir().unwrap();
    let key = format!("ghp_{}", "a1".repeat(18));
    let pem = "-----BEGIN PRIVATE KEY-----\nAAAA";
    let lines = log_lines(home.path(), &settings_with_level("trace"), |_| {
        tracing::trace!(password = "hunter2", url = "https://u:hunter2@h/", "token is {key}");
        tracing::error!(
            error = &std::io::Error::other(format!("no access with {key}")) as &dyn std::error::Error
        );
        tracing::info!(value = ?Some(&key), pem, api_key = 12345);
        // The cut must not leave half a secret behind.
        let long = format!("{}{key}", "x ".repeat(8 * 1024 - 10));
        tracing::info!(long = long.as_str());
        let longer = format!("{} {key} {}", "y".repeat(64 * 1024 - 20), "z".repeat(1 << 20));
        tracing::info!(longer = longer.as_str());
        // The scanned part shrinks to a few bytes and ends inside the second secret.
        let shrinking = format!("eyJ{}.b.c {key}", "w".repeat(64 * 1024 - 28));
        tracing::info!(shrinking = shrinking.as_str());
        tracing::info!(before = "b", shrinking = %shrinking, after = "a");
    });
    let text = fs::read_to_string(home.path().join("sinew.log")).unwrap();
    assert_eq!(lines.len(), 7);
    for canary in ["hunter2", "ghp_", "a1a1", "AAAA"] {
        assert!(!text.contains(canary), "{canary} in {text}");
    }
    assert_eq!(lines[0]["message"], "token is [redacted:github_token]");
    assert_eq!(lines[0]["password"], "[redacted:sensitive_key]");
    let longer = lines[4]["longer"].as_str().unwrap();
    assert!(lines[5]["shrinking"].as_str().unwrap().starts_with("[redacted:jwt]"));
    assert_eq!(
        lines[6]["shrinking"], lines[5]["shrinking"],
        "the scanned part is the same for both ways of recording a text"
    );
    assert_eq!((&lines[6]["before"], &lines[6]["after"]), (&json!("b"), &json!("a")));
    assert!(longer.len() < 17 * 1024 && longer.ends_with("bytes in total]"), "{}", longer.len());
}

type EventCase<'a> = (TelemetryEvent<'a>, &'a str, Value);

/// Emits the events and compares each line with its level and exact set of fields.
fn check_events(call: CallContext<'_>, cases: &[EventCase<'_>]) {
    let home = tempfile::tempdir().unwrap();
    let lines = log_lines(home.path(), &settings_with_level("info"), |_| {
        cases.iter().for_each(|(event, _, _)| emit(*event))
    });
    assert_eq!(lines.len(), cases.len());
    for ((event, level, fields), line) in cases.iter().zip(&lines) {
        assert_eq!((&line["event"], &line["level"]), (&json!(event.name()), &json!(level)));
        let mut expected =
            json!({"time": line["time"], "level": level, "event": event.name(), "target": "sinew::event"});
        let members = expected.as_object_mut().unwrap();
        let is_of_call =
            !matches!(event, TelemetryEvent::ModeTransition { .. } | TelemetryEvent::ManifestRejected { .. });
        if is_of_call {
            members.insert("trace_id".to_owned(), json!(call.trace.trace_id));
            members.insert("span_id".to_owned(), json!(call.trace.span_id));
            members.insert("call_id".to_owned(), json!(call.call_id));
            members.insert("tool_name".to_owned(), json!(call.tool));
            members.insert("tool".to_owned(), json!(call.tool));
            members.insert("mode".to_owned(), json!(call.mode));
            members.insert("session".to_owned(), json!(call.session));
        }
        members.extend(fields.as_object().unwrap().clone());
        assert_eq!(line, &expected);
    }
}

#[test]
fn call_events_have_their_fields_and_no_arguments() {
    let trace = TraceContext::root();
    let call = CallContext {
        tool: "write",
        call_id: CallId::fresh(),
        trace: &trace,
        mode: Mode::Alert,
        session: Some("s"),
    };
    let arguments = json!({"path": "/tmp/a", "content": "text"});
    let rule = RuleRef { file: "tools.yaml".into(), line: 12, id: "write.allowed_paths".into() };
    let (kind, code) = (FailureKind::TimedOut, RefusalCode::PathNotAllowed);
    check_events(
        call,
        &[
            (
                TelemetryEvent::ToolCallStarted {
                    call,
                    arguments_digest: "abc",
                    arguments: Some(&arguments),
                },
                "INFO",
                json!({"arguments_digest": "abc"}),
            ),
            (
                TelemetryEvent::ToolCallCompleted { call, latency_ms: 1.5, output_bytes: 7, cached: false },
                "INFO",
                json!({"success": true, "latency_ms": 1.5, "output_bytes": 7, "cached": false}),
            ),
            (
                TelemetryEvent::ToolCallFailed {
                    call,
                    kind,
                    fault: kind.fault(),
                    error: "late",
                    latency_ms: 2.0,
                },
                "WARN",
                json!({"success": false, "kind": "timed_out", "fault": "tool", "retryable": true, "error": "late",
                       "latency_ms": 2.0}),
            ),
            (
                TelemetryEvent::ToolCallBlocked {
                    call,
                    code,
                    reason: "no",
                    rule: Some(&rule),
                    latency_ms: 0.5,
                },
                "WARN",
                json!({"success": false, "code": "path_not_allowed", "reason": "no", "rule": "tools.yaml:12 write.allowed_paths",
                       "latency_ms": 0.5}),
            ),
            (
                TelemetryEvent::WorkerInnerCall { call, hop: 1, hop_budget: 2 },
                "INFO",
                json!({"hop": 1, "hop_budget": 2}),
            ),
            (
                TelemetryEvent::WorkerToolCostWarning { call, cost: 2.5, cap: 2.0 },
                "WARN",
                json!({"cost": 2.5, "cap": 2.0}),
            ),
        ],
    );
}

#[test]
fn calls_that_ran_as_intended_are_logged_only_on_request() {
    let home = tempfile::tempdir().unwrap();
    let target = LogTarget::Directory(home.path().to_owned());
    let (subscriber, guard) = build_subscriber(&TelemetrySettings::default(), &target, None).unwrap();
    let trace = TraceContext::root();
    let call = CallContext {
        tool: "write",
        call_id: CallId::fresh(),
        trace: &trace,
        mode: Mode::Normal,
        session: None,
    };
    tracing::subscriber::with_default(subscriber, || {
        let run = || {
            emit(TelemetryEvent::ToolCallStarted { call, arguments_digest: "a", arguments: None });
            emit(TelemetryEvent::WorkerInnerCall { call, hop: 1, hop_budget: 2 });
            emit(TelemetryEvent::ToolCallCompleted { call, latency_ms: 1.0, output_bytes: 1, cached: false });
        };
        run();
        tracing::info!("an ordinary message");
        let (kind, error) = (FailureKind::TimedOut, "late");
        emit(TelemetryEvent::ToolCallFailed { call, kind, fault: kind.fault(), error, latency_ms: 1.0 });
        assert_eq!(guard.reload(&settings_with_level("info")).unwrap(), [] as [&str; 0]);
        run();
    });
    assert_eq!(guard.shutdown(Duration::from_secs(10)), FlushOutcome::Complete);
    let text = fs::read_to_string(home.path().join("sinew.log")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&Value> = lines.iter().map(|line| line.get("event").unwrap_or(&line["message"])).collect();
    assert_eq!(
        names,
        [
            "an ordinary message",
            "tool_call_failed",
            "tool_call_started",
            "worker_inner_call",
            "tool_call_completed"
        ]
    );
}

#[test]
fn advice_and_decision_events_have_their_fields() {
    let trace = TraceContext::root();
    let call = CallContext {
        tool: "write",
        call_id: CallId::fresh(),
        trace: &trace,
        mode: Mode::Alert,
        session: Some("s"),
    };
    let (missing, sensors) = (["content".to_owned(), "path\n".to_owned()], json!({"cpu": 93.5}));
    let (code, long) = (RefusalCode::InvalidArguments, "e".repeat(500));
    let (from, to, decision) = (Mode::Normal, Mode::Alert, ApprovalDecision::TimedOut);
    check_events(
        call,
        &[
            (
                TelemetryEvent::ToolValidationFailed { call, code, missing: &missing, reason: "r" },
                "WARN",
                json!({"code": "invalid_arguments", "missing": ["content", "path\n"], "reason": "r"}),
            ),
            (
                TelemetryEvent::WorkerInnerValidationFail { call, code, missing: &missing[..1], reason: "r" },
                "WARN",
                json!({"code": "invalid_arguments", "missing": ["content"], "reason": "r"}),
            ),
            (
                TelemetryEvent::ManifestRejected { file: "a.yaml", line: 3, code: "C", message: "why" },
                "WARN",
                json!({"file": "a.yaml", "line": 3, "code": "C", "description": "why"}),
            ),
            (
                TelemetryEvent::ToolValidationNudge { call, error: &long },
                "INFO",
                json!({"error": "e".repeat(200)}),
            ),
            (
                TelemetryEvent::ModeTransition {
                    from,
                    to,
                    reason: "cpu",
                    by: "sensor",
                    sensors: Some(&sensors),
                },
                "WARN",
                json!({"from": "NORMAL", "to": "ALERT", "reason": "cpu", "by": "sensor", "sensors": {"cpu": 93.5}}),
            ),
            (
                TelemetryEvent::ApprovalRequested {
                    call,
                    approval_id: "a1",
                    risk: RiskLevel::High,
                    timeout_ms: 300,
                },
                "INFO",
                json!({"approval_id": "a1", "risk": "high", "timeout_ms": 300}),
            ),
            (
                TelemetryEvent::ApprovalDecided { call, approval_id: "a1", decision, by: "none", wait_ms: 9 },
                "INFO",
                json!({"approval_id": "a1", "decision": "timed_out", "by": "none", "wait_ms": 9}),
            ),
        ],
    );
}

#[test]
fn event_inside_a_call_carries_its_ids() {
    let home = tempfile::tempdir().unwrap();
    let trace = TraceContext::root();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let lines = log_lines(home.path(), &settings_with_level("info"), |_| {
        runtime.block_on(crate::with_call_ids(&trace, async {
            tracing::info_span!("inner", other = 1).in_scope(|| tracing::info!("inside"));
        }));
        tracing::info!("outside");
        tracing::info!(trace_id = "not an id\n", "forged");
    });
    assert_eq!(
        (&lines[0]["trace_id"], &lines[0]["span_id"]),
        (&json!(trace.trace_id), &json!(trace.span_id))
    );
    assert_eq!(lines[1].get("trace_id"), None);
    assert_eq!((lines[2].get("trace_id"), &lines[2]["field.trace_id"]), (None, &json!("not an id\n")));
}

#[test]
fn level_comes_from_settings_and_can_be_reloaded() {
    let home = tempfile::tempdir().unwrap();
    let (subscriber, guard) = build_subscriber(
        &settings_with_level("warn,quiet=error"),
        &LogTarget::Directory(home.path().to_owned()),
        None,
    )
    .unwrap();
    tracing::subscriber::with_default(subscriber, || {
        tracing::info!("one");
        tracing::warn!("two");
        tracing::warn!(target: "quiet", "three");
        let mut changed = settings_with_level("info");
        assert_eq!(guard.reload(&changed).unwrap(), [] as [&str; 0]);
        tracing::info!("four");
        changed.log.files = 7;
        changed.otlp.endpoint = Some("http://localhost:4318".to_owned());
        assert_eq!(guard.reload(&changed).unwrap(), ["log.files", "otlp"], "from the next start");
        assert!(guard.reload(&settings_with_level("no such level")).is_err());
        tracing::info!("five");
    });
    assert_eq!(guard.shutdown(Duration::from_secs(10)), FlushOutcome::Complete);
    let text = fs::read_to_string(home.path().join("sinew.log")).unwrap();
    let messages: Vec<Value> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["message"].clone()).collect();
    assert_eq!(messages, ["two", "four", "five"]);
}

#[test]
fn wire_traffic_is_not_logged_at_any_level() {
    let home = tempfile::tempdir().unwrap();
    let (subscriber, guard) = build_subscriber(
        &settings_with_level("trace,hyper_util=trace"),
        &LogTarget::Directory(home.path().to_owned()),
        None,
    )
    .unwrap();
    tracing::subscriber::with_default(subscriber, || {
        tracing::trace!(target: "hyper_util::client::legacy", "authorization: hunter2");
        tracing::debug!(target: "reqwest::connect", "x-key: hunter2");
        tracing::warn!(target: "hyper_util", "a warning");
        tracing::trace!(target: "hyperion", "another library");
        tracing::trace!("ours");
    });
    assert_eq!(guard.shutdown(Duration::from_secs(10)), FlushOutcome::Complete);
    let text = fs::read_to_string(home.path().join("sinew.log")).unwrap();
    let messages: Vec<Value> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["message"].clone()).collect();
    assert_eq!(messages, ["a warning", "another library", "ours"]);
}

#[test]
fn invalid_settings_are_refused_with_the_reason() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "").unwrap();
    let check = |change: fn(&mut LogSettings), directory: &Path, expected: &str| {
        let mut settings = TelemetrySettings::default();
        change(&mut settings.log);
        let refused = build_subscriber(&settings, &LogTarget::Directory(directory.to_owned()), None)
            .map(|_| ())
            .unwrap_err();
        assert!(refused.to_string().contains(expected), "{refused}");
    };
    check(
        |log| log.level = "inof".to_owned(),
        home.path(),
        "`inof` is not a log filter: `inof` is not one of error",
    );
    check(|log| log.level = "a=b=c".to_owned(), home.path(), "`a=b=c` is not a log filter");
    check(|log| log.max_bytes = 1, home.path(), "`log.max_bytes` cannot be `1`");
    check(|log| log.files = 0, home.path(), "`log.files` cannot be `0`");
    check(|_| {}, &file.join("below"), "cannot write the log in");
    let linked = home.path().join("linked");
    fs::create_dir(&linked).unwrap();
    symlink(&file, linked.join("sinew.log")).unwrap();
    check(|_| {}, &linked, "cannot write the log in");
    assert_eq!(fs::read(&file).unwrap(), b"", "nothing was written through the link");
}

#[test]
fn full_file_is_rotated_and_all_files_are_private() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("log");
    let mut settings = settings_with_level("info");
    settings.log = LogSettings { max_bytes: 4096, files: 3, ..settings.log };
    log_lines(&directory, &settings, |_| {
        for number in 0..400_u64 {
            tracing::info!(number);
        }
    });
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    let mut names: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert_eq!(names.len(), 3, "{names:?}");
    for path in &names {
        assert_eq!(mode(path), 0o600);
        assert!(fs::metadata(path).unwrap().len() <= 4096);
    }
    let reader =
        crate::log_reader::LogReader::open(&directory, crate::log_reader::LogLineFilter::default()).unwrap();
    let numbers: Vec<u64> = reader.map(|line| line.unwrap().record()["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers.last(), Some(&399));
    assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "no gap within what is kept");
}
