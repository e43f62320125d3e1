//! Help of the command line beyond what each command says about itself: the groups of the overview, and examples.

use clap::{Command, CommandFactory};

use super::Cli;
use crate::table::{Column, Table};
use crate::terminal::{HEADING_STYLE, paint, stdout_width};

/// Groups of commands, in the order of the overview.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Run", &["call", "explain", "tools", "ps", "cancel", "undo", "sessions", "callers", "demo"]),
    ("Approval", &["console", "approvals", "approve", "deny", "pin"]),
    (
        "Policy",
        &["mode", "lockdown", "allow", "policy", "check", "reload", "config", "workspace", "manifest"],
    ),
    ("Record", &["status", "ledger", "trace", "logs", "doctor", "bugreport"]),
    (
        "Setup",
        &[
            "init",
            "fleet",
            "serve",
            "stop",
            "wait",
            "service",
            "restart",
            "uninstall",
            "hook",
            "mcp",
            "schema",
            "completions",
            "manual",
            "version",
            "help",
        ],
    ),
];

/// Examples of a command. Each is a command line that parses.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "call",
        &[
            "sinew call read_file path=README.md",
            "sinew call search_files query=TODO glob=*.rs",
            "sinew call write_file --json '{\"path\":\"a.txt\",\"content\":\"x\"}'",
        ],
    ),
    (
        "explain",
        &[
            "sinew explain write_file path=/etc/hosts content=x",
            "sinew explain --mode ALERT delete_file path=a.txt",
            "sinew explain 01a1f24b-e846",
        ],
    ),
    ("tools", &["sinew tools list --mode LOCKDOWN", "sinew tools show run_tests"]),
    ("ps", &["sinew ps", "sinew ps --json"]),
    ("cancel", &["sinew cancel 01a1f24b-e727"]),
    ("undo", &["sinew undo --last", "sinew undo --since 20m --dry-run", "sinew undo 01a1f24b-e727"]),
    (
        "sessions",
        &["sinew sessions open --name reviewer --allow read_file --allow git_diff", "sinew sessions list"],
    ),
    ("callers", &["sinew callers list", "sinew callers resume process:4711"]),
    ("console", &["sinew console", "sinew console --no-open"]),
    ("approvals", &["sinew approvals watch", "sinew approvals show dbe303a5"]),
    (
        "approve",
        &[
            "sinew approve dbe303a52ea5080e8b5142745b45835d",
            "sinew approve dbe303a52ea5080e8b5142745b45835d --for 10m",
        ],
    ),
    ("deny", &["sinew deny dbe303a5 --reason 'use the staging database'"]),
    ("pin", &["sinew pin set"]),
    (
        "mode",
        &["sinew mode get", "sinew mode set ALERT --reason 'reviewing a pull request'", "sinew mode history"],
    ),
    ("lockdown", &["sinew lockdown --reason 'unknown calls'"]),
    ("allow", &["sinew allow", "sinew allow 01a1f24b-e846-732d-90cf-f1b35264263a"]),
    (
        "policy",
        &[
            "sinew policy reach",
            "sinew policy prove write below src without human",
            "sinew policy test cases.yaml",
        ],
    ),
    ("check", &["sinew check"]),
    ("reload", &["sinew reload", "sinew reload --accept"]),
    (
        "config",
        &[
            "sinew config show --origin",
            "sinew config get tools.run_command.memory_mb",
            "sinew config edit tools",
        ],
    ),
    ("workspace", &["sinew workspace add .", "sinew workspace list"]),
    ("manifest", &["sinew manifest new deploy --type cli", "sinew manifest check deploy.yaml"]),
    ("status", &["sinew status", "sinew status --json"]),
    (
        "ledger",
        &[
            "sinew ledger tail -f",
            "sinew ledger query --outcome refused --since yesterday",
            "sinew ledger show 01a1f24b-e846",
        ],
    ),
    ("trace", &["sinew trace --last"]),
    ("logs", &["sinew logs -n 50", "sinew logs -f --level warn"]),
    ("doctor", &["sinew doctor", "sinew doctor --verbose"]),
    ("bugreport", &["sinew bugreport", "sinew bugreport --output report.tar.gz"]),
    ("init", &["sinew init --workspace ~/project", "sinew init --pin"]),
    #[cfg(feature = "fleet")]
    ("fleet", &["sinew fleet invite web-1", "sinew fleet lockdown --reason drill", "sinew fleet hosts"]),
    ("serve", &["sinew serve"]),
    ("stop", &["sinew stop"]),
    ("wait", &["sinew wait --timeout 10"]),
    ("service", &["sinew service install", "sinew service status"]),
    ("restart", &["sinew restart"]),
    ("uninstall", &["sinew uninstall --dry-run", "sinew uninstall --purge"]),
    ("hook", &["sinew hook install claude-code", "sinew hook uninstall claude-code"]),
    ("mcp", &["sinew mcp", "sinew mcp --http 127.0.0.1:8765"]),
    ("schema", &["sinew schema tools"]),
    ("completions", &["sinew completions bash"]),
    ("manual", &["sinew manual ~/.local/share/man/man1"]),
    ("version", &["sinew version --json"]),
    ("demo", &["sinew demo"]),
    ("help", &["sinew help policy", "sinew help exit-codes"]),
];

/// Returns the grammar of the command line with groups and examples.
pub(crate) fn command() -> Command {
    let mut command = Cli::command();
    for (name, examples) in EXAMPLES {
        if command.find_subcommand(name).is_some() {
            command = command.mut_subcommand(name, |below| below.after_help(example_text(examples)));
        }
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{}\n{{options}}{{after-help}}",
        group_text(&command),
        paint(HEADING_STYLE.underline(), "Options:")
    );
    command.help_template(template)
}

fn example_text(examples: &[&str]) -> String {
    let heading =
        paint(HEADING_STYLE.underline(), if examples.len() == 1 { "Example:" } else { "Examples:" });
    examples.iter().fold(heading, |text, example| format!("{text}\n  {example}"))
}

/// Returns the commands of each group, one per line.
fn group_text(command: &Command) -> String {
    let width = stdout_width().unwrap_or(100).min(100).saturating_sub(2);
    let mut text = String::new();
    for (group, names) in GROUPS {
        text += &format!("{}\n", paint(HEADING_STYLE.underline(), format!("{group} commands:")));
        let mut table = Table::default();
        table.set_header([Column::whole(""), "".into()]);
        for below in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = below.get_about().map(ToString::to_string).unwrap_or_default();
            table.add_row([format!("{:<12}", below.get_name()), about]);
        }
        text.extend(table.lines(Some(width)).iter().map(|line| format!("  {line}\n")));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_one_group_and_examples() {
        for below in Cli::command().get_subcommands().filter(|below| !below.is_hide_set()) {
            let name = below.get_name();
            let groups = GROUPS.iter().filter(|(_, names)| names.contains(&name)).count();
            assert_eq!(groups, 1, "{name} is in {groups} groups");
            assert!(EXAMPLES.iter().any(|(of, _)| *of == name), "{name} has no example");
        }
    }

    #[test]
    fn every_example_parses() {
        for example in EXAMPLES.iter().flat_map(|(_, examples)| examples.iter()) {
            // The examples quote with single quotes only.
            let mut words: Vec<String> = Vec::new();
            for (number, part) in example.split('\'').enumerate() {
                match number % 2 {
                    0 => words.extend(part.split_whitespace().map(str::to_owned)),
                    _ => words.push(part.to_owned()),
                }
            }
            let parsed = command().try_get_matches_from(&words);
            assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
        }
    }
}
