//! `sinew completions`: prints a completion script for a shell, and answers the requests that this script
//! makes each time the user presses the completion key. Tool names come from the running daemon, else from
//! the configuration. Completion never starts a daemon.

use std::ffi::{OsStr, OsString};
use std::io::Write;

use clap_complete::engine::{CompletionCandidate, ValueCompleter};
use clap_complete::env::Shells;

use crate::cli::{self, CompletionsArgs};
use serde_json::Value;
use tool::ToolDefinition;

use crate::command::tools;
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
    let mut command = cli::command();
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
        let tools = CommandContext::from_environment()
            .and_then(|context| context.definitions_without_waiting())
            .unwrap_or_default();
        let typed = current.to_str().unwrap_or_default();
        let words = typed_words(std::env::args_os());
        match (self, words.split_first()) {
            (ToolNameCompleter::NameThenArguments, Some((tool, given))) => {
                tools::find_tool(&tools, tool).map(|tool| arguments(tool, given, typed)).unwrap_or_default()
            }
            _ => names(&tools, typed),
        }
    }
}

fn names(tools: &[ToolDefinition], typed: &str) -> Vec<CompletionCandidate> {
    let fitting = tools.iter().filter(|tool| tool.name().as_str().starts_with(typed));
    fitting
        .map(|tool| {
            let first = tool.description().lines().next().unwrap_or_default();
            CompletionCandidate::new(tool.name().as_str()).help(Some(first.to_owned().into()))
        })
        .collect()
}

/// Returns the arguments of a tool that were not given yet, as `name=`; after it, the values that its schema lists.
fn arguments(tool: &ToolDefinition, given: &[String], typed: &str) -> Vec<CompletionCandidate> {
    let is_given = |name: &str| given.iter().any(|word| word.split('=').next() == Some(name));
    let mut found = Vec::new();
    for parameter in tool.parameters() {
        let begun = format!("{}=", parameter.name);
        let values = parameter.schema.get("enum").and_then(Value::as_array);
        match values.filter(|_| typed.starts_with(&begun)) {
            Some(values) => {
                let values = values.iter().filter_map(Value::as_str).map(|value| format!("{begun}{value}"));
                found.extend(values.filter(|value| value.starts_with(typed)).map(CompletionCandidate::new));
            }
            None if begun.starts_with(typed) && !is_given(&parameter.name) => {
                let first = parameter.description.lines().next().unwrap_or_default();
                found.push(CompletionCandidate::new(begun).help(Some(first.to_owned().into())));
            }
            None => {}
        }
    }
    found
}

/// Returns the words between the command and the word being typed, without options. All words are: this program, `--`,
/// `sinew`, the command, then the arguments.
fn typed_words(words: impl IntoIterator<Item = OsString>) -> Vec<String> {
    let mut between: Vec<String> =
        words.into_iter().skip(4).map(|word| word.to_string_lossy().into_owned()).collect();
    between.pop();
    between.retain(|word| !word.starts_with('-'));
    between
}

#[cfg(test)]
mod tests {
    use tool::definition::{ParameterType, ToolParameter};
    use tool::{Category, RiskLevel, ToolSpec};

    use super::*;

    #[test]
    fn words_before_the_typed_one_are_found() {
        let check = |line: &str, expect: &[&str]| {
            assert_eq!(typed_words(line.split(' ').map(OsString::from)), expect, "{line}");
        };
        check("sinew -- sinew call re", &[]);
        check("sinew -- sinew call --json re", &[]);
        check("sinew -- sinew call read_file path=a st", &["read_file", "path=a"]);
    }

    #[test]
    fn arguments_and_their_values_come_from_the_schema() {
        let mut spec = ToolSpec::new("t", "d", Category::READ_ONLY, RiskLevel::Low);
        let mut runner = ToolParameter::new("runner", ParameterType::String, "");
        runner.schema.insert("enum".to_owned(), serde_json::json!(["auto", "cargo"]));
        spec.parameters = vec![ToolParameter::new("path", ParameterType::String, ""), runner];
        let tool = spec.check().unwrap();
        let check = |given: &[&str], typed: &str, expect: &[&str]| {
            let given: Vec<String> = given.iter().map(ToString::to_string).collect();
            let found = arguments(&tool, &given, typed);
            let found: Vec<_> =
                found.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect();
            assert_eq!(found, expect, "{given:?} {typed}");
        };
        check(&[], "", &["path=", "runner="]);
        check(&["path=a"], "", &["runner="]);
        check(&[], "runner=c", &["runner=cargo"]);
        check(&[], "x", &[]);
    }
}
