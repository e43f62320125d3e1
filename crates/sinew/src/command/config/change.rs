//! `sinew config path`, `get`, `set` and `edit`. A changed file replaces the old one only if it loads.

use std::path::{Path, PathBuf};
use std::process::Command;

use governance::suggested_change::PolicyFile;
use serde_json::{Value, json};
use server::settings::Settings;
use strict_yaml::YamlNode;
use tool::text::nearest_word;

use crate::cli::JsonArgs;
use crate::command::allow::{painted, unified};
use crate::command::{init, reload, schema};
use crate::command_context::CommandContext;
use crate::compose;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::table::Table;
use crate::terminal::{escape_invisible, escape_invisible_line, print_result_line};

use super::{setting_rows, value_text};

/// Name of a file on the command line, and its path in the home.
const FILES: [(&str, &str); 5] = [
    ("settings", "sinew.yaml"),
    ("tools", "governance/tools.yaml"),
    ("modes", "governance/modes.yaml"),
    ("safety", "governance/safety.yaml"),
    ("guardrails", "governance/guardrails.yaml"),
];

/// Top-level keys of the policy files.
const POLICY_KEYS: [(&str, PolicyFile); 13] = [
    ("tools", PolicyFile::Tools),
    ("tool_categories", PolicyFile::Tools),
    ("forbidden_paths", PolicyFile::Tools),
    ("path_sets", PolicyFile::Tools),
    ("command_sets", PolicyFile::Tools),
    ("host_sets", PolicyFile::Tools),
    ("modes", PolicyFile::Modes),
    ("transition_rules", PolicyFile::Modes),
    ("content_filtering", PolicyFile::Safety),
    ("outbound_gateway", PolicyFile::Safety),
    ("rate_limits", PolicyFile::Safety),
    ("human_approval", PolicyFile::Safety),
    ("sessions", PolicyFile::Safety),
];

/// File that holds a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConfigKeyFile {
    Settings,
    Policy(PolicyFile),
}

impl ConfigKeyFile {
    /// Finds the file by the outermost key. The settings have the keys that no policy file has.
    fn of(key: &str) -> ConfigKeyFile {
        let outermost = key.split('.').next().unwrap_or_default();
        policy_file_with(outermost).map_or(ConfigKeyFile::Settings, ConfigKeyFile::Policy)
    }

    fn path(self, context: &CommandContext) -> PathBuf {
        match self {
            ConfigKeyFile::Settings => context.home().settings_file(),
            ConfigKeyFile::Policy(file) => context.home().config_dir().join("governance").join(file.name()),
        }
    }
}

/// Returns the policy file that has this key at its top level.
pub(crate) fn policy_file_with(key: &str) -> Option<PolicyFile> {
    POLICY_KEYS.into_iter().find(|(name, _)| *name == key).map(|(_, file)| file)
}

pub(super) fn show_paths(output: JsonArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let paths = FILES.map(|(name, path)| (name, context.home().config_dir().join(path)));
    if output.json {
        let files =
            paths.iter().map(|(name, path)| json!({"name": name, "path": path, "exists": path.exists()}));
        render::print_json(json!({"files": files.collect::<Vec<_>>()}))?;
        return Ok(ExitKind::Done);
    }
    let mut table = Table::default();
    for (name, path) in &paths {
        let state = if path.exists() { "" } else { "not written: the built-in configuration applies" };
        table.add_row([(*name).to_owned(), escape_invisible_line(&path.to_string_lossy()), state.to_owned()]);
    }
    render::print_table(&table)?;
    Ok(ExitKind::Done)
}

pub(super) fn get(key: &str) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let value = match ConfigKeyFile::of(key) {
        ConfigKeyFile::Settings => {
            let rows = setting_rows(&context.home().settings_file())?;
            rows.into_iter().find(|row| row.key == key).and_then(|row| row.value)
        }
        ConfigKeyFile::Policy(file) => {
            let policy = compose::read_policy(&context)?.map_err(CommandError::configuration)?;
            let tree = policy.merged_document(file).tree().map_err(CommandError::configuration)?;
            find_value(&tree, key).map(YamlNode::to_json)
        }
    };
    let Some(value) = value else {
        let problem = CommandError::usage(format!("`{}` is not set", escape_invisible_line(key)));
        return Err(problem.with_hint("`sinew config show` lists the settings, `--effective` the policy"));
    };
    print_result_line(escape_invisible_line(&value_text(&value)))?;
    Ok(ExitKind::Done)
}

/// Finds a value by a path with dots. A key of the tree may contain dots itself, as names of MCP tools do.
fn find_value<'n>(node: &'n YamlNode, path: &str) -> Option<&'n YamlNode> {
    node.entries().iter().find_map(|(key, value)| match path.strip_prefix(key.value.as_str())? {
        "" => Some(value),
        rest => find_value(value, rest.strip_prefix('.')?),
    })
}

/// Splits a key at its dots. The name of a tool may contain dots, so the keys of a tool are found by the last word, or by the
/// name before it.
fn keys_of(key: &str, is_tool: impl Fn(&str) -> bool) -> Vec<String> {
    let words = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
    let Some(rest) = key.strip_prefix("tools.") else { return words(key) };
    let schema: Value = schema::schema_text("tools").and_then(|text| text.parse().ok()).unwrap_or_default();
    let is_tool_key = |word: &str| schema.pointer(&format!("/$defs/ToolEntry/properties/{word}")).is_some();
    let split = rest.rsplit_once('.').filter(|(tool, last)| is_tool_key(last) || is_tool(tool));
    let parts = split.map_or(vec!["tools", rest], |(tool, last)| vec!["tools", tool, last]);
    parts.into_iter().map(str::to_owned).collect()
}

/// Refuses a key that neither the settings nor a policy file has.
fn check_outermost_key(key: &str, file: ConfigKeyFile) -> Result<(), CommandError> {
    let outermost = key.split('.').next().unwrap_or_default();
    let schema = schemars::schema_for!(server::settings::DaemonSettingsFile).to_value();
    let settings = schema.pointer("/properties").and_then(Value::as_object).into_iter().flatten();
    let settings: Vec<&str> = settings.map(|(name, _)| name.as_str()).collect();
    if file != ConfigKeyFile::Settings || settings.contains(&outermost) {
        return Ok(());
    }
    let known: Vec<&str> = settings.into_iter().chain(POLICY_KEYS.map(|(name, _)| name)).collect();
    let problem = CommandError::usage(format!("there is no key `{}`", escape_invisible_line(outermost)));
    Err(problem.with_hint(match nearest_word(outermost, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the keys are {}", known.join(", ")),
    }))
}

pub(super) fn set(key: &str, value: &str) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let file = ConfigKeyFile::of(key);
    let path = file.path(&context);
    let text = read_or_empty(&path)?;
    check_outermost_key(key, file)?;
    let policy = compose::read_policy(&context)?.ok();
    let listed = policy.and_then(|policy| policy.merged_document(PolicyFile::Tools).tree().ok());
    let is_tool =
        |name: &str| listed.as_ref().is_some_and(|tree| find_value(tree, &format!("tools.{name}")).is_some());
    let keys = keys_of(key, is_tool);
    let changed = policy_tools::replace_value(&text, &keys, value).ok_or_else(|| {
        let problem = CommandError::configuration("the file is written in a way this command cannot edit");
        problem.with_hint(format!("edit `{key}` in {} by hand, or run `sinew config edit`", path.display()))
    })?;
    check_loads(&context, file, &changed)?;
    if changed == text {
        print_result_line("nothing was changed: the file has this value already")?;
        return Ok(ExitKind::Done);
    }
    init::replace_atomically(&path, &changed)?;
    // A value replaces the one before it, also `{add: [...]}`, so the person sees what goes.
    let shown = path.to_string_lossy();
    print_result_line(painted(&escape_invisible(&unified(&shown, &text, &changed))))?;
    print_result_line(format!("wrote {}", escape_invisible_line(&shown)))?;
    reload::show_edit(&context)?;
    Ok(ExitKind::Done)
}

pub(super) fn edit(name: &str) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let editor = ["VISUAL", "EDITOR"].into_iter().find_map(|name| std::env::var(name).ok());
    let editor = editor.filter(|words| !words.trim().is_empty()).ok_or_else(|| {
        CommandError::usage("no editor is set").with_hint("set EDITOR, such as EDITOR=nano")
    })?;
    let relative = FILES.iter().find(|(known, _)| *known == name).map_or("", |(_, path)| *path);
    let path = context.home().config_dir().join(relative);
    let before = read_or_empty(&path)?;
    let draft = path.with_extension("draft.yaml");
    let start = if before.is_empty() { init::start_text(name) } else { &before };
    init::replace_atomically(&draft, start)?;
    let mut words = editor.split_whitespace();
    let status = Command::new(words.next().unwrap_or_default()).args(words).arg(&draft).status();
    let kept = || format!("your text is in {}", draft.display());
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => {
            return Err(CommandError::failed(format!("the editor ended with {status}")).with_hint(kept()));
        }
        Err(error) => return Err(CommandError::failed(format!("`{editor}` cannot start: {error}"))),
    }
    let changed = read_or_empty(&draft)?;
    if changed == start {
        // The draft has nothing that the file or the built-in text lacks.
        let _ = std::fs::remove_file(&draft);
        print_result_line("nothing was changed")?;
        return Ok(ExitKind::Done);
    }
    let file = PolicyFile::ALL.into_iter().find(|file| relative.ends_with(file.name()));
    let checked = match (name, file) {
        ("guardrails", _) => compose::check_guardrails_text(&context, &path, &changed),
        (_, Some(file)) => check_loads(&context, ConfigKeyFile::Policy(file), &changed),
        (_, None) => check_loads(&context, ConfigKeyFile::Settings, &changed),
    };
    checked.map_err(|error| error.with_hint(kept()))?;
    init::replace_atomically(&path, &changed)?;
    // The file holds the same text by now.
    let _ = std::fs::remove_file(&draft);
    print_result_line(format!("wrote {}", escape_invisible_line(&path.to_string_lossy())))?;
    reload::show_edit(&context)?;
    Ok(ExitKind::Done)
}

/// Checks that the configuration loads with a new text for one file.
fn check_loads(context: &CommandContext, file: ConfigKeyFile, text: &str) -> Result<(), CommandError> {
    match file {
        ConfigKeyFile::Settings => {
            Settings::parse(context.home(), text).map(drop).map_err(CommandError::configuration)
        }
        ConfigKeyFile::Policy(file) => compose::check_policy_text(context, file, text),
    }
}

fn read_or_empty(path: &Path) -> Result<String, CommandError> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|error| {
            CommandError::configuration(format!("{} cannot be read: {error}", path.display()))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::keys_of;

    #[test]
    fn tool_names_with_dots_stay_whole() {
        for (key, expect) in [
            ("tools.run_command.memory_mb", &["tools", "run_command", "memory_mb"][..]),
            ("tools.git.status.memory_mb", &["tools", "git.status", "memory_mb"]),
            ("tools.git.status", &["tools", "git.status"]),
            ("tools.read_file", &["tools", "read_file"]),
            ("tools.read_file.memry_mb", &["tools", "read_file", "memry_mb"]),
            ("tools.my.tool", &["tools", "my.tool"]),
            ("outbound_gateway.allowed_domains", &["outbound_gateway", "allowed_domains"]),
        ] {
            assert_eq!(keys_of(key, |tool| tool == "read_file"), expect, "{key}");
        }
    }
}
