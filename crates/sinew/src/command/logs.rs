//! `sinew logs`: prints the daemon's log, read from its files.

use std::io::IsTerminal;
use std::time::Duration;

use telemetry::TelemetryError;
use telemetry::log_reader::{ColourMode, LogLine, LogLineFilter, LogReader};

use crate::cli::LogsArgs;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::terminal::{print_result_line, wait_for_more};

/// Polling interval of `--follow`.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) fn run(args: &LogsArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let query = LogLineFilter { since: args.since, level: args.level };
    let mut reader = LogReader::open(context.home().log_dir(), query).map_err(|error| read_error(&error))?;
    let paint = if std::io::stdout().is_terminal() { ColourMode::Ansi } else { ColourMode::Never };
    let show = |line: &LogLine| {
        print_result_line(if args.json { line.as_json().to_owned() } else { line.format(paint) })
    };
    loop {
        for line in reader.by_ref() {
            show(&line.map_err(|error| read_error(&error))?)?;
        }
        if !args.follow {
            return Ok(ExitKind::Done);
        }
        wait_for_more(POLL_INTERVAL)?;
    }
}

fn read_error(error: &TelemetryError) -> CommandError {
    CommandError::failed(error)
}
