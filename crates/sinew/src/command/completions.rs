//! `sinew completions`: prints a completion script for a shell, and answers the requests that this script
//! makes each time the user presses the completion key. Tool names come from the running daemon, else from
//! the configuration. Completion never starts a daemon.

use std::ffi::{OsStr, OsString};
use std::io::Write;

use clap::CommandFactory;
use clap_complete::engine::{CompletionCandidate, ValueCompleter};
use clap_complete::env::Shells;

use crate::cli::{Cli, CompletionsArgs};
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::terminal::print_external_text;

/// Environment variable that the completion script sets to the name of its shell.
const COMPLETE_VARIABLE: &str = "SINEW_COMPLETE";
const PROGRAM: &str = "sinew";

pub(crate) fn run(args: &CompletionsArgs) -> Result<ExitKind, CommandError> {
    let failed = |error: &dyn std::fmt::Display| {
        CommandError::failed(format!("there is no script for this shell: {error}"))
    };
    let shells = Shells::builtins();
    let shell = shells.completer(&args.shell.to_string()).ok_or_else(|| failed(&args.shell))?;
    let mut script = Vec::new();
    shell
        .write_registration(COMPLETE_VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)
        .map_err(|error| failed(&error))?;
    print_external_text(&String::from_utf8_lossy(&script))?;
    Ok(ExitKind::Done)
}

/// Answers a completion request of a shell and returns true if there was one. The first argument must be the
/// `--` of the script, so that a variable set for another reason changes no command, in particular no hook.
pub(crate) fn handle_completion_request() -> bool {
    let mut words: Vec<_> = std::env::args_os().skip(1).collect();
    let Some(shell) =
        std::env::var_os(COMPLETE_VARIABLE).filter(|_| words.first().is_some_and(|word| word == "--"))
    else {
        return false;
    };
    words.remove(0);
    let shells = Shells::builtins();
    let Some(shell) = shell.to_str().and_then(|name| shells.completer(name)) else { return true };
    let mut command = Cli::command();
    command.build();
    let mut answer = Vec::new();
    let folder = std::env::current_dir().ok();
    // An error message would garble the line that the user is typing.
    if shell.write_complete(&mut command, words, folder.as_deref(), &mut answer).is_ok() {
        let _ = std::io::stdout().write_all(&answer);
    }
    true
}

/// Completer for tool names.
#[derive(Clone, Copy)]
pub(crate) enum ToolNameCompleter {
    /// The argument is only a tool name.
    NameOnly,
    /// The argument list starts with a tool name, followed by the arguments of the call.
    NameThenArguments,
}

impl ValueCompleter for ToolNameCompleter {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        if matches!(self, ToolNameCompleter::NameThenArguments) && has_tool_name(std::env::args_os()) {
            return Vec::new();
        }
        let tools = CommandContext::from_environment()
            .and_then(|context| context.definitions_without_waiting())
            .unwrap_or_default();
        let begins = |name: &str| current.to_str().is_some_and(|typed| name.starts_with(typed));
        let schema_checked = tools.iter().filter(|tool| begins(tool.name().as_str()));
        schema_checked
            .map(|tool| {
                let first = tool.description().lines().next().unwrap_or_default();
                CompletionCandidate::new(tool.name().as_str()).help(Some(first.to_owned().into()))
            })
            .collect()
    }
}

/// Returns true if a tool name precedes the word being typed. The words are: this program, `--`, `sinew`, the
/// command, then the arguments.
fn has_tool_name(words: impl IntoIterator<Item = OsString>) -> bool {
    let mut between: Vec<OsString> = words.into_iter().skip(4).collect();
    between.pop();
    between.iter().any(|word| !word.to_string_lossy().starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_name_is_completed_only_once() {
        let check = |line: &str, expect: bool| {
            assert_eq!(has_tool_name(line.split(' ').map(OsString::from)), expect, "{line}");
        };
        check("sinew -- sinew call re", false);
        check("sinew -- sinew call --json re", false);
        check("sinew -- sinew call read_file pa", true);
    }
}
