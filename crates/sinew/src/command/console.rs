//! `sinew console`: serves the operator console to the browser on this machine.

use crate::cli::ConsoleArgs;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::web_console::{self, ConsoleOptions};

pub(crate) fn run(args: ConsoleArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    web_console::run(&context, ConsoleOptions { opens_browser: !args.no_open, request: args.open })
}
