//! Decisions made on the command line: sent to the daemon, or applied in this process if no daemon runs.

use std::sync::Arc;

use approvals::{ListedApproval, OperatorDecision, escape_for_display};
use client::ClientError;
use execution::ToolExecutionLayer;
use serde_json::{Map, Value, json};
use tool::Caller;

use super::{colour_line, request_heading, resolve_grant_prefix, resolve_prefix};
use crate::cli::{ApproveArgs, DenyArgs, GrantDuration, JsonArgs, PinArgs};
use crate::command::{call, each, pin};
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::terminal::{
    SUCCESS_STYLE, confirm, is_interactive, paint, print_message, print_result_line, print_warning,
};

pub(crate) fn approve(args: &ApproveArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let mut params = Map::from_iter([("answer".to_owned(), json!("approve"))]);
    params.extend(args.span.map(|span| match span {
        GrantDuration::Session => ("for_session".to_owned(), json!(true)),
        GrantDuration::Fixed(span) => ("for_seconds".to_owned(), json!(span.as_secs())),
    }));
    if !args.pattern.is_empty() {
        params.insert("patterns".to_owned(), json!(args.pattern));
    }
    let mut sender =
        DecisionSender { context, pin: pin::PinSource::from_args(args.pin), accept_rule: args.yes };
    sender.decide_each(&args.ids, args.output, &params, "approved")
}

pub(crate) fn deny(args: &DenyArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let mut params = Map::from_iter([("answer".to_owned(), json!("deny"))]);
    params.extend(args.reason.as_ref().map(|reason| ("message".to_owned(), json!(reason))));
    let mut sender = DecisionSender { context, pin: pin::PinSource::NotNeeded, accept_rule: true };
    sender.decide_each(&args.ids, args.output, &params, "denied")
}

pub(super) fn edit(
    id: &str,
    arguments: &str,
    pin: PinArgs,
    output: JsonArgs,
) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let text = match arguments {
        "-" => std::io::read_to_string(std::io::stdin())
            .map_err(|error| CommandError::usage(format!("standard input cannot be read: {error}")))?,
        given => given.to_owned(),
    };
    let arguments = super::parse_arguments(&text)
        .map_err(|why| CommandError::usage(format!("the arguments are not a JSON object: {why}")))?;
    let params = Map::from_iter([
        ("answer".to_owned(), json!("edit")),
        ("arguments".to_owned(), Value::Object(arguments)),
    ]);
    let mut sender = DecisionSender { context, pin: pin::PinSource::from_args(pin), accept_rule: true };
    sender.decide_each(&[id.to_owned()], output, &params, "changed")
}

pub(super) fn revoke(ids: &[String], output: JsonArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    each(ids, "grants", output.json, |given| {
        let id = resolve_grant_prefix(&context, given)?;
        let reply = context.request_control("control/grants.revoke", json!({"id": id}))?;
        if !output.json {
            print_result_line(format!(
                "{} is revoked: the calls it covered need approval again",
                escape_for_display(&id)
            ))?;
        }
        Ok(reply)
    })
}

/// Sender of decisions to the daemon. It asks for the PIN or for confirmation of a rule when the daemon
/// requires it.
pub(super) struct DecisionSender {
    pub(super) context: CommandContext,
    pub(super) pin: pin::PinSource,
    /// True if a rule is accepted without asking for confirmation.
    pub(super) accept_rule: bool,
}

impl DecisionSender {
    fn decide_each(
        &mut self,
        ids: &[String],
        output: JsonArgs,
        params: &Map<String, Value>,
        done: &str,
    ) -> Result<ExitKind, CommandError> {
        each(ids, "approvals", output.json, |id| {
            let whole = self.resolve_id(id, params)?;
            let reply = self.decide(&whole, params.clone())?;
            if !output.json {
                print_result_line(outcome_text(&whole, &reply, done))?;
            }
            Ok(reply)
        })
    }

    /// Resolves a typed id. A denial may use a prefix. An approval may not: an agent that makes enough calls
    /// gets an id with the same prefix as the request that the operator reviewed.
    fn resolve_id(&self, id: &str, params: &Map<String, Value>) -> Result<String, CommandError> {
        let whole = resolve_prefix(&self.context, id)?;
        if whole == id || params.get("answer").is_some_and(|answer| answer == "deny") {
            return Ok(whole);
        }
        let problem =
            CommandError::usage(format!("`{}` is only a prefix of an approval id", escape_for_display(id)));
        Err(problem.with_hint(format!(
            "review it with `sinew approvals show {0}` and use the full id: {0}",
            escape_for_display(&whole)
        )))
    }

    fn decide(&mut self, id: &str, mut params: Map<String, Value>) -> Result<Value, CommandError> {
        params.insert("id".to_owned(), json!(id));
        loop {
            params.extend(self.pin.known().map(|pin| ("pin".to_owned(), json!(pin))));
            match self
                .context
                .try_request_control("control/approvals.decide", &Value::Object(params.clone()))?
            {
                Ok(reply) => return Ok(reply),
                Err(error) => match (error_code(&error), &error) {
                    (Some("pin_needed"), _) => self.pin.read_pin()?,
                    (Some("rule_not_displayed"), ClientError::Rpc { data, .. }) => {
                        let rule = data.get("rule").cloned().unwrap_or_default();
                        print_rule(&rule);
                        if !self.accept_rule && !confirm_on_terminal("create this rule?")? {
                            return Err(CommandError::new(
                                ExitKind::Refused,
                                "no rule was created, and nothing was approved",
                            ));
                        }
                        params.insert("rule".to_owned(), rule);
                    }
                    _ => return Err(self.context.client_error(&error)),
                },
            }
        }
    }
}

fn outcome_text(id: &str, reply: &Value, done: &str) -> String {
    let text = |key: &str| reply[key].as_str().map(escape_for_display);
    match (text("grant"), text("new_request_id")) {
        (Some(grant), _) => {
            format!("{id} is {done}; rule {grant} was created (`sinew approvals revoke {grant}` ends it)")
        }
        (None, Some(next)) => format!("{id} is {done}; the edited call needs approval as {next}"),
        (None, None) => format!("{id} is {}", paint(SUCCESS_STYLE, done)),
    }
}

fn print_rule(rule: &Value) {
    print_warning("the rule:");
    for line in rule.as_array().into_iter().flatten() {
        print_message(format!("  {}", escape_for_display(line.as_str().unwrap_or_default())));
    }
}

/// Returns the `code` of an error reply.
pub(super) fn error_code(error: &ClientError) -> Option<&str> {
    match error {
        ClientError::Rpc { data, .. } => data["code"].as_str(),
        _ => None,
    }
}

/// Asks for confirmation on the terminal, or fails if there is none.
fn confirm_on_terminal(question: &str) -> Result<bool, CommandError> {
    match is_interactive() {
        true => Ok(confirm(question)),
        false => Err(CommandError::usage("the rule needs confirmation, and there is no terminal")
            .with_hint("add `--yes` once you have read the rule")),
    }
}

/// Returns the ids of all open approval requests except `brought`, the one that the call refers to.
pub(crate) async fn open_approvals_except(layer: &ToolExecutionLayer, brought: Option<&str>) -> Vec<String> {
    let open = layer.approvals().list().await.into_iter().map(|listed| listed.request.id);
    open.filter(|id| Some(id.as_str()) != brought).collect()
}

/// Asks on the terminal about each new approval request of this process, except those in `seen`. Runs until
/// the future is dropped.
pub(crate) async fn decide_on_terminal(
    layer: &Arc<ToolExecutionLayer>,
    mut seen: Vec<String>,
) -> std::convert::Infallible {
    let mut changes = layer.approvals().subscribe();
    loop {
        for listed in layer.approvals().list().await {
            if listed.state == "pending" && !seen.contains(&listed.request.id) {
                seen.push(listed.request.id.clone());
                decide_one_on_terminal(layer, &listed).await;
            }
        }
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn decide_one_on_terminal(layer: &Arc<ToolExecutionLayer>, listed: &ListedApproval) {
    for line in request_heading(listed).iter().chain(&listed.request.lines()) {
        print_message(colour_line(line));
    }
    let needs_pin = layer.approvals().pin().is_set();
    let asked = tokio::task::spawn_blocking(move || {
        let yes = is_interactive() && confirm("approve this call?");
        let pin = (yes && needs_pin).then(|| pin::read_hidden("operator PIN").ok()).flatten();
        (yes, pin)
    });
    let (yes, pin) = asked.await.unwrap_or((false, None));
    let answer = if yes { OperatorDecision::ApproveOnce } else { OperatorDecision::Deny(None) };
    let by = Caller { pid: None, ..call::caller("the terminal") };
    if let Err(error) = layer.decide(&listed.request.id, answer, &by, pin).await {
        print_warning(error);
        let _ = layer.decide(&listed.request.id, OperatorDecision::Deny(None), &by, None).await;
    }
}
