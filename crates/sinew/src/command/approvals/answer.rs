//! Decisions made on the command line: sent to the daemon, or applied in this process if no daemon runs.

use std::sync::Arc;

use execution::{Answer, Listed, ToolExecutionLayer, shown};
use serde_json::{Map, Value, json};
use server::ClientError;
use tool::Caller;

use super::{heading, painted, resolve};
use crate::cli::{ApproveArgs, DenyArgs, JsonArgs, PinArgs, Span};
use crate::command::{call, each, pin};
use crate::exit::{Exit, Problem};
use crate::setting::Setting;
use crate::terminal::{GOOD, NOTE, agrees, is_attended, paint, say, tell};

pub(crate) fn approve(args: &ApproveArgs) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    let mut params = Map::from_iter([("answer".to_owned(), json!("approve"))]);
    params.extend(args.span.map(|span| match span {
        Span::Session => ("for_session".to_owned(), json!(true)),
        Span::Lasting(span) => ("for_seconds".to_owned(), json!(span.as_secs())),
    }));
    if !args.pattern.is_empty() {
        params.insert("patterns".to_owned(), json!(args.pattern));
    }
    let mut sender = Desk { setting, pin: pin::Source::of(args.pin), agreed: args.yes };
    sender.each(&args.ids, args.output, &params, "approved")
}

pub(crate) fn deny(args: &DenyArgs) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    let mut params = Map::from_iter([("answer".to_owned(), json!("deny"))]);
    params.extend(args.reason.as_ref().map(|reason| ("message".to_owned(), json!(reason))));
    let mut sender = Desk { setting, pin: pin::Source::Nobody, agreed: true };
    sender.each(&args.ids, args.output, &params, "denied")
}

pub(super) fn edit(id: &str, arguments: &str, pin: PinArgs, output: JsonArgs) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    let text = match arguments {
        "-" => std::io::read_to_string(std::io::stdin())
            .map_err(|error| Problem::usage(format!("standard input cannot be read: {error}")))?,
        given => given.to_owned(),
    };
    let arguments = super::arguments_in(&text)
        .map_err(|why| Problem::usage(format!("the arguments are not a JSON object: {why}")))?;
    let params = Map::from_iter([
        ("answer".to_owned(), json!("edit")),
        ("arguments".to_owned(), Value::Object(arguments)),
    ]);
    let mut sender = Desk { setting, pin: pin::Source::of(pin), agreed: true };
    sender.each(&[id.to_owned()], output, &params, "changed")
}

pub(super) fn revoke(ids: &[String], output: JsonArgs) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    each(ids, "grants", output.json, |id| {
        let reply = setting.ask_control("control/grants.revoke", json!({"id": id}))?;
        if !output.json {
            say(format!("{} is revoked: the calls it covered need approval again", shown(id)))?;
        }
        Ok(reply)
    })
}

/// Sender of decisions to the daemon. It asks for the PIN or for confirmation of a rule when the daemon
/// requires it.
pub(super) struct Desk {
    pub(super) setting: Setting,
    pub(super) pin: pin::Source,
    /// True if a rule is accepted without asking for confirmation.
    pub(super) agreed: bool,
}

impl Desk {
    fn each(
        &mut self,
        ids: &[String],
        output: JsonArgs,
        params: &Map<String, Value>,
        done: &str,
    ) -> Result<Exit, Problem> {
        each(ids, "approvals", output.json, |id| {
            let whole = self.named(id, params)?;
            let reply = self.decide(&whole, params.clone())?;
            if !output.json {
                say(outcome(&whole, &reply, done))?;
            }
            Ok(reply)
        })
    }

    /// Resolves a typed id. A denial may use a prefix. An approval may not: an agent that makes enough calls
    /// gets an id with the same prefix as the request that the operator reviewed.
    fn named(&self, id: &str, params: &Map<String, Value>) -> Result<String, Problem> {
        let whole = resolve(&self.setting, id)?;
        if whole == id || params.get("answer").is_some_and(|answer| answer == "deny") {
            return Ok(whole);
        }
        let problem = Problem::usage(format!("`{}` is only a prefix of an approval id", shown(id)));
        Err(problem.hint(format!(
            "review it with `sinew approvals show {0}` and use the full id: {0}",
            shown(&whole)
        )))
    }

    fn decide(&mut self, id: &str, mut params: Map<String, Value>) -> Result<Value, Problem> {
        params.insert("id".to_owned(), json!(id));
        loop {
            params.extend(self.pin.known().map(|pin| ("pin".to_owned(), json!(pin))));
            match self.setting.try_control("control/approvals.decide", &Value::Object(params.clone()))? {
                Ok(reply) => return Ok(reply),
                Err(error) => match (word(&error), &error) {
                    (Some("pin_needed"), _) => self.pin.ask()?,
                    (Some("rule_not_displayed"), ClientError::Answered { data, .. }) => {
                        let rule = data.get("rule").cloned().unwrap_or_default();
                        display(&rule);
                        if !self.agreed && !asked("create this rule?")? {
                            return Err(Problem::new(
                                Exit::Refused,
                                "no rule was created, and nothing was approved",
                            ));
                        }
                        params.insert("rule".to_owned(), rule);
                    }
                    _ => return Err(self.setting.unanswered(&error)),
                },
            }
        }
    }
}

fn outcome(id: &str, reply: &Value, done: &str) -> String {
    let text = |key: &str| reply[key].as_str().map(shown);
    match (text("grant"), text("asks_as")) {
        (Some(grant), _) => {
            format!("{id} is {done}; rule {grant} was created (`sinew approvals revoke {grant}` ends it)")
        }
        (None, Some(next)) => format!("{id} is {done}; the edited call needs approval as {next}"),
        (None, None) => format!("{id} is {}", paint(GOOD, done)),
    }
}

fn display(rule: &Value) {
    tell(paint(NOTE, "the rule:"));
    for line in rule.as_array().into_iter().flatten() {
        tell(format!("  {}", shown(line.as_str().unwrap_or_default())));
    }
}

/// Returns the `code` of an error reply.
pub(super) fn word(error: &ClientError) -> Option<&str> {
    match error {
        ClientError::Answered { data, .. } => data["code"].as_str(),
        _ => None,
    }
}

/// Asks for confirmation on the terminal, or fails if there is none.
fn asked(question: &str) -> Result<bool, Problem> {
    match is_attended() {
        true => Ok(agrees(question)),
        false => Err(Problem::usage("the rule needs confirmation, and there is no terminal")
            .hint("add `--yes` once you have read the rule")),
    }
}

/// Returns the ids of all open approval requests except `brought`, the one that the call refers to.
pub(crate) async fn open_besides(layer: &ToolExecutionLayer, brought: Option<&str>) -> Vec<String> {
    let open = layer.approvals().await.into_iter().map(|listed| listed.card.id);
    open.filter(|id| Some(id.as_str()) != brought).collect()
}

/// Asks on the terminal about each new approval request of this process, except those in `seen`. Runs until
/// the future is dropped.
pub(crate) async fn ask_here(
    layer: &Arc<ToolExecutionLayer>,
    mut seen: Vec<String>,
) -> std::convert::Infallible {
    let mut changes = layer.approvals_changes();
    loop {
        for listed in layer.approvals().await {
            if listed.state == "pending" && !seen.contains(&listed.card.id) {
                seen.push(listed.card.id.clone());
                answer_here(layer, &listed).await;
            }
        }
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn answer_here(layer: &Arc<ToolExecutionLayer>, listed: &Listed) {
    for line in heading(listed).iter().chain(&listed.card.lines()) {
        tell(painted(line));
    }
    let needs_pin = layer.pin().is_set();
    let asked = tokio::task::spawn_blocking(move || {
        let yes = is_attended() && agrees("approve this call?");
        let pin = (yes && needs_pin).then(|| pin::read("operator PIN").ok()).flatten();
        (yes, pin)
    });
    let (yes, pin) = asked.await.unwrap_or((false, None));
    let answer = if yes { Answer::Once } else { Answer::Deny(None) };
    let by = Caller { pid: None, ..call::caller("the terminal") };
    if let Err(error) = layer.decide(&listed.card.id, answer, &by, pin).await {
        tell(paint(NOTE, error));
        let _ = layer.decide(&listed.card.id, Answer::Deny(None), &by, None).await;
    }
}
