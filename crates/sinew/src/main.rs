//! Entry point of the `sinew` binary: the daemon and all commands.

mod accepted_config;
mod accepted_projects;
mod arguments;
mod bridge;
mod cli;
mod command;
mod command_context;
mod compose;
mod daemon;
mod daemon_start;
mod exit;
#[cfg(feature = "fleet")]
mod fleet;
mod function_workers;
mod host_table;
mod http_bridge;
mod layer_hooks;
mod manifests;
mod message_limit;
mod presets;
mod program_path;
mod render;
mod reserved_folders;
mod restart;
mod service;
mod setting_sources;
mod table;
mod terminal;
mod text_layout;
mod units;
mod web_console;
mod workspace_list_edit;

use std::process::ExitCode;

use clap::FromArgMatches;
use sandbox::ProcessRole;

use crate::cli::Cli;
use crate::exit::{CommandError, ExitKind};
use crate::terminal::{ERROR_STYLE, SUCCESS_STYLE, escape_invisible, paint, print_message};

fn main() -> ExitCode {
    // First of all: a sandbox launcher must be single-threaded and has no command line to parse.
    match sandbox::enter() {
        ProcessRole::Launcher(code) => return code,
        ProcessRole::Worker(task) => return function_workers::serve_task(&task),
        ProcessRole::Program => {}
    }
    if command::handle_completion_request() {
        return ExitCode::SUCCESS;
    }
    let wants_json = wants_json();
    let parsed = cli::command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) if wants_json && error.use_stderr() => {
            return report(&CommandError::usage(error.render().to_string().trim_end()), wants_json);
        }
        Err(error) => return print_usage(&error),
    };
    cli.color.apply();
    match command::run(cli.command) {
        Ok(exit) => exit.into(),
        Err(problem) => report(&problem, wants_json),
    }
}

/// Prints help, a version, or the reason why the command line cannot be parsed.
fn print_usage(shown: &clap::Error) -> ExitCode {
    let text = shown.render().ansi().to_string();
    if shown.use_stderr() {
        print_message(text.trim_end());
        return ExitKind::Usage.into();
    }
    match terminal::paged(|| terminal::print_result_line(text.trim_end())) {
        Ok(()) => ExitKind::Done.into(),
        Err(problem) => problem.exit.into(),
    }
}

/// Returns true if the command line asks for JSON, also if it cannot be parsed.
fn wants_json() -> bool {
    std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json")
}

/// Prints the error that ended a command, and returns its exit code.
fn report(problem: &CommandError, wants_json: bool) -> ExitCode {
    if problem.exit != ExitKind::Done {
        match wants_json {
            true => drop(render::print_json(problem.to_json())),
            false => print_error(problem),
        }
    }
    problem.exit.into()
}

fn print_error(problem: &CommandError) {
    print_message(format!("{} {}", paint(ERROR_STYLE, "error:"), escape_invisible(&problem.message)));
    if let Some(hint) = &problem.hint {
        print_message(format!("{} {}", paint(SUCCESS_STYLE, "hint:"), escape_invisible(hint)));
    }
}
