//! This program as a worker behind walls: which task has which work. It knows no settings, no policy and no socket; it
//! reads orders and writes answers.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use crate::functions;

/// Does the work of a task until there are no more orders.
pub(crate) fn serve(task: &str) -> ExitCode {
    let done = match task {
        "echo" => echo(),
        functions::TASK => knowledge::serve(io::stdin().lock(), io::stdout().lock()),
        toolbox::PAGE_WORKER => page::serve(io::stdin().lock(), io::stdout().lock()),
        _ => return ExitCode::FAILURE,
    };
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Gives back what it gets: whether a worker can be started at all, and what it costs.
fn echo() -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut part = [0; 4096];
    loop {
        match input.read(&mut part)? {
            0 => return Ok(()),
            read => output.write_all(part.get(..read).unwrap_or_default())?,
        }
        output.flush()?;
    }
}
