//! This program as a worker behind walls: which task has which work. It knows no settings, no policy and no socket; it
//! reads orders and writes answers.

use std::io;
use std::process::ExitCode;

use crate::functions;

/// Does the work of a task until there are no more orders.
pub(crate) fn serve(task: &str) -> ExitCode {
    let done = match task {
        functions::TASK => knowledge::serve(io::stdin().lock(), io::stdout().lock()),
        toolbox::PAGE_WORKER => page::serve(io::stdin().lock(), io::stdout().lock()),
        _ => return ExitCode::FAILURE,
    };
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
