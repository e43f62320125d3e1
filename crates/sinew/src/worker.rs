//! Runs this program as a sandboxed worker. A worker knows no settings, policy or socket: it reads requests
//! from standard input and writes responses to standard output.

use std::io;
use std::process::ExitCode;

use crate::functions;

/// Serves the requests of a task until standard input closes.
pub(crate) fn serve(task: &str) -> ExitCode {
    let done = match task {
        functions::TASK => knowledge::serve(io::stdin().lock(), io::stdout().lock()),
        toolbox::PAGE_WORKER => web_content::serve(io::stdin().lock(), io::stdout().lock()),
        _ => return ExitCode::FAILURE,
    };
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
