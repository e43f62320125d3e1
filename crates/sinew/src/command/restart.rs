//! `sinew restart`: replaces the program of the running daemon by the installed one.

use serde_json::json;

use crate::cli::JsonArgs;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::restart::{Restarted, restart_in_place};
use crate::terminal::{SUCCESS_STYLE, paint, print_result_line};

pub(crate) fn run(output: &JsonArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let restarted = restart_in_place(&context)?;
    if output.json {
        let Restarted { old_version, new_version, pid, took } = restarted;
        let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        print_result_line(render::versioned_json(
            json!({"old_version": old_version, "new_version": new_version, "pid": pid, "took_ms": took}),
        ))?;
    } else {
        report(&restarted)?;
    }
    Ok(ExitKind::Done)
}

/// Prints the versions and the longest time that a new call waited.
pub(crate) fn report(restarted: &Restarted) -> Result<(), CommandError> {
    let Restarted { old_version, new_version, pid, took } = restarted;
    let versions = match old_version == new_version {
        true => format!("version {new_version}"),
        false => format!("version {old_version} → {new_version}"),
    };
    print_result_line(format!(
        "{} {versions}, pid {pid}; new calls waited at most {:.1} s",
        paint(SUCCESS_STYLE, "restarted:"),
        took.as_secs_f64()
    ))
}
