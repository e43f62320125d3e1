//! `sinew help` and `sinew manual`: print the help of a command or topic, and write manual pages from it.

use std::path::Path;

use clap::error::ErrorKind;
use tool::text::nearest_word;

use crate::cli::{self, HelpArgs, ManualArgs};
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::terminal::{escape_invisible_line, print_result_line};

const TOPICS: [&str; 3] = ["environment", "exit-codes", "files"];

const EXIT_CODES: &str = "\
0  done
1  the tool failed, or the command did
2  wrong usage
3  the call was refused by the schema, the policy or the operator
4  the approval is pending or timed out
5  the tool timed out
6  the command needs a daemon, and none answers
7  the configuration cannot be used
8  another process holds the state lock and does not answer

`sinew hook` follows the contract of its host instead: 0 with one JSON object, 2 to block.";

const ENVIRONMENT: &str = "\
SINEW_HOME        folder for configuration, state, logs and sockets; default: the standard folders of the system,
                  XDG_CONFIG_HOME, XDG_STATE_HOME and XDG_RUNTIME_DIR on Linux, ~/Library on macOS
SINEW_LOG         log filter, like `log.level` in sinew.yaml: a level, or target=level pairs
NO_COLOR          turn colours off; `--color always` and CLICOLOR_FORCE turn them on
SINEW_PAGER, PAGER
                  program that shows output longer than the screen; empty or `cat` for none
VISUAL, EDITOR    editor that `sinew approvals` opens to edit a call before it runs
PATH              searched by `sinew hook install` for this program and by `sinew doctor` for other copies; tools get their own PATH
BRAVE_API_KEY, TAVILY_API_KEY
                  keys of search providers, used if neither the keychain nor a key_file has one

A variable that is set and not empty overrides sinew.yaml. `sinew config show --origin` shows which ones do:";

pub(crate) fn run(args: &HelpArgs) -> Result<ExitKind, CommandError> {
    match args.words.as_slice() {
        [] => print_command_help(&[]),
        [topic] if topic == "exit-codes" => print_result_line(EXIT_CODES),
        [topic] if topic == "environment" => {
            print_result_line(format!("{ENVIRONMENT}\n\n{}", telemetry_variables()))
        }
        [topic] if topic == "files" => print_result_line(file_overview(&CommandContext::from_environment()?)),
        words => print_command_help(words),
    }
    .map(|()| ExitKind::Done)
}

/// Prints the help of a command, as `--help` does.
fn print_command_help(words: &[String]) -> Result<(), CommandError> {
    let typed = ["sinew"].into_iter().chain(words.iter().map(String::as_str)).chain(["--help"]);
    match cli::command().try_get_matches_from(typed) {
        Err(shown) if shown.kind() == ErrorKind::DisplayHelp => {
            print_result_line(shown.render().ansi().to_string().trim_end())
        }
        _ => Err(unknown_topic(words)),
    }
}

fn unknown_topic(words: &[String]) -> CommandError {
    let command = cli::command();
    let known = command.get_subcommands().map(|below| below.get_name());
    let topics = TOPICS.iter().copied();
    let near = words.first().and_then(|word| nearest_word(word, known.chain(topics)));
    let hint = near.map_or("`sinew help` lists them".to_owned(), |near| format!("sinew help {near}"));
    CommandError::usage(format!("there is no command or topic `{}`", words.join(" "))).with_hint(hint)
}

/// Lists the telemetry variables, each with the setting that it overrides.
fn telemetry_variables() -> String {
    let lines = telemetry::VARIABLES.iter().map(|known| match known.signal {
        None => format!("{:<38} {}", known.name, known.key),
        Some(part) => format!("{:<38} {}, for {part} only", known.name, known.key),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn file_overview(context: &CommandContext) -> String {
    let home = context.home();
    let (config, agent, control) = (home.config_dir(), home.agent_socket(), home.control_socket());
    let rows = [
        (config.join("sinew.yaml"), "settings: workspaces, limits, log, OpenTelemetry"),
        (config.join("governance"), "the policy: tools.yaml, modes.yaml, safety.yaml, guardrails.yaml"),
        (config.join("hosts"), "how the tools of other agent programs are judged"),
        (home.tools_dir().to_owned(), "manifests: tools of your own"),
        (home.state_dir().join("ledger"), "the ledger: every call, sealed line by line"),
        (home.state_dir().to_owned(), "state: the ledger, undo data and approvals"),
        (home.log_dir().to_owned(), "the daemon's own log, rotated"),
        (agent, "the agent socket"),
        (control, "the control socket: approvals, mode, reload"),
    ];
    let lines = rows.map(|(path, description)| {
        format!("{}\n    {description}", escape_invisible_line(&path.to_string_lossy()))
    });
    format!(
        "{}\n\nDefaults for missing configuration are built in; `sinew init --full` writes them out for editing.",
        lines.join("\n")
    )
}

/// Writes manual pages generated from the command-line help.
pub(crate) fn write_manual(args: &ManualArgs) -> Result<ExitKind, CommandError> {
    write_pages(&args.dir).map_err(|error| {
        CommandError::failed(format!("cannot write pages into `{}`: {error}", args.dir.display()))
            .with_hint("choose a folder that you can write to")
    })?;
    let shown = escape_invisible_line(&args.dir.display().to_string());
    print_result_line(format!("read the first page with `man -l {shown}/sinew.1`"))?;
    Ok(ExitKind::Done)
}

fn write_pages(dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    clap_mangen::generate_to(cli::command().disable_help_subcommand(true), dir)
}
