//! `sinew approvals watch`: shows approval requests as they arrive and takes one key for each decision. This
//! file connects the terminal, the keyboard and the daemon; `view` holds the state and decides what a key
//! means.

mod screen;
mod view;

use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use approvals::ListedApproval;
use client::{Client, ClientError};
use crossterm::event::{self, Event, KeyEventKind};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;
use tool::text::is_invisible;

use super::decisions::error_code;
use super::parse_listed;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use screen::WatchScreen;
use view::{ViewAction, WatchView};

/// Interval between queries for pending approvals.
const REFRESH_INTERVAL: Duration = Duration::from_millis(400);
/// Time to wait for a key in one iteration of the loop.
const KEY_POLL_TIMEOUT: Duration = Duration::from_millis(100);

pub(super) fn run() -> Result<ExitKind, CommandError> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(CommandError::usage("`sinew approvals watch` needs a terminal")
            .with_hint("sinew approvals list --json"));
    }
    let context = CommandContext::from_environment()?;
    let runtime = context.runtime()?;
    let mut connection =
        DaemonConnection { runtime, client: None, context, pin: None, known: HashMap::new() };
    let mut view = WatchView::default();
    // Query the daemon before switching to the alternate screen, so that an error is printed normally.
    view.update_approvals(connection.fetch_pending()?, Instant::now());
    let mut screen = WatchScreen::open()?;
    let mut asked = Instant::now();
    loop {
        screen.draw(&mut view)?;
        if event::poll(KEY_POLL_TIMEOUT).map_err(|error| terminal_error(&error))? {
            let act = match event::read().map_err(|error| terminal_error(&error))? {
                // Ignore auto-repeat of a held key, where the terminal reports it as `Repeat`.
                Event::Key(key) if key.kind == KeyEventKind::Press => view.handle_key(key, Instant::now()),
                Event::Paste(text) => {
                    view.paste(&text);
                    None
                }
                _ => None,
            };
            match act {
                Some(ViewAction::Quit) => return Ok(ExitKind::Done),
                Some(ViewAction::Edit(id)) => edit_arguments(&mut connection, &mut view, &mut screen, &id)?,
                Some(ViewAction::Decide(id, params)) => connection.decide(&mut view, &id, params),
                Some(ViewAction::DecideWithPin(pin, id, params)) => {
                    connection.pin = Some(pin);
                    connection.decide(&mut view, &id, params);
                }
                None => {}
            }
            asked = Instant::now().checked_sub(REFRESH_INTERVAL).unwrap_or(asked);
        }
        if asked.elapsed() >= REFRESH_INTERVAL {
            asked = Instant::now();
            match connection.fetch_pending() {
                Ok(questions) => view.update_approvals(questions, Instant::now()),
                Err(problem) => view.set_status(&problem.message),
            }
        }
    }
}

fn terminal_error(error: &std::io::Error) -> CommandError {
    CommandError::failed(format!("the terminal cannot be used: {error}"))
}

/// Connection to the daemon, with the PIN and the requests fetched so far.
struct DaemonConnection {
    context: CommandContext,
    runtime: Runtime,
    client: Option<Client>,
    pin: Option<String>,
    /// Requests already fetched, by id. The content of a request never changes.
    known: HashMap<String, ListedApproval>,
}

impl DaemonConnection {
    fn request(&mut self, method: &str, params: Value) -> Result<Value, ClientError> {
        let asked = self.runtime.block_on(async {
            let mut client = match self.client.take() {
                Some(client) => client,
                None => Client::connect(&self.context.home().control_socket(), Duration::ZERO).await?,
            };
            let reply = client.request(method, params).await;
            Ok((client, reply))
        });
        let (client, reply) = asked?;
        // After a transport error the connection cannot be reused.
        if matches!(reply, Ok(_) | Err(ClientError::Rpc { .. })) {
            self.client = Some(client);
        }
        reply
    }

    /// Fetches the pending requests with their full content, so that the operator decides on exactly what the
    /// screen shows.
    fn fetch_pending(&mut self) -> Result<Vec<ListedApproval>, CommandError> {
        let reply = self
            .request("control/approvals.list", json!({}))
            .map_err(|error| self.context.client_error(&error))?;
        let list = reply.get("approvals").and_then(Value::as_array).cloned().unwrap_or_default();
        let pending = list.iter().filter(|one| one.get("state") == Some(&json!("pending")));
        let mut known = HashMap::new();
        let mut questions = Vec::new();
        for one in pending {
            let Some(id) = one.get("id").and_then(Value::as_str) else { continue };
            let question = match self.known.remove(id) {
                Some(known) => with_current_state(known, one),
                None => match self.request("control/approvals.show", json!({"id": id})) {
                    Ok(reply) => parse_listed(reply)?,
                    // The request may have been decided since the list was fetched.
                    Err(_) => continue,
                },
            };
            known.insert(id.to_owned(), question.clone());
            questions.push(question);
        }
        self.known = known;
        Ok(questions)
    }

    fn decide(&mut self, view: &mut WatchView, id: &str, mut params: Map<String, Value>) {
        let asked = params.clone();
        let answer = asked.get("answer").and_then(Value::as_str).unwrap_or_default().to_owned();
        params.insert("id".to_owned(), json!(id));
        params.extend(self.pin.as_ref().map(|pin| ("pin".to_owned(), json!(pin))));
        match self.request("control/approvals.decide", Value::Object(params)) {
            Ok(reply) => view.show_decision(id, &answer, &reply, Instant::now()),
            Err(error) => match (error_code(&error), &error) {
                (Some("pin_needed"), _) => view.ask_pin(id, asked),
                (Some("pin_wrong"), _) => {
                    self.pin = None;
                    view.set_status("the PIN is wrong");
                }
                (Some("rule_not_displayed"), ClientError::Rpc { data, .. }) => {
                    view.show_rule(id, asked, data.get("rule").cloned().unwrap_or_default());
                }
                _ => view.set_status(&error.to_string()),
            },
        }
    }
}

/// Updates the remaining time and the waiting flag of a known request.
fn with_current_state(known: ListedApproval, now: &Value) -> ListedApproval {
    let seconds_left = now.get("seconds_left").and_then(Value::as_u64).unwrap_or_default();
    let waiting = now.get("waiting").and_then(Value::as_bool).unwrap_or_default();
    ListedApproval { seconds_left, waiting, ..known }
}

/// Opens the arguments in the operator's editor and sends the edited ones to the daemon.
fn edit_arguments(
    connection: &mut DaemonConnection,
    view: &mut WatchView,
    screen: &mut WatchScreen,
    id: &str,
) -> Result<(), CommandError> {
    let arguments = match view.editable_arguments(id) {
        Ok(arguments) => arguments,
        Err(why) => {
            view.set_status(why);
            return Ok(());
        }
    };
    let text = escape_invisible(&serde_json::to_string_pretty(&arguments).unwrap_or_default());
    let edited = screen.suspend(|| run_editor(&text))?;
    match edited.map(|text| super::parse_arguments(&text)) {
        Err(problem) => view.set_status(&problem.message),
        Ok(Err(why)) => view.set_status(&format!("not changed: the text is not a JSON object: {why}")),
        Ok(Ok(same)) if same == arguments => view.set_status("nothing was changed"),
        Ok(Ok(arguments)) => {
            let mut params = Map::new();
            params.insert("answer".to_owned(), json!("edit"));
            params.insert("arguments".to_owned(), Value::Object(arguments));
            connection.decide(view, id, params);
        }
    }
    Ok(())
}

/// Escapes invisible characters of a JSON text, so that the editor shows them.
fn escape_invisible(json: &str) -> String {
    let mut out = String::new();
    for c in json.chars() {
        match c {
            '\n' => out.push(c),
            c if is_invisible(c) => {
                let mut units = [0; 2];
                c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
            }
            c => out.push(c),
        }
    }
    out
}

fn run_editor(text: &str) -> Result<String, CommandError> {
    let failed =
        |error: std::io::Error| CommandError::failed(format!("the editor could not be used: {error}"));
    let file = tempfile::Builder::new().prefix("sinew-edit-").suffix(".json").tempfile().map_err(failed)?;
    std::fs::write(file.path(), text).map_err(failed)?;
    let named = ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok());
    let named = named.filter(|named| !named.trim().is_empty()).unwrap_or_else(|| "vi".to_owned());
    // The variable may contain options, such as `code -w`. Like other programs, split it at white space.
    let mut words = named.split_whitespace();
    let mut editor = std::process::Command::new(words.next().unwrap_or("vi"));
    let ended = editor.args(words).arg(file.path()).status().map_err(failed)?;
    match ended.success() {
        true => std::fs::read_to_string(file.path()).map_err(failed),
        false => Err(CommandError::failed("nothing was changed: the editor exited with an error")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_json_is_visible_and_equivalent() {
        let value = json!({"path": "a\u{202e}b\u{a0}\u{e0041}\u{7f}é", "list": [1, "\n"]});
        let text = escape_invisible(&serde_json::to_string_pretty(&value).unwrap());
        assert!(text.chars().all(|c| c == '\n' || !is_invisible(c)), "{text:?}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
