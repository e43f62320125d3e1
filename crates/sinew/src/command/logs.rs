//! `sinew logs`: prints the daemon's log, read from its files.

use std::cell::Cell;
use std::collections::VecDeque;
use std::time::Duration;

use telemetry::TelemetryError;
use telemetry::log_reader::{ColourMode, LogLine, LogLineFilter, LogReader};

use crate::cli::LogsArgs;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::terminal::{print_message, print_result_line, print_whole_line, wait_for_more};

/// Polling interval of `--follow`.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) fn run(args: &LogsArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let query = LogLineFilter { since: args.since, level: args.level };
    let mut reader = LogReader::open(context.home().log_dir(), query).map_err(|error| read_error(&error))?;
    let shown = Cell::new(false);
    let show = |line: &LogLine| {
        shown.set(true);
        if args.json {
            print_whole_line(line.as_json())
        } else {
            // The selector only asks for a coloured sign, and is shown as an escape.
            print_result_line(line.format(ColourMode::Ansi).replace(r"⚠\u{fe0f}", "⚠"))
        }
    };
    if let Some(count) = args.lines {
        let mut newest = VecDeque::new();
        for line in reader.by_ref() {
            newest.push_back(line.map_err(|error| read_error(&error))?);
            if newest.len() > count {
                newest.pop_front();
            }
        }
        newest.iter().try_for_each(show)?;
    }
    loop {
        for line in reader.by_ref() {
            show(&line.map_err(|error| read_error(&error))?)?;
        }
        if !args.follow {
            if !shown.get() {
                let folder = context.home().log_dir().display();
                print_message(format!("no line matches; the log is in {folder}"));
            }
            return Ok(ExitKind::Done);
        }
        wait_for_more(POLL_INTERVAL)?;
    }
}

fn read_error(error: &TelemetryError) -> CommandError {
    CommandError::failed(error)
}
