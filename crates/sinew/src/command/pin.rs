//! `sinew pin`, and reading of a PIN: from the terminal without echo, or from the first line of standard
//! input.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::os::fd::AsFd;

use approvals::Pin;
use client::ClientError;
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use serde_json::{Value, json};

use crate::cli::{PinArgs, PinCommand};
use crate::command_context::{CommandBackend, CommandContext};
use crate::exit::{CommandError, ExitKind};
use crate::terminal::{print_message, print_warning};

const STANDARD_INPUT: &str = "standard input";

/// Source of the PIN. It is read only if the daemon requires it.
pub(crate) enum PinSource {
    /// Typed on the terminal.
    Terminal,
    /// Read from standard input.
    Stdin,
    /// Already read.
    Known(String),
    /// None: the request needs no PIN.
    NotNeeded,
}

impl PinSource {
    pub(crate) fn from_args(args: PinArgs) -> PinSource {
        if args.pin_stdin { PinSource::Stdin } else { PinSource::Terminal }
    }

    /// Returns the PIN if it was already read.
    pub(crate) fn known(&self) -> Option<&str> {
        match self {
            PinSource::Known(pin) => Some(pin),
            PinSource::Terminal | PinSource::Stdin | PinSource::NotNeeded => None,
        }
    }

    /// Reads the PIN. Fails if it was already read, or if this source supplies none.
    pub(crate) fn read_pin(&mut self) -> Result<(), CommandError> {
        let pin = match self {
            PinSource::Terminal => read_hidden("operator PIN")?,
            PinSource::Stdin => read_stdin_line()?,
            PinSource::Known(_) | PinSource::NotNeeded => {
                return Err(CommandError::new(ExitKind::Refused, "the operator PIN is needed"));
            }
        };
        *self = PinSource::Known(pin);
        Ok(())
    }
}

impl PinSource {
    /// Sends a request to the control socket, with the PIN if it was already read, and repeats it with the PIN if the
    /// daemon requires one.
    pub(crate) fn request_control(
        &mut self,
        context: &CommandContext,
        method: &str,
        mut params: Value,
    ) -> Result<Value, CommandError> {
        loop {
            if let Some(params) = params.as_object_mut() {
                params.extend(self.known().map(|pin| ("pin".to_owned(), json!(pin))));
            }
            match context.try_request_control(method, &params)? {
                Ok(reply) => return Ok(reply),
                Err(ClientError::Rpc { data, .. }) if data.get("code") == Some(&json!("pin_needed")) => {
                    self.read_pin()?;
                }
                Err(error) => return Err(context.client_error(&error)),
            }
        }
    }
}

pub(crate) fn run(command: &PinCommand) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    match command {
        PinCommand::Set(args) => set(&context, *args),
        PinCommand::Clear(args) => clear(&context, *args),
    }
}

/// Sets the PIN. An existing PIN has to be entered first.
pub(crate) fn set(context: &CommandContext, args: PinArgs) -> Result<ExitKind, CommandError> {
    let mut input = PinReader::from_args(args);
    let given = if is_set(context) { Some(input.read_next("current operator PIN")?) } else { None };
    let new = input.read_next("new operator PIN")?;
    if !args.pin_stdin && input.read_next("new operator PIN again")? != new {
        return Err(CommandError::usage("the two PINs differ"));
    }
    change(context, given, Some(new))?;
    print_message(
        "the operator PIN is set: approving, undoing, loosening the mode and accepting a reload require it",
    );
    Ok(ExitKind::Done)
}

fn clear(context: &CommandContext, args: PinArgs) -> Result<ExitKind, CommandError> {
    let given =
        if is_set(context) { Some(PinReader::from_args(args).read_next("operator PIN")?) } else { None };
    change(context, given, None)?;
    print_warning("no operator PIN is set: any process that runs as you can approve calls");
    Ok(ExitKind::Done)
}

pub(crate) fn is_set(context: &CommandContext) -> bool {
    Pin::at(context.home().state_dir()).is_set()
}

fn change(context: &CommandContext, given: Option<String>, new: Option<String>) -> Result<(), CommandError> {
    match context.daemon_or_state_lock()? {
        CommandBackend::Daemon => {
            context.request_control("control/pin.set", pin_params(given, new)).map(drop)
        }
        CommandBackend::Local(_state) => {
            let pin = Pin::at(context.home().state_dir());
            let changed = context.runtime()?.block_on(pin.set(given, new));
            changed.map_err(|error| CommandError::new(ExitKind::Refused, error.to_string()))
        }
    }
}

fn pin_params(given: Option<String>, new: Option<String>) -> serde_json::Value {
    let fields = [("pin", given), ("new", new)];
    let fields = fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), json!(value?))));
    serde_json::Value::Object(fields.collect())
}

/// Input for several PINs in a row.
enum PinReader {
    Terminal,
    Lines(Box<dyn BufRead>),
}

impl PinReader {
    fn from_args(args: PinArgs) -> PinReader {
        if args.pin_stdin {
            PinReader::Lines(Box::new(BufReader::new(io::stdin())))
        } else {
            PinReader::Terminal
        }
    }

    fn read_next(&mut self, prompt: &str) -> Result<String, CommandError> {
        match self {
            PinReader::Terminal => read_hidden(prompt),
            PinReader::Lines(lines) => read_pin_line(lines, STANDARD_INPUT),
        }
    }
}

fn read_stdin_line() -> Result<String, CommandError> {
    read_pin_line(&mut io::stdin().lock(), STANDARD_INPUT)
}

fn read_pin_line(lines: &mut dyn BufRead, place: &str) -> Result<String, CommandError> {
    let mut line = String::new();
    let read = lines.read_line(&mut line);
    let line = line.trim_end_matches(['\n', '\r']).to_owned();
    match read {
        Ok(_) if !line.is_empty() => Ok(line),
        Ok(_) => Err(CommandError::usage(format!("no PIN was given on {place}"))),
        Err(error) => Err(CommandError::usage(format!("{place} cannot be read: {error}"))),
    }
}

/// Reads a PIN from the controlling terminal without echo, even if standard input is redirected.
pub(crate) fn read_hidden(prompt: &str) -> Result<String, CommandError> {
    let no_approver = |_| {
        CommandError::usage("the operator PIN is needed, but there is no terminal to type it on")
            .with_hint("pass it on standard input with `--pin-stdin`")
    };
    let mut terminal = open_terminal().map_err(no_approver)?;
    let before = tcgetattr(&terminal).map_err(|error| no_approver(error.into()))?;
    let mut silent = before.clone();
    silent.local_flags.remove(LocalFlags::ECHO);
    // Turn echo off before printing the prompt: input typed right after the prompt must be neither echoed nor
    // flushed.
    tcsetattr(&terminal, SetArg::TCSAFLUSH, &silent).map_err(|error| no_approver(error.into()))?;
    let _ = write!(terminal, "{prompt}: ");
    let line = read_pin_line(&mut BufReader::new(&terminal), "the terminal");
    let _ = tcsetattr(&terminal, SetArg::TCSAFLUSH, &before);
    let _ = writeln!(terminal);
    line
}

/// Opens the controlling terminal, else the terminal on standard input.
fn open_terminal() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/tty").or_else(|error| match io::stdin().is_terminal() {
        true => Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?)),
        false => Err(error),
    })
}
