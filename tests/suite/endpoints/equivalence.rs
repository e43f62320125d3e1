//! Equal calls on every endpoint give equal verdicts, refusal texts and records. Only values that differ
//! between two runs (ids, times, counts of earlier calls) are left out.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tests::{Bridge, Daemon, Home};

use super::clients::{
    self, CliEndpoint, Endpoint, EndpointResult, McpEndpoint, McpEra, McpTransport, NativeEndpoint,
};
use super::comparison::{differences, without_volatile};
use super::table::{self, TableCase, TablePart, TableStep};

/// Results and records of one run through the table of calls.
struct TableRun {
    answers: Vec<EndpointResult>,
    /// The records of each call, in the order of the calls.
    records: Vec<Vec<Value>>,
}

pub(super) fn prepare_home() -> Home {
    let home = Home::initialised().without_automatic_modes();
    table::configure(&home);
    home
}

/// Runs every call on one endpoint, from the same initial state: no earlier calls, the same files.
fn run_table(
    home: Home,
    parts: &[TablePart],
    enter: impl Fn(&Daemon) -> Box<dyn Endpoint + '_>,
) -> (Home, TableRun) {
    remove_state(&home);
    table::create_workspace(&home);
    let daemon = Daemon::start_in(home);
    let mut control = daemon.control();
    let mut question = None;
    let mut answers = Vec::new();
    let mut socket_name = enter(&daemon);
    for step in table::steps(daemon.home(), parts) {
        match step {
            TableStep::Call(case) => {
                let answer = socket_name.call(&case, question.as_deref());
                if case.approval_use == table::ApprovalUse::NoApproval {
                    question = answer.refusal["approval_id"].as_str().map(str::to_owned);
                }
                answers.push(answer);
            }
            TableStep::Mode(mode) => {
                let set = control.request("control/mode.set", &json!({"mode": mode, "reason": "the table"}));
                assert!(set["result"].is_object(), "{set}");
            }
            TableStep::Decide(answer) => {
                if let Some(id) = &question {
                    let reported =
                        control.request("control/approvals.decide", &json!({"id": id, "answer": answer}));
                    assert_eq!(reported["result"]["decided"], true, "{reported}");
                }
            }
        }
    }
    drop(socket_name);
    let home = daemon.stop();
    let records = group_by_call(home.records());
    (home, TableRun { answers, records })
}

/// Removes all state except the key of the digests.
fn remove_state(home: &Home) {
    let (state, key) = (home.root().join("state"), home.root().join("state/ledger.key"));
    let Ok(kept) = std::fs::read(&key) else { return };
    std::fs::remove_dir_all(&state).expect("it goes");
    let private = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::create_dir(&state).expect("a folder");
    std::fs::set_permissions(&state, private(0o700)).expect("ours alone");
    std::fs::write(&key, kept).expect("the key");
    std::fs::set_permissions(&key, private(0o600)).expect("ours alone");
}

/// Groups the records by call. The calls ran one after the other, so the first records are in call order.
fn group_by_call(records: Vec<Value>) -> Vec<Vec<Value>> {
    let mut calls: Vec<(Value, Vec<Value>)> = Vec::new();
    for record in records {
        let id = [&record["call_id"], &record["data"]["call_id"]].into_iter().find(|id| id.is_string());
        let Some(id) = id.cloned() else { continue };
        match calls.iter_mut().find(|(known, _)| *known == id) {
            Some((_, its)) => its.push(record),
            None => calls.push((id, vec![record])),
        }
    }
    calls.into_iter().map(|(_, records)| records).collect()
}

impl TableRun {
    /// Returns the result of a call without values that differ between runs.
    fn answer(&self, index: usize) -> Value {
        let EndpointResult { success, output, refusal, failure, metadata } = &self.answers[index];
        self.without_run_ids(
            &json!({"success": success, "output": output, "refusal": refusal, "failure": failure,
            "metadata": metadata}),
        )
    }

    /// Returns the records of a call without values that differ between runs.
    fn record(&self, index: usize) -> Value {
        self.without_run_ids(&json!(self.records[index]))
    }

    /// Replaces approval ids, which are new in each run and appear in messages.
    fn without_run_ids(&self, value: &Value) -> Value {
        let ids = self.answers.iter().filter_map(|answer| answer.refusal["approval_id"].as_str());
        let text =
            ids.fold(without_volatile(value.clone()).to_string(), |text, id| text.replace(id, "APPROVAL"));
        serde_json::from_str(&text).expect("still JSON")
    }
}

fn cases(home: &Home, parts: &[TablePart]) -> Vec<TableCase> {
    let calls = table::steps(home, parts).into_iter().filter_map(|step| match step {
        TableStep::Call(case) => Some(case),
        TableStep::Mode(_) | TableStep::Decide(_) => None,
    });
    calls.collect()
}

/// Refusal codes that the table must reach; a code that it does not reach is not compared.
const REQUIRED_CODES: [&str; 13] = [
    "unknown_tool",
    "invalid_arguments",
    "mode_denied",
    "approval_denied",
    "approval_pending",
    "rate_limited",
    "path_forbidden",
    "path_not_allowed",
    "command_not_allowed",
    "domain_not_allowed",
    "too_large",
    "conflict",
    "control_plane",
];

/// Compares an endpoint with the native one and reports all differences at once.
fn check(parts: &[TablePart], enter: impl Fn(&Daemon) -> Box<dyn Endpoint + '_>) {
    let (home, native) = run_table(prepare_home(), parts, |daemon| Box::new(NativeEndpoint::connect(daemon)));
    let (home, other) = run_table(home, parts, enter);
    let cases = cases(&home, parts);
    for walk in [&native, &other] {
        assert_eq!(
            (walk.answers.len(), walk.records.len()),
            (cases.len(), cases.len()),
            "each call is on record"
        );
    }
    if parts == table::ALL {
        assert!(cases.len() >= 200, "{}", cases.len());
        for code in REQUIRED_CODES {
            let reached = native.answers.iter().any(|answer| answer.refusal["code"] == code);
            assert!(reached, "{code} is not in the table");
        }
    }
    let mut differing = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let what = format!("{index}: {} {:.200}", case.tool, case.arguments.to_string());
        let (mut ours, theirs) = (native.answer(index), other.answer(index));
        if other.answers[index].metadata.is_none() {
            ours["metadata"] = Value::Null;
        }
        differing.extend(differences(&what, &ours, &theirs));
        differing.extend(differences(
            &format!("{what} on record"),
            &native.record(index),
            &other.record(index),
        ));
    }
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
}

#[test]
fn mcp_with_handshake_matches_the_native_endpoint() {
    check(&table::ALL, |daemon| {
        Box::new(McpEndpoint::connect(McpTransport::Socket(daemon.agent()), McpEra::Handshake))
    });
}

#[test]
fn mcp_without_handshake_matches_the_native_endpoint() {
    check(&table::ALL, |daemon| {
        Box::new(McpEndpoint::connect(McpTransport::Socket(daemon.agent()), McpEra::Stateless))
    });
}

#[test]
fn bridge_matches_the_native_endpoint() {
    check(&table::ALL, |daemon| {
        let bridge = Bridge::start(daemon.home(), &["--no-start"]);
        Box::new(McpEndpoint::connect(McpTransport::Bridge(bridge), McpEra::Handshake))
    });
}

/// The command line starts a process per call, so each part of the table is a test of its own.
fn check_command_line(part: TablePart) {
    check(&[part], |daemon| Box::new(CliEndpoint(daemon.home())));
}

#[test]
fn command_line_matches_native_for_reads() {
    check_command_line(TablePart::Reads);
}

#[test]
fn command_line_matches_native_for_writes() {
    check_command_line(TablePart::Writes);
}

#[test]
fn command_line_matches_native_for_listings() {
    check_command_line(TablePart::Listings);
}

#[test]
fn command_line_matches_native_for_changes() {
    check_command_line(TablePart::Changes);
}

#[test]
fn command_line_matches_native_for_malformed_calls() {
    check_command_line(TablePart::Malformed);
}

#[test]
fn command_line_matches_native_for_names() {
    check_command_line(TablePart::Names);
}

#[test]
fn command_line_matches_native_for_programs_and_keys() {
    check_command_line(TablePart::Programs);
}

#[test]
fn command_line_matches_native_in_careful_modes() {
    check_command_line(TablePart::ApprovalModes);
}

#[test]
fn command_line_matches_native_in_and_after_lockdown() {
    check_command_line(TablePart::Lockdown);
}

/// Returns the host tool and input that correspond to a call, if the host has such a tool with the same
/// arguments. A path with `..` has none: the hook refuses it as ambiguous, because it cannot know which file
/// the host would open.
fn as_host_call(case: &TableCase) -> Option<(&'static str, Value)> {
    let arguments = case.arguments.as_object().filter(|_| case.key.is_none())?;
    let keys: Vec<&str> = arguments.keys().map(String::as_str).collect();
    let path = arguments.get("path").filter(|path| !path.as_str().is_some_and(|path| path.contains("..")))?;
    match (case.tool.as_str(), keys.as_slice()) {
        ("read_file", ["path"]) => Some(("Read", json!({"file_path": path}))),
        ("write_file", ["path", "content"]) => {
            let content = arguments["content"].as_str().filter(|text| text.len() > 10)?;
            Some(("Write", json!({"file_path": path, "content": content})))
        }
        _ => None,
    }
}

/// The hook runs no call and records no permit, so only the verdict is compared, and the reason of a denial.
#[test]
fn hook_verdicts_match_the_native_endpoint() {
    let home = prepare_home();
    table::create_workspace(&home);
    let daemon = Daemon::start_in(home);
    let (mut native, mut control) = (NativeEndpoint::connect(&daemon), daemon.control());
    let (mut asked, mut differing) = (0, Vec::new());
    for step in table::steps(daemon.home(), &table::ALL) {
        let case = match step {
            TableStep::Call(case) if case.approval_use == table::ApprovalUse::NoApproval => case,
            TableStep::Mode(mode) => {
                control.request("control/mode.set", &json!({"mode": mode, "reason": "the table"}));
                continue;
            }
            TableStep::Call(_) | TableStep::Decide(_) => continue,
        };
        let Some((tool, input)) = as_host_call(&case) else { continue };
        // The hook decides first, because the call may change the files.
        let (decision, reason) = clients::ask_hook(daemon.home(), tool, &input);
        let answer = native.call(&case, None);
        let expected = match answer.refusal["code"].as_str() {
            None => "allow",
            Some("approval_pending") => "ask",
            // If the effect is too large for our approval request, the host prompts, because it shows the
            // call itself.
            Some(_) if answer.refusal["detail"] == "too_much_to_show" => "ask",
            Some(_) => "deny",
        };
        asked += 1;
        // The refusal of a malformed call names the host's arguments, so its text differs.
        let is_named = expected == "deny" && answer.refusal["code"] != "invalid_arguments";
        let expected_reason = answer.refusal["reason"].as_str().filter(|_| is_named).unwrap_or_default();
        if decision != expected || !reason.contains(expected_reason) {
            differing
                .push(format!("{tool} {input:.200}: {decision} {reason}\n  {expected} {}", answer.refusal));
        }
    }
    assert!(asked >= 100, "{asked}");
    assert!(differing.is_empty(), "{} of {asked} differ:\n{}", differing.len(), differing.join("\n"));
}
