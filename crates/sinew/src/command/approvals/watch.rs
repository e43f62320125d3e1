//! `sinew approvals watch`: shows approval requests as they arrive and takes one key for each decision. This
//! file connects the terminal, the keyboard and the daemon; `view` holds the state and decides what a key
//! means.

mod screen;
mod view;

use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyEventKind};
use execution::Listed;
use serde_json::{Map, Value, json};
use server::{Client, ClientError, Socket};
use tokio::runtime::Runtime;
use tool::is_unseen;

use super::answer::word;
use super::listed;
use crate::exit::{Exit, Problem};
use crate::setting::Setting;
use screen::Screen;
use view::{Act, View};

/// Interval between queries for pending approvals.
const EVERY: Duration = Duration::from_millis(400);
/// Time to wait for a key in one iteration of the loop.
const GLANCE: Duration = Duration::from_millis(100);

pub(super) fn run() -> Result<Exit, Problem> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(
            Problem::usage("`sinew approvals watch` needs a terminal").hint("sinew approvals list --json")
        );
    }
    let setting = Setting::find()?;
    let runtime = setting.runtime()?;
    let mut connection = Desk { runtime, client: None, setting, pin: None, known: HashMap::new() };
    let mut view = View::default();
    // Query the daemon before switching to the alternate screen, so that an error is printed normally.
    view.take(connection.questions()?, Instant::now());
    let mut screen = Screen::open()?;
    let mut asked = Instant::now();
    loop {
        screen.draw(&mut view)?;
        if event::poll(GLANCE).map_err(|error| broken(&error))? {
            let act = match event::read().map_err(|error| broken(&error))? {
                // Ignore auto-repeat of a held key, where the terminal reports it as `Repeat`.
                Event::Key(key) if key.kind == KeyEventKind::Press => view.press(key, Instant::now()),
                Event::Paste(text) => {
                    view.paste(&text);
                    None
                }
                _ => None,
            };
            match act {
                Some(Act::Quit) => return Ok(Exit::Done),
                Some(Act::Edit(id)) => edit(&mut connection, &mut view, &mut screen, &id)?,
                Some(Act::Decide(id, params)) => connection.decide(&mut view, &id, params),
                Some(Act::Pin(pin, id, params)) => {
                    connection.pin = Some(pin);
                    connection.decide(&mut view, &id, params);
                }
                None => {}
            }
            asked = Instant::now().checked_sub(EVERY).unwrap_or(asked);
        }
        if asked.elapsed() >= EVERY {
            asked = Instant::now();
            match connection.questions() {
                Ok(questions) => view.take(questions, Instant::now()),
                Err(problem) => view.say(&problem.message),
            }
        }
    }
}

fn broken(error: &std::io::Error) -> Problem {
    Problem::failed(format!("the terminal cannot be used: {error}"))
}

/// Connection to the daemon, with the PIN and the requests fetched so far.
struct Desk {
    setting: Setting,
    runtime: Runtime,
    client: Option<Client>,
    pin: Option<String>,
    /// Requests already fetched, by id. The content of a request never changes.
    known: HashMap<String, Listed>,
}

impl Desk {
    fn ask(&mut self, method: &str, params: Value) -> Result<Value, ClientError> {
        let asked = self.runtime.block_on(async {
            let mut client = match self.client.take() {
                Some(client) => client,
                None => Client::connect(self.setting.home(), Socket::Control, Duration::ZERO).await?,
            };
            let reply = client.request(method, params).await;
            Ok((client, reply))
        });
        let (client, reply) = asked?;
        // After a transport error the connection cannot be reused.
        if matches!(reply, Ok(_) | Err(ClientError::Answered { .. })) {
            self.client = Some(client);
        }
        reply
    }

    /// Fetches the pending requests with their full content, so that the operator decides on exactly what the
    /// screen shows.
    fn questions(&mut self) -> Result<Vec<Listed>, Problem> {
        let reply =
            self.ask("control/approvals.list", json!({})).map_err(|error| self.setting.unanswered(&error))?;
        let list = reply.get("approvals").and_then(Value::as_array).cloned().unwrap_or_default();
        let pending = list.iter().filter(|one| one.get("state") == Some(&json!("pending")));
        let mut known = HashMap::new();
        let mut questions = Vec::new();
        for one in pending {
            let Some(id) = one.get("id").and_then(Value::as_str) else { continue };
            let question = match self.known.remove(id) {
                Some(known) => in_time(known, one),
                None => match self.ask("control/approvals.show", json!({"id": id})) {
                    Ok(reply) => listed(reply)?,
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

    fn decide(&mut self, view: &mut View, id: &str, mut params: Map<String, Value>) {
        let asked = params.clone();
        params.insert("id".to_owned(), json!(id));
        params.extend(self.pin.as_ref().map(|pin| ("pin".to_owned(), json!(pin))));
        match self.ask("control/approvals.decide", Value::Object(params)) {
            Ok(reply) => view.decided(id, &reply, Instant::now()),
            Err(error) => match (word(&error), &error) {
                (Some("pin_needed"), _) => view.ask_pin(id, asked),
                (Some("pin_wrong"), _) => {
                    self.pin = None;
                    view.say("the PIN is wrong");
                }
                (Some("rule_not_displayed"), ClientError::Answered { data, .. }) => {
                    view.display(id, asked, data.get("rule").cloned().unwrap_or_default());
                }
                _ => view.say(&error.to_string()),
            },
        }
    }
}

/// Updates the remaining time and the waiting flag of a known request.
fn in_time(known: Listed, now: &Value) -> Listed {
    let seconds_left = now.get("seconds_left").and_then(Value::as_u64).unwrap_or_default();
    let waiting = now.get("waiting").and_then(Value::as_bool).unwrap_or_default();
    Listed { seconds_left, waiting, ..known }
}

/// Opens the arguments in the operator's editor and sends the edited ones to the daemon.
fn edit(connection: &mut Desk, view: &mut View, screen: &mut Screen, id: &str) -> Result<(), Problem> {
    let Some(arguments) = view.editable(id) else {
        view.say(
            "the arguments contain masked secrets and cannot be edited here: deny the call with a message",
        );
        return Ok(());
    };
    let text = legible(&serde_json::to_string_pretty(&arguments).unwrap_or_default());
    let edited = screen.aside(|| in_editor(&text))?;
    match edited.map(|text| super::arguments_in(&text)) {
        Err(problem) => view.say(&problem.message),
        Ok(Err(why)) => view.say(&format!("not changed: the text is not a JSON object: {why}")),
        Ok(Ok(same)) if same == arguments => view.say("nothing was changed"),
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
fn legible(json: &str) -> String {
    let mut out = String::new();
    for c in json.chars() {
        match c {
            '\n' => out.push(c),
            c if is_unseen(c) => {
                let mut units = [0; 2];
                c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
            }
            c => out.push(c),
        }
    }
    out
}

fn in_editor(text: &str) -> Result<String, Problem> {
    let failed = |error: std::io::Error| Problem::failed(format!("the editor could not be used: {error}"));
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
        false => Err(Problem::failed("nothing was changed: the editor exited with an error")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_json_is_visible_and_equivalent() {
        let value = json!({"path": "a\u{202e}b\u{a0}\u{e0041}\u{7f}é", "list": [1, "\n"]});
        let text = legible(&serde_json::to_string_pretty(&value).unwrap());
        assert!(text.chars().all(|c| c == '\n' || !is_unseen(c)), "{text:?}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
