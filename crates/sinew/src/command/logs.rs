//! `sinew logs`: prints the daemon's log, read from its files.

use std::io::IsTerminal;
use std::time::Duration;

use telemetry::TelemetryError;
use telemetry::logs::{Colour, Line, Query, Reader};

use crate::cli::LogsArgs;
use crate::exit::{Exit, Problem};
use crate::setting::Setting;
use crate::terminal::{linger, say};

/// Polling interval of `--follow`.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

pub(crate) fn run(args: &LogsArgs) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    let query = Query { since: args.since, level: args.level };
    let mut reader = Reader::open(setting.home().log(), query).map_err(|error| unreadable(&error))?;
    let paint = if std::io::stdout().is_terminal() { Colour::Ansi } else { Colour::Never };
    let show = |line: &Line| say(if args.json { line.json().to_owned() } else { line.human(paint) });
    loop {
        for line in reader.by_ref() {
            show(&line.map_err(|error| unreadable(&error))?)?;
        }
        if !args.follow {
            return Ok(Exit::Done);
        }
        linger(BETWEEN_LOOKS)?;
    }
}

fn unreadable(error: &TelemetryError) -> Problem {
    Problem::failed(error)
}
