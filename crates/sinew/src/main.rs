//! Entry point of the `sinew` binary: the daemon and all commands.

mod accepted;
mod arguments;
mod bridge;
mod cli;
mod command;
mod compose;
mod daemon;
mod exit;
mod functions;
mod host_table;
mod internals;
mod manifests;
mod origin;
mod own_folders;
mod render;
mod service;
mod setting;
mod settings_text;
mod start;
mod terminal;

use std::process::ExitCode;

use clap::Parser;
use sandbox::Entered;

use crate::cli::Cli;
use crate::exit::{Exit, Problem};
use crate::terminal::{BAD, GOOD, paint, tell, visible};

fn main() -> ExitCode {
    // First of all: a sandbox launcher must be single-threaded and has no command line to parse.
    match sandbox::enter() {
        Entered::Launcher(code) => return code,
        Entered::Worker(task) => return functions::serve(&task),
        Entered::Program => {}
    }
    if command::answered() {
        return ExitCode::SUCCESS;
    }
    match command::run(Cli::parse().command) {
        Ok(exit) => exit.into(),
        Err(problem) => {
            if problem.exit != Exit::Done {
                complain(&problem);
            }
            problem.exit.into()
        }
    }
}

fn complain(problem: &Problem) {
    tell(format!("{} {}", paint(BAD, "error:"), visible(&problem.message)));
    if let Some(hint) = &problem.hint {
        tell(format!("{} {}", paint(GOOD, "hint:"), visible(hint)));
    }
}
