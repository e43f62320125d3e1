//! `sinew pin`, and reading of a PIN: from the terminal without echo, or from the first line of standard
//! input.

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

/// Source of the PIN. It is read only if the daemon requires it.
pub(crate) enum Source {
    /// Typed on the terminal.
    Terminal,
    /// Read from standard input.
    Input,
    /// Already read.
    Known(String),
    /// None: the request needs no PIN.
    Nobody,
}

impl Source {
    pub(crate) fn of(args: PinArgs) -> Source {
        if args.pin_stdin { Source::Input } else { Source::Terminal }
    }

    /// Returns the PIN if it was already read.
    pub(crate) fn known(&self) -> Option<&str> {
        match self {
            Source::Known(pin) => Some(pin),
            Source::Terminal | Source::Input | Source::Nobody => None,
        }
    }

    /// Reads the PIN. Fails if it was already read, or if this source supplies none.
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
    /// Sends a request to the control socket, and repeats it with the PIN if the daemon requires one.
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

/// Sets the PIN. An existing PIN has to be entered first.
pub(crate) fn set(setting: &Setting, args: PinArgs) -> Result<Exit, Problem> {
    let mut input = Input::of(args);
    let given = if is_set(setting) { Some(input.next("current operator PIN")?) } else { None };
    let new = input.next("new operator PIN")?;
    if !args.pin_stdin && input.next("new operator PIN again")? != new {
        return Err(Problem::usage("the two PINs differ"));
    }
    change(setting, given, Some(new))?;
    tell("the operator PIN is set: approving, undoing, loosening the mode and accepting a reload require it");
    Ok(Exit::Done)
}

fn clear(setting: &Setting, args: PinArgs) -> Result<Exit, Problem> {
    let given = if is_set(setting) { Some(Input::of(args).next("operator PIN")?) } else { None };
    change(setting, given, None)?;
    tell(paint(NOTE, "no operator PIN is set: any process that runs as you can approve calls"));
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

/// Input for several PINs in a row.
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

/// Reads a PIN from the controlling terminal without echo, even if standard input is redirected.
pub(crate) fn read(what: &str) -> Result<String, Problem> {
    let nobody = |_| {
        Problem::usage("the operator PIN is needed, but there is no terminal to type it on")
            .hint("pass it on standard input with `--pin-stdin`")
    };
    let mut terminal = terminal().map_err(nobody)?;
    let before = tcgetattr(&terminal).map_err(|error| nobody(error.into()))?;
    let mut silent = before.clone();
    silent.local_flags.remove(LocalFlags::ECHO);
    // Turn echo off before printing the prompt: input typed right after the prompt must be neither echoed nor
    // flushed.
    tcsetattr(&terminal, SetArg::TCSAFLUSH, &silent).map_err(|error| nobody(error.into()))?;
    let _ = write!(terminal, "{what}: ");
    let line = line_of(&mut BufReader::new(&terminal), "the terminal");
    let _ = tcsetattr(&terminal, SetArg::TCSAFLUSH, &before);
    let _ = writeln!(terminal);
    line
}

/// Opens the controlling terminal, else the terminal on standard input.
fn terminal() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/tty").or_else(|error| match io::stdin().is_terminal() {
        true => Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?)),
        false => Err(error),
    })
}
