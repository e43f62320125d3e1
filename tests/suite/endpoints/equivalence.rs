//! Equal calls on every endpoint give equal verdicts, refusal texts and records. Only values that differ
//! between two runs (ids, times, counts of earlier calls) are left out.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tests::{Bridge, Daemon, Home};

use super::clients::{self, Answer, CommandLine, Door, Era, Mcp, Native, Wire};
use super::comparison::{differences, lasting};
use super::table::{self, Case, Part, Step};

/// Results and records of one run through the table of calls.
struct Walk {
    answers: Vec<Answer>,
    /// The records of each call, in the order of the calls.
    records: Vec<Vec<Value>>,
}

pub(super) fn prepared() -> Home {
    let home = Home::initialised().without_alarms();
    table::configure(&home);
    home
}

/// Runs every call on one endpoint, from the same initial state: no earlier calls, the same files.
fn walk(home: Home, parts: &[Part], enter: impl Fn(&Daemon) -> Box<dyn Door + '_>) -> (Home, Walk) {
    forget(&home);
    table::furnish(&home);
    let daemon = Daemon::start_in(home);
    let mut control = daemon.control();
    let mut question = None;
    let mut answers = Vec::new();
    let mut door = enter(&daemon);
    for step in table::steps(daemon.home(), parts) {
        match step {
            Step::Call(case) => {
                let answer = door.call(&case, question.as_deref());
                if case.brings == table::Brings::Nothing {
                    question = answer.refusal["approval_id"].as_str().map(str::to_owned);
                }
                answers.push(answer);
            }
            Step::Mode(mode) => {
                let set = control.request("control/mode.set", &json!({"mode": mode, "reason": "the table"}));
                assert!(set["result"].is_object(), "{set}");
            }
            Step::Decide(answer) => {
                if let Some(id) = &question {
                    let told =
                        control.request("control/approvals.decide", &json!({"id": id, "answer": answer}));
                    assert_eq!(told["result"]["decided"], true, "{told}");
                }
            }
        }
    }
    drop(door);
    let home = daemon.stop();
    let records = by_call(home.records());
    (home, Walk { answers, records })
}

/// Removes all state except the key of the digests.
fn forget(home: &Home) {
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
fn by_call(records: Vec<Value>) -> Vec<Vec<Value>> {
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

impl Walk {
    /// Returns the result of a call without values that differ between runs.
    fn answer(&self, index: usize) -> Value {
        let Answer { success, output, refusal, failure, metadata } = &self.answers[index];
        self.anonymous(&json!({"success": success, "output": output, "refusal": refusal, "failure": failure,
            "metadata": metadata}))
    }

    /// Returns the records of a call without values that differ between runs.
    fn record(&self, index: usize) -> Value {
        self.anonymous(&json!(self.records[index]))
    }

    /// Replaces approval ids, which are new in each run and appear in messages.
    fn anonymous(&self, value: &Value) -> Value {
        let ids = self.answers.iter().filter_map(|answer| answer.refusal["approval_id"].as_str());
        let text = ids.fold(lasting(value.clone()).to_string(), |text, id| text.replace(id, "APPROVAL"));
        serde_json::from_str(&text).expect("still JSON")
    }
}

fn cases(home: &Home, parts: &[Part]) -> Vec<Case> {
    let calls = table::steps(home, parts).into_iter().filter_map(|step| match step {
        Step::Call(case) => Some(case),
        Step::Mode(_) | Step::Decide(_) => None,
    });
    calls.collect()
}

/// Refusal codes that the table must reach; a code that it does not reach is not compared.
const REACHED: [&str; 13] = [
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
fn check(parts: &[Part], enter: impl Fn(&Daemon) -> Box<dyn Door + '_>) {
    let (home, native) = walk(prepared(), parts, |daemon| Box::new(Native::enter(daemon)));
    let (home, other) = walk(home, parts, enter);
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
        for code in REACHED {
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
    check(&table::ALL, |daemon| Box::new(Mcp::enter(Wire::Socket(daemon.agent()), Era::Handshake)));
}

#[test]
fn mcp_without_handshake_matches_the_native_endpoint() {
    check(&table::ALL, |daemon| Box::new(Mcp::enter(Wire::Socket(daemon.agent()), Era::Stateless)));
}

#[test]
fn bridge_matches_the_native_endpoint() {
    check(&table::ALL, |daemon| {
        let bridge = Bridge::start(daemon.home(), &["--no-start"]);
        Box::new(Mcp::enter(Wire::Bridge(bridge), Era::Handshake))
    });
}

/// The command line starts a process per call, so each part of the table is a test of its own.
fn check_command_line(part: Part) {
    check(&[part], |daemon| Box::new(CommandLine(daemon.home())));
}

#[test]
fn command_line_matches_native_for_reads() {
    check_command_line(Part::Reads);
}

#[test]
fn command_line_matches_native_for_writes() {
    check_command_line(Part::Writes);
}

#[test]
fn command_line_matches_native_for_listings() {
    check_command_line(Part::Looks);
}

#[test]
fn command_line_matches_native_for_changes() {
    check_command_line(Part::Changes);
}

#[test]
fn command_line_matches_native_for_malformed_calls() {
    check_command_line(Part::Malformed);
}

#[test]
fn command_line_matches_native_for_names() {
    check_command_line(Part::Names);
}

#[test]
fn command_line_matches_native_for_programs_keys_and_rates() {
    check_command_line(Part::Programs);
}

#[test]
fn command_line_matches_native_in_careful_modes() {
    check_command_line(Part::Careful);
}

#[test]
fn command_line_matches_native_in_and_after_lockdown() {
    check_command_line(Part::Locked);
}

/// Returns the host tool and input that correspond to a call, if the host has such a tool with the same
/// arguments. A path with `..` has none: the hook refuses it as ambiguous, because it cannot know which file
/// the host would open.
fn at_a_host(case: &Case) -> Option<(&'static str, Value)> {
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
    let home = prepared();
    table::furnish(&home);
    let daemon = Daemon::start_in(home);
    let (mut native, mut control) = (Native::enter(&daemon), daemon.control());
    let (mut asked, mut differing) = (0, Vec::new());
    for step in table::steps(daemon.home(), &table::ALL) {
        let case = match step {
            Step::Call(case) if case.brings == table::Brings::Nothing => case,
            Step::Mode(mode) => {
                control.request("control/mode.set", &json!({"mode": mode, "reason": "the table"}));
                continue;
            }
            Step::Call(_) | Step::Decide(_) => continue,
        };
        let Some((tool, input)) = at_a_host(&case) else { continue };
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
        let said = answer.refusal["reason"].as_str().filter(|_| is_named).unwrap_or_default();
        if decision != expected || !reason.contains(said) {
            differing
                .push(format!("{tool} {input:.200}: {decision} {reason}\n  {expected} {}", answer.refusal));
        }
    }
    assert!(asked >= 100, "{asked}");
    assert!(differing.is_empty(), "{} of {asked} differ:\n{}", differing.len(), differing.join("\n"));
}
