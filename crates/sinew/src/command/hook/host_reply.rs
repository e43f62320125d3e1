//! Reply of a hook to its host: one JSON object and the matching exit code.

use std::io::Write;

use execution::host::{HostVerdict, OnApproval, OnPermit};
use execution::{ExplainedVerdict, Explanation};
use serde_json::{Value, json};
use tool::Refusal;

use crate::cli::{FailMode, HostName};
use crate::exit::ExitKind;
use crate::render;
use crate::terminal::{escape_invisible_line, print_message};

/// Maximum length of a reason. Hosts truncate longer texts.
const MAX_REASON_LENGTH: usize = 4000;

/// Reply to the host.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HostReply {
    /// No decision: the host's own rules apply.
    NoDecision,
    /// Run the call without asking the user.
    Allow(String),
    /// Ask the user.
    Ask(String),
    /// Do not run the call.
    Deny(String),
    /// The call could not be judged, for this reason.
    CannotJudge(String),
    /// Context for the model after the named event.
    Context(&'static str, String),
    /// The result of a tool could not be reviewed, for this reason.
    CannotReview(String),
}

impl From<HostVerdict> for HostReply {
    fn from(verdict: HostVerdict) -> Self {
        let HostVerdict::Judged { explanation, on_permit, on_approval } = verdict else {
            return HostReply::NoDecision;
        };
        match &explanation.finding {
            ExplainedVerdict::Permit => match on_permit {
                OnPermit::None => HostReply::NoDecision,
                OnPermit::Allow => HostReply::Allow(permit_text(&explanation)),
            },
            ExplainedVerdict::Ask { .. } => match on_approval {
                OnApproval::None => HostReply::NoDecision,
                OnApproval::Ask => HostReply::Ask(approval_text(&explanation)),
                // The daemon has already turned the question into a denial; an older one has not.
                OnApproval::Deny => HostReply::Deny(approval_text(&explanation)),
            },
            ExplainedVerdict::Deny { refusal } => {
                HostReply::Deny(denial_text(&explanation.tool_name, refusal))
            }
        }
    }
}

impl HostReply {
    /// Writes the reply and returns the exit code. If the reply to a pending call cannot be written, the call
    /// is blocked.
    pub(super) fn send(self, host: HostName, fail: FailMode) -> ExitKind {
        // After the tool has run there is nothing to block.
        let unwritten = if matches!(self, HostReply::Context(..) | HostReply::CannotReview(_)) {
            ExitKind::Done
        } else {
            BLOCK_EXIT
        };
        let (object, exit) = self.into_object(host, fail);
        // The Rust runtime opens a closed standard output on /dev/null before `main`, where every write
        // succeeds.
        if stdout_is_null_device() {
            return unwritten;
        }
        let mut out = std::io::stdout().lock();
        match out.write_all(format!("{object}\n").as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => exit,
            Err(_) => unwritten,
        }
    }

    fn into_object(self, host: HostName, fail: FailMode) -> (Value, ExitKind) {
        match self {
            HostReply::NoDecision => (no_decision(host), ExitKind::Done),
            HostReply::Allow(reason) => (decision(host, "allow", &reason), ExitKind::Done),
            HostReply::Ask(reason) => (decision(host, "ask", &reason), ExitKind::Done),
            HostReply::Deny(reason) => (decision(host, "deny", &reason), ExitKind::Done),
            HostReply::CannotJudge(why) => cannot_judge_reply(host, &why, fail),
            HostReply::Context(event, text) => (context(host, event, &shorten_reason(&text)), ExitKind::Done),
            HostReply::CannotReview(why) => {
                let message = format!("Sinew could not review this result: {why}");
                (message_for_user(host, &shorten_reason(&message)), ExitKind::Done)
            }
        }
    }
}

/// Returns the reply that leaves the call to the host's own rules. Cursor blocks a call without an explicit reply
/// if the hook is fail-closed.
fn no_decision(host: HostName) -> Value {
    match host {
        HostName::ClaudeCode | HostName::Codex | HostName::GeminiCli => json!({}),
        HostName::Cursor => json!({"permission": "allow"}),
    }
}

/// Returns the reply with a decision and its reason, in the words of the host.
fn decision(host: HostName, word: &str, reason: &str) -> Value {
    let reason = shorten_reason(reason);
    match host {
        HostName::ClaudeCode => json!({"hookSpecificOutput": {
            "hookEventName": host.event_before(),
            "permissionDecision": word,
            "permissionDecisionReason": reason,
        }}),
        // Codex knows no other decision than `deny`: it reports any other one as a fault, and runs the call.
        HostName::Codex if word != "deny" => no_decision(host),
        HostName::Codex => decision(HostName::ClaudeCode, word, &reason),
        // The user sees `systemMessage` in the prompt of Gemini CLI, and its model the reason of a denial.
        HostName::GeminiCli if word == "ask" => json!({"decision": word, "systemMessage": reason}),
        HostName::GeminiCli => json!({"decision": word, "reason": reason}),
        // The documentation says that the model reads `agent_message`; observed versions show it `user_message`.
        HostName::Cursor => json!({"permission": word, "user_message": reason, "agent_message": reason}),
    }
}

/// Returns the reply with context for the model.
fn context(host: HostName, event: &str, text: &str) -> Value {
    match host {
        HostName::ClaudeCode | HostName::Codex | HostName::GeminiCli => {
            json!({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}})
        }
        HostName::Cursor => json!({"additional_context": text}),
    }
}

/// Returns the reply with a message for the user and no decision. Cursor shows none, so it goes to standard error.
fn message_for_user(host: HostName, text: &str) -> Value {
    match host {
        HostName::ClaudeCode | HostName::Codex | HostName::GeminiCli => json!({"systemMessage": text}),
        HostName::Cursor => {
            print_message(escape_invisible_line(text));
            no_decision(host)
        }
    }
}

/// Exit code that blocks the call. The host's contract gives code 2 this meaning; elsewhere it is
/// `Exit::Usage`.
const BLOCK_EXIT: ExitKind = ExitKind::Usage;

/// Returns true if standard output is the null device.
fn stdout_is_null_device() -> bool {
    let facts =
        |file: nix::Result<nix::sys::stat::FileStat>| file.ok().map(|facts| (facts.st_rdev, facts.st_mode));
    let (out, null) = (nix::sys::stat::fstat(std::io::stdout()), nix::sys::stat::stat("/dev/null"));
    facts(out).is_some_and(|out| Some(out) == facts(null))
}

fn cannot_judge_reply(host: HostName, why: &str, fail: FailMode) -> (Value, ExitKind) {
    match fail {
        FailMode::Closed => {
            let reason = format!("Sinew cannot judge this call, so it is blocked: {why}");
            // A host that does not read the JSON object shows standard error.
            print_message(escape_invisible_line(&shorten_reason(&reason)));
            (decision(host, "deny", &reason), BLOCK_EXIT)
        }
        FailMode::Open => {
            let message =
                format!("Sinew could not judge this call; --fail=open leaves it to the host: {why}");
            (message_for_user(host, &shorten_reason(&message)), ExitKind::Done)
        }
    }
}

/// Returns the text of a denial for the model: the reason, the rule, and how to correct the call.
fn denial_text(rules_of: &str, refusal: &Refusal) -> String {
    let mut lines = vec![format!("Sinew refused this by the rules of `{rules_of}`: {}", refusal.reason)];
    // The reason often contains the problems already; do not repeat them.
    let is_missing = |text: &str| !refusal.reason.contains(text);
    let problems = refusal.problems.iter().filter(|problem| is_missing(&problem.message));
    lines.extend(problems.map(|problem| format!("- {} {}", problem.pointer, problem.message)));
    lines.extend(refusal.rule.as_ref().map(|rule| format!("rule: {}", render::format_rule(rule))));
    lines.extend(refusal.hint.as_ref().map(|hint| format!("hint: {hint}")));
    if let Some(repair) = &refusal.repair {
        lines.push(format!(
            "these arguments would be accepted ({}): {}",
            repair.note,
            json!(repair.arguments)
        ));
    } else if let Some(example) = refusal.example.as_ref().filter(|_| is_missing("Example: ")) {
        lines.push(format!("an example of the right shape: {example}"));
    }
    lines.join("\n")
}

/// Returns the text of a permit: the rules that permitted the call, in the order of evaluation.
fn permit_text(explanation: &Explanation) -> String {
    let Explanation { tool_name, mode, rules, .. } = explanation;
    let rules: Vec<String> = rules.iter().map(render::format_rule).collect();
    let by = if rules.is_empty() { "no rule forbids it".to_owned() } else { rules.join(", ") };
    format!("Sinew permits `{tool_name}` in {mode} mode: {by}")
}

/// Returns the text for a call that needs approval: the rules that require it.
fn approval_text(explanation: &Explanation) -> String {
    let ExplainedVerdict::Ask { asked_by, .. } = &explanation.finding else { return String::new() };
    let rules: Vec<String> = asked_by.iter().map(render::format_rule).collect();
    format!("Sinew requires approval in {} mode: {}", explanation.mode, rules.join(", "))
}

fn shorten_reason(text: &str) -> String {
    tool::text::shorten(text, MAX_REASON_LENGTH).into_owned()
}

#[cfg(test)]
mod tests {
    use tool::{Mode, RefusalCode, RuleRef};

    use super::*;

    fn rule(key: &str, line: u64) -> RuleRef {
        RuleRef { file: "tools.yaml".into(), line, id: format!("write_file.{key}").into() }
    }

    fn judged(finding: ExplainedVerdict, on_permit: OnPermit) -> HostReply {
        let explanation = Explanation {
            tool_name: "write_file".to_owned(),
            mode: Mode::Normal,
            finding,
            rules: vec![rule("modes", 1), rule("allowed_paths", 7)],
            policy_hash: String::new(),
            notes: Vec::new(),
        };
        HostVerdict::Judged { explanation, on_permit, on_approval: OnApproval::Ask }.into()
    }

    #[test]
    fn permit_names_its_rules_unless_the_table_is_silent() {
        assert_eq!(judged(ExplainedVerdict::Permit, OnPermit::None), HostReply::NoDecision);
        let message = "Sinew permits `write_file` in NORMAL mode: write_file.modes (tools.yaml:1), write_file.allowed_paths (tools.yaml:7)";
        assert_eq!(
            judged(ExplainedVerdict::Permit, OnPermit::default()),
            HostReply::Allow(message.to_owned())
        );
        assert_eq!(
            HostReply::NoDecision.into_object(HostName::ClaudeCode, FailMode::Closed),
            (json!({}), ExitKind::Done)
        );
    }

    #[test]
    fn unjudgeable_call_is_blocked_or_reported() {
        let (object, exit) =
            HostReply::CannotJudge("x".to_owned()).into_object(HostName::ClaudeCode, FailMode::Closed);
        assert_eq!(exit as u8, 2);
        assert_eq!(object["hookSpecificOutput"]["permissionDecision"], "deny", "{object}");
        let (object, exit) =
            HostReply::CannotJudge("x".to_owned()).into_object(HostName::ClaudeCode, FailMode::Open);
        assert_eq!(exit as u8, 0);
        assert!(object["systemMessage"].is_string() && object.as_object().unwrap().len() == 1, "{object}");
        for fail in [FailMode::Open, FailMode::Closed] {
            assert_eq!(
                HostReply::CannotReview("x".to_owned()).into_object(HostName::ClaudeCode, fail).1 as u8,
                0,
                "a completed call cannot be blocked"
            );
        }
    }

    #[test]
    fn denial_names_rule_and_hint_and_is_bounded() {
        let rule = RuleRef { file: "tools.yaml".into(), line: 7, id: "write_file.forbidden_paths".into() };
        let refusal = Refusal::new("write_file", RefusalCode::PathForbidden, "x".repeat(100_000));
        let short = Refusal { reason: "no".to_owned(), ..refusal.clone() }
            .with_hint("work elsewhere")
            .with_rule(rule);
        let deny =
            |refusal: Refusal| judged(ExplainedVerdict::Deny { refusal: Box::new(refusal) }, OnPermit::Allow);
        let expect = "Sinew refused this by the rules of `write_file`: no\nrule: write_file.forbidden_paths (tools.yaml:7)\nhint: work elsewhere";
        assert_eq!(deny(short), HostReply::Deny(expect.to_owned()));
        let (object, _) = deny(refusal).into_object(HostName::ClaudeCode, FailMode::Closed);
        assert!(object.to_string().len() < 10_000);
    }

    /// Recorded contracts of the hosts: each reply exactly as the host reads it.
    #[test]
    fn each_host_gets_the_reply_it_understands() {
        use HostName::{ClaudeCode, Codex, Cursor, GeminiCli};
        let check = |host: HostName, reply: HostReply, expect: Value| {
            assert_eq!(reply.into_object(host, FailMode::Closed), (expect, ExitKind::Done), "{host:?}");
        };
        let reason = || "r".to_owned();
        let nested = |word: &str| {
            json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": word,
                "permissionDecisionReason": "r"}})
        };
        let flat = |word: &str| json!({"permission": word, "user_message": "r", "agent_message": "r"});
        for (host, allow, ask, deny, none) in [
            (ClaudeCode, nested("allow"), nested("ask"), nested("deny"), json!({})),
            (Codex, json!({}), json!({}), nested("deny"), json!({})),
            (
                GeminiCli,
                json!({"decision": "allow", "reason": "r"}),
                json!({"decision": "ask", "systemMessage": "r"}),
                json!({"decision": "deny", "reason": "r"}),
                json!({}),
            ),
            (Cursor, flat("allow"), flat("ask"), flat("deny"), json!({"permission": "allow"})),
        ] {
            check(host, HostReply::Allow(reason()), allow);
            check(host, HostReply::Ask(reason()), ask);
            check(host, HostReply::Deny(reason()), deny);
            check(host, HostReply::NoDecision, none);
            let (object, exit) = HostReply::CannotJudge(reason()).into_object(host, FailMode::Closed);
            assert!(object.to_string().contains("deny") && exit == BLOCK_EXIT, "{host:?}: {object}");
        }
        check(Cursor, HostReply::Context("postToolUse", reason()), json!({"additional_context": "r"}));
    }
}
