//! `sinew pin`, and how a PIN is asked for: on the terminal, unseen, or from the first line of standard input.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::os::fd::AsFd;

use execution::Pin;
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use serde_json::{Value, json};
use server::ClientError;

use crate::cli::{PinArgs, PinCommand};
use crate::exit::{Exit, Problem};
use crate::setting::{Reach, Setting};
use crate::terminal::{NOTE, paint, tell};

const STANDARD_INPUT: &str = "standard input";

/// Where a PIN comes from, once it is needed.
pub(crate) enum Source {
    /// The terminal.
    Terminal,
    /// Standard input.
    Input,
    /// It was given.
    Known(String),
    /// It is not needed.
    Nobody,
}

impl Source {
    pub(crate) fn of(args: PinArgs) -> Source {
        if args.pin_stdin { Source::Input } else { Source::Terminal }
    }

    /// The PIN, if it was given already.
    pub(crate) fn known(&self) -> Option<&str> {
        match self {
            Source::Known(pin) => Some(pin),
            Source::Terminal | Source::Input | Source::Nobody => None,
        }
    }

    /// Asks for it. One that was given is not asked for again.
    pub(crate) fn ask(&mut self) -> Result<(), Problem> {
        let pin = match self {
            Source::Terminal => read("operator PIN")?,
            Source::Input => first_line()?,
            Source::Known(_) | Source::Nobody => {
                return Err(Problem::new(Exit::Refused, "the operator PIN is needed"));
            }
        };
        *self = Source::Known(pin);
        Ok(())
    }
}

impl Source {
    /// One question at the human's door, and the PIN with it where it is needed.
    pub(crate) fn ask_control(
        mut self,
        setting: &Setting,
        method: &str,
        mut params: Value,
    ) -> Result<Value, Problem> {
        loop {
            match setting.try_control(method, &params)? {
                Ok(reply) => return Ok(reply),
                Err(ClientError::Answered { data, .. }) if data.get("code") == Some(&json!("pin_needed")) => {
                    self.ask()?;
                    if let Some(params) = params.as_object_mut() {
                        params.extend(self.known().map(|pin| ("pin".to_owned(), json!(pin))));
                    }
                }
                Err(error) => return Err(setting.unanswered(&error)),
            }
        }
    }
}

pub(crate) fn run(command: &PinCommand) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    match command {
        PinCommand::Set(args) => set(&setting, *args),
        PinCommand::Clear(args) => clear(&setting, *args),
    }
}

/// Sets a PIN; one that is there is asked for first.
pub(crate) fn set(setting: &Setting, args: PinArgs) -> Result<Exit, Problem> {
    let mut input = Input::of(args);
    let given = if is_set(setting) { Some(input.next("the PIN so far")?) } else { None };
    let new = input.next("new operator PIN")?;
    if !args.pin_stdin && input.next("the same again")? != new {
        return Err(Problem::usage("the two are not the same"));
    }
    change(setting, given, Some(new))?;
    tell("the operator PIN is set: nothing is approved, loosened or accepted without it");
    Ok(Exit::Done)
}

fn clear(setting: &Setting, args: PinArgs) -> Result<Exit, Problem> {
    let given = if is_set(setting) { Some(Input::of(args).next("operator PIN")?) } else { None };
    change(setting, given, None)?;
    tell(paint(NOTE, "there is no operator PIN: any process that runs as you can approve"));
    Ok(Exit::Done)
}

pub(crate) fn is_set(setting: &Setting) -> bool {
    Pin::at(setting.home().state()).is_set()
}

fn change(setting: &Setting, given: Option<String>, new: Option<String>) -> Result<(), Problem> {
    match setting.reach_or_state()? {
        Reach::Daemon => setting.ask_control("control/pin.set", json_of(given, new)).map(drop),
        Reach::Nobody(_state) => {
            let pin = Pin::at(setting.home().state());
            let changed = setting.runtime()?.block_on(pin.set(given, new));
            changed.map_err(|error| Problem::new(Exit::Refused, error.to_string()))
        }
    }
}

fn json_of(given: Option<String>, new: Option<String>) -> serde_json::Value {
    let fields = [("pin", given), ("new", new)];
    let fields = fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), json!(value?))));
    serde_json::Value::Object(fields.collect())
}

/// Several PINs, one after the other.
enum Input {
    Terminal,
    Lines(Box<dyn BufRead>),
}

impl Input {
    fn of(args: PinArgs) -> Input {
        if args.pin_stdin { Input::Lines(Box::new(BufReader::new(io::stdin()))) } else { Input::Terminal }
    }

    fn next(&mut self, what: &str) -> Result<String, Problem> {
        match self {
            Input::Terminal => read(what),
            Input::Lines(lines) => line_of(lines, STANDARD_INPUT),
        }
    }
}

fn first_line() -> Result<String, Problem> {
    line_of(&mut io::stdin().lock(), STANDARD_INPUT)
}

fn line_of(lines: &mut dyn BufRead, place: &str) -> Result<String, Problem> {
    let mut line = String::new();
    let read = lines.read_line(&mut line);
    let line = line.trim_end_matches(['\n', '\r']).to_owned();
    match read {
        Ok(_) if !line.is_empty() => Ok(line),
        Ok(_) => Err(Problem::usage(format!("no PIN was given on {place}"))),
        Err(error) => Err(Problem::usage(format!("{place} cannot be read: {error}"))),
    }
}

/// Reads from the terminal itself, whatever standard input is, and shows nothing of it.
pub(crate) fn read(what: &str) -> Result<String, Problem> {
    let nobody = |_| {
        Problem::usage("the operator PIN is needed, and there is no terminal to type it on")
            .hint("--pin-stdin")
    };
    let mut terminal = terminal().map_err(nobody)?;
    let before = tcgetattr(&terminal).map_err(|error| nobody(error.into()))?;
    let mut silent = before.clone();
    silent.local_flags.remove(LocalFlags::ECHO);
    // Before the question: what is typed as soon as it is there must be neither seen nor dropped.
    tcsetattr(&terminal, SetArg::TCSAFLUSH, &silent).map_err(|error| nobody(error.into()))?;
    let _ = write!(terminal, "{what}: ");
    let line = line_of(&mut BufReader::new(&terminal), "the terminal");
    let _ = tcsetattr(&terminal, SetArg::TCSAFLUSH, &before);
    let _ = writeln!(terminal);
    line
}

/// The terminal this process belongs to; where it belongs to none, the one it reads from.
fn terminal() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/tty").or_else(|error| match io::stdin().is_terminal() {
        true => Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?)),
        false => Err(error),
    })
}
