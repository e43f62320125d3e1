//! `explain` before each call of the table, on the agent socket and the control socket: it agrees with the
//! result of the call.

use serde_json::{Value, json};
use tests::{Client, Daemon, Home};

use super::clients::{Endpoint, EndpointResult, NativeEndpoint};
use super::table::{self, ApprovalUse, TableCase, TableStep};

/// The native endpoint, which explains each call before it executes it.
struct ExplainingEndpoint<'a> {
    home: &'a Home,
    endpoint: NativeEndpoint,
    agent: Client,
    control: Client,
    verdicts: Vec<String>,
    differing: Vec<String>,
}

/// Returns the fields by which a program distinguishes refusals.
fn facts(refusal: &Value) -> [&Value; 4] {
    ["code", "detail", "reason", "rule"].map(|key| &refusal[key])
}

/// Returns the verdict that `explain` must give for this result.
fn verdict(answer: &EndpointResult) -> &'static str {
    match answer.refusal["code"].as_str() {
        None => "permit",
        Some("approval_pending") => "ask",
        Some(_) => "deny",
    }
}

impl ExplainingEndpoint<'_> {
    fn connect(daemon: &Daemon) -> ExplainingEndpoint<'_> {
        ExplainingEndpoint {
            home: daemon.home(),
            endpoint: NativeEndpoint::connect(daemon),
            agent: daemon.agent(),
            control: daemon.control(),
            verdicts: Vec::new(),
            differing: Vec::new(),
        }
    }

    fn check(&mut self, case: &TableCase, approval: Option<&str>) -> EndpointResult {
        let mut params = json!({"tool_name": case.tool, "arguments": case.arguments, "approval": "async"});
        if let Some(id) = approval.filter(|_| case.approval_use == ApprovalUse::LastRequested) {
            params["approval_id"] = json!(id);
        }
        if let Some(key) = case.key {
            params["idempotency_key"] = json!(key);
        }
        let reported = self.agent.request("sinew/explain", &params)["result"].clone();
        let human = self.control.request("control/explain", &params)["result"].clone();
        let (reported, human) = (self.home.with_short_names(&reported), self.home.with_short_names(&human));
        let answer = self.endpoint.call(case, approval);
        let what = format!("{} {:.200}", case.tool, case.arguments.to_string());
        if reported != human {
            self.differing.push(format!("{what}: the agent {reported}\n  the human {human}"));
        }
        let (word, refusal) = (reported["verdict"].as_str().unwrap_or("no verdict"), &reported["refusal"]);
        let denied_so =
            word != "deny" || facts(refusal) == facts(&self.home.with_short_names(&answer.refusal));
        if word != verdict(&answer) || !denied_so {
            self.differing.push(format!("{what}: told {word} {refusal}\n  it came to {}", answer.refusal));
        }
        self.verdicts.push(word.to_owned());
        answer
    }
}

#[test]
fn explain_agrees_with_each_call_of_the_table() {
    let home = super::equivalence::prepare_home();
    table::create_workspace(&home);
    let daemon = Daemon::start_in(home);
    let (mut endpoint, mut control) = (ExplainingEndpoint::connect(&daemon), daemon.control());
    let mut question = None;
    for step in table::steps(daemon.home(), &table::ALL) {
        match step {
            TableStep::Call(case) => {
                let answer = endpoint.check(&case, question.as_deref());
                if case.approval_use == ApprovalUse::NoApproval {
                    question = answer.refusal["approval_id"].as_str().map(str::to_owned);
                }
            }
            TableStep::Mode(mode) => {
                control.request("control/mode.set", &json!({"mode": mode, "reason": "the table"}));
            }
            TableStep::Decide(answer) => {
                if let Some(id) = &question {
                    control.request("control/approvals.decide", &json!({"id": id, "answer": answer}));
                }
            }
        }
    }
    let ExplainingEndpoint { verdicts, differing, .. } = endpoint;
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
    for word in ["permit", "ask", "deny"] {
        assert!(verdicts.iter().filter(|reported| *reported == word).count() >= 2, "{word}: {verdicts:?}");
    }
    daemon.stop();
}

/// Runs the example of every tool in a mode that requires approval: `explain` reports if the approval can be
/// requested.
#[test]
fn explain_knows_for_every_tool_if_approval_is_possible() {
    let home = tests::Home::initialised().without_automatic_modes();
    let modes = std::fs::read_to_string(home.root().join("config/governance/modes.yaml")).expect("written");
    home.configure(
        "governance/modes.yaml",
        &modes.replace("require_approval_for: []", "require_approval_for: [all_actions]"),
    );
    // Replaces the shipped entries, because their examples belong to a mode without approvals.
    home.configure("governance/tools.yaml", "tools:\n  read_file: {requires_approval: true}\n");
    home.file("notes.txt", "milk\n");
    let daemon = Daemon::start_in(home);
    let mut endpoint = ExplainingEndpoint::connect(&daemon);
    let tools = endpoint.agent.request("sinew/tools", &json!({}))["result"]["tools"].clone();
    let tools = tools.as_array().expect("tools").clone();
    assert!(tools.len() >= 20, "{}", tools.len());
    for mode in ["NORMAL", "ALERT", "DEGRADED", "LOCKDOWN", "RECOVERY"] {
        let control = &mut endpoint.control;
        control.request("control/mode.set", &json!({"mode": mode, "reason": "the table"}));
        for tool in &tools {
            let (name, example) = (tool["name"].as_str().expect("a name"), tool["example"].clone());
            for arguments in [example, json!({}), json!({"path": "notes.txt"}), json!({"path": "/etc/hosts"})]
            {
                let answer = endpoint.check(&TableCase::new(name, arguments), None);
                // Denies each request, so that the limit of pending requests per caller is not reached.
                if let Some(id) = answer.refusal["approval_id"].as_str() {
                    let no = json!({"id": id, "answer": "deny"});
                    endpoint.control.request("control/approvals.decide", &no);
                }
            }
        }
    }
    let ExplainingEndpoint { verdicts, differing, .. } = endpoint;
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
    let asked = verdicts.iter().filter(|reported| *reported == "ask").count();
    assert!(asked >= tools.len(), "{asked} of {}", verdicts.len());
    daemon.stop();
}
