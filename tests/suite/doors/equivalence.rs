//! The same calls at every door: the same verdicts, the same refusals word for word, the same records. What differs from
//! one moment to the next (ids, times, what was used up before) is left out, and nothing else.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tests::{Bridge, Daemon, Home};

use super::sameness::{differences, lasting};
use super::table::{self, Case, Part, Step};
use super::ways::{self, Answer, CommandLine, Door, Era, Mcp, Native, Wire};

/// What a walk through the table left behind.
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

/// Makes every call at one door, in a world that is the same each time: nothing done before, the same files.
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

/// Takes all state away but the key that digests are made with.
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

/// The calls came one after the other, so the order of their first records is theirs.
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
    /// What was answered to a call, without the moment.
    fn answer(&self, index: usize) -> Value {
        let Answer { success, output, refusal, failure, metadata } = &self.answers[index];
        self.anonymous(&json!({"success": success, "output": output, "refusal": refusal, "failure": failure,
            "metadata": metadata}))
    }

    /// What is on record of a call, without the moment.
    fn record(&self, index: usize) -> Value {
        self.anonymous(&json!(self.records[index]))
    }

    /// Approvals have names that are new each time, and sentences speak of them.
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

/// What the table leads to; a refusal that it does not reach is not compared.
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

/// Both doors, then everything that differs at once: one run shows all there is to mend.
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
fn mcp_with_a_handshake_answers_as_the_native_door() {
    check(&table::ALL, |daemon| Box::new(Mcp::enter(Wire::Socket(daemon.agent()), Era::Handshake)));
}

#[test]
fn mcp_without_a_handshake_answers_as_the_native_door() {
    check(&table::ALL, |daemon| Box::new(Mcp::enter(Wire::Socket(daemon.agent()), Era::Stateless)));
}

#[test]
fn the_bridge_answers_as_the_native_door() {
    check(&table::ALL, |daemon| {
        let bridge = Bridge::start(daemon.home(), &["--no-start"]);
        Box::new(Mcp::enter(Wire::Bridge(bridge), Era::Handshake))
    });
}

/// A process for each call takes its time, so that each part of the table is a test.
fn check_command_line(part: Part) {
    check(&[part], |daemon| Box::new(CommandLine(daemon.home())));
}

#[test]
fn the_command_line_answers_reads_as_the_native_door() {
    check_command_line(Part::Reads);
}

#[test]
fn the_command_line_answers_writes_as_the_native_door() {
    check_command_line(Part::Writes);
}

#[test]
fn the_command_line_answers_looks_as_the_native_door() {
    check_command_line(Part::Looks);
}

#[test]
fn the_command_line_answers_changes_as_the_native_door() {
    check_command_line(Part::Changes);
}

#[test]
fn the_command_line_answers_malformed_calls_as_the_native_door() {
    check_command_line(Part::Malformed);
}

#[test]
fn the_command_line_answers_names_as_the_native_door() {
    check_command_line(Part::Names);
}

#[test]
fn the_command_line_answers_programs_keys_and_rates_as_the_native_door() {
    check_command_line(Part::Programs);
}

#[test]
fn the_command_line_answers_in_careful_modes_as_the_native_door() {
    check_command_line(Part::Careful);
}

#[test]
fn the_command_line_answers_in_lockdown_and_after_it_as_the_native_door() {
    check_command_line(Part::Locked);
}

/// What a host would call the same thing, where it has a tool for it. Its other arguments are its own business; and of a
/// path that goes up by `..` it is told that it could mean two files, since nobody knows which one the host would open.
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

/// The hook has no call to run and no record of what it permits: what it must share is the verdict, and for a denial the
/// reason.
#[test]
fn the_hook_decides_as_the_native_door() {
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
        // Before the call: it may change what is there.
        let (decision, reason) = ways::ask_hook(daemon.home(), tool, &input);
        let answer = native.call(&case, None);
        let expected = match answer.refusal["code"].as_str() {
            None => "allow",
            Some("approval_pending") => "ask",
            // What is too much for our card is for the host to show: it is the host that asks.
            Some(_) if answer.refusal["detail"] == "too_much_to_show" => "ask",
            Some(_) => "deny",
        };
        asked += 1;
        // A malformed call is told of the host's arguments, by the names they have there.
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
