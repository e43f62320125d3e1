//! `sinew approvals watch`: questions as they come, one key to answer each. The view itself is in `view`; here are the
//! terminal, the keys and the daemon.

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

/// How often the daemon is asked what waits, and how long a key is waited for.
const EVERY: Duration = Duration::from_millis(400);
const GLANCE: Duration = Duration::from_millis(100);

pub(super) fn run() -> Result<Exit, Problem> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Problem::usage("watching needs a terminal").hint("sinew approvals list --json"));
    }
    let setting = Setting::find()?;
    let runtime = setting.runtime()?;
    let mut desk = Desk { runtime, client: None, setting, pin: None, known: HashMap::new() };
    let mut view = View::default();
    // The daemon must answer once before the screen is taken.
    view.take(desk.questions()?, Instant::now());
    let mut screen = Screen::open()?;
    let mut asked = Instant::now();
    loop {
        screen.draw(&mut view)?;
        if event::poll(GLANCE).map_err(|error| broken(&error))? {
            let act = match event::read().map_err(|error| broken(&error))? {
                // One that is held down is one press, where the terminal tells the difference.
                Event::Key(key) if key.kind == KeyEventKind::Press => view.press(key, Instant::now()),
                Event::Paste(text) => {
                    view.paste(&text);
                    None
                }
                _ => None,
            };
            match act {
                Some(Act::Quit) => return Ok(Exit::Done),
                Some(Act::Edit(id)) => edit(&mut desk, &mut view, &mut screen, &id)?,
                Some(Act::Decide(id, params)) => desk.decide(&mut view, &id, params),
                Some(Act::Pin(pin, id, params)) => {
                    desk.pin = Some(pin);
                    desk.decide(&mut view, &id, params);
                }
                None => {}
            }
            asked = Instant::now().checked_sub(EVERY).unwrap_or(asked);
        }
        if asked.elapsed() >= EVERY {
            asked = Instant::now();
            match desk.questions() {
                Ok(questions) => view.take(questions, Instant::now()),
                Err(problem) => view.say(&problem.message),
            }
        }
    }
}

fn broken(error: &std::io::Error) -> Problem {
    Problem::new(Exit::Failed, format!("the terminal cannot be used: {error}"))
}

/// The conversation with the daemon.
struct Desk {
    setting: Setting,
    runtime: Runtime,
    client: Option<Client>,
    pin: Option<String>,
    /// The questions that were fetched. What is shown of one never changes.
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
        // After anything but an answer the connection is of no more use.
        if matches!(reply, Ok(_) | Err(ClientError::Answered { .. })) {
            self.client = Some(client);
        }
        reply
    }

    /// The questions that wait, each whole: what is answered is what was on the screen.
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
                    // It may have been answered meanwhile.
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

/// The same question with what has changed around it.
fn in_time(known: Listed, now: &Value) -> Listed {
    let seconds_left = now.get("seconds_left").and_then(Value::as_u64).unwrap_or_default();
    let waiting = now.get("waiting").and_then(Value::as_bool).unwrap_or_default();
    Listed { seconds_left, waiting, ..known }
}

/// Hands the arguments to the editor of the person, and what comes back to the daemon.
fn edit(desk: &mut Desk, view: &mut View, screen: &mut Screen, id: &str) -> Result<(), Problem> {
    let Some(arguments) = view.editable(id) else {
        view.say(
            "its arguments hold what is masked, so they cannot be changed here: deny it and say what to do",
        );
        return Ok(());
    };
    let text = legible(&serde_json::to_string_pretty(&arguments).unwrap_or_default());
    let edited = screen.aside(|| in_editor(&text))?;
    match edited.map(|text| super::arguments_in(&text)) {
        Err(problem) => view.say(&problem.message),
        Ok(Err(why)) => view.say(&format!("not changed: that is no JSON object: {why}")),
        Ok(Ok(same)) if same == arguments => view.say("nothing was changed"),
        Ok(Ok(arguments)) => {
            let mut params = Map::new();
            params.insert("answer".to_owned(), json!("edit"));
            params.insert("arguments".to_owned(), Value::Object(arguments));
            desk.decide(view, id, params);
        }
    }
    Ok(())
}

/// The same JSON with what cannot be seen written out: an editor is a screen too.
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
    let failed =
        |error: std::io::Error| Problem::new(Exit::Failed, format!("the editor could not be used: {error}"));
    let file = tempfile::Builder::new().prefix("sinew-edit-").suffix(".json").tempfile().map_err(failed)?;
    std::fs::write(file.path(), text).map_err(failed)?;
    let named = ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok());
    let named = named.filter(|named| !named.trim().is_empty()).unwrap_or_else(|| "vi".to_owned());
    // A program and its options, as every other program that starts an editor reads it: `code -w`.
    let mut words = named.split_whitespace();
    let mut editor = std::process::Command::new(words.next().unwrap_or("vi"));
    let ended = editor.args(words).arg(file.path()).status().map_err(failed)?;
    match ended.success() {
        true => std::fs::read_to_string(file.path()).map_err(failed),
        false => Err(Problem::new(Exit::Failed, "nothing was changed: the editor did not end well")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_edited_is_visible_and_the_same() {
        let value = json!({"path": "a\u{202e}b\u{a0}\u{e0041}\u{7f}é", "list": [1, "\n"]});
        let text = legible(&serde_json::to_string_pretty(&value).unwrap());
        assert!(text.chars().all(|c| c == '\n' || !is_unseen(c)), "{text:?}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
