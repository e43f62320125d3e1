//! `sinew config`: shows the effective settings and policy and where each value comes from. It does not ask the
//! daemon, which may have been started with different environment variables.

mod change;
mod effective;

use std::path::Path;

use serde_json::{Value, json};
use strict_yaml::{Document, YamlNode};

use crate::cli::{ConfigCommand, ConfigShowArgs};
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::setting_sources::{self, SettingOrigin, SettingRow};
use crate::table::Table;
use crate::terminal::escape_invisible_line;

pub(super) use change::policy_file_with;

pub(crate) fn run(command: &ConfigCommand) -> Result<ExitKind, CommandError> {
    match command {
        ConfigCommand::Show(args) if args.effective => effective::show(args.output),
        ConfigCommand::Show(args) => show(args),
        ConfigCommand::Path(output) => change::show_paths(*output),
        ConfigCommand::Get { key } => change::get(key),
        ConfigCommand::Set { key, value } => change::set(key, value),
        ConfigCommand::Edit { file } => change::edit(file),
    }
}

fn show(args: &ConfigShowArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    // Reject invalid settings as the daemon would, instead of showing values that have no effect.
    context.settings()?;
    let file = context.home().settings_file();
    let rows = setting_rows(&file)?;
    let policy = policy_files(context.home().config_dir());
    if args.output.json {
        let settings: Vec<Value> = rows.iter().map(as_json).collect();
        let policy: Vec<Value> =
            policy.iter().map(|(name, from)| json!({"name": name, "file": from})).collect();
        render::print_json(json!({"file": file, "settings": settings, "policy": policy}))?;
        return Ok(ExitKind::Done);
    }
    let mut table = Table::default();
    for row in &rows {
        let value = row
            .value
            .as_ref()
            .map_or("not set".to_owned(), |value| escape_invisible_line(&value_text(value)));
        match args.origin {
            true => table.add_row([row.key.clone(), value, origin_text(row, &file)]),
            false => table.add_row([row.key.clone(), value]),
        };
    }
    for (name, from) in &policy {
        let from = from.as_deref().map_or_else(|| "built in".to_owned(), |path| path.display().to_string());
        table.add_row([format!("governance/{name}"), escape_invisible_line(&from)]);
    }
    render::print_table(&table)?;
    Ok(ExitKind::Done)
}

fn setting_rows(file: &Path) -> Result<Vec<SettingRow>, CommandError> {
    let tree = |document: Document| -> Result<YamlNode, CommandError> {
        document.tree().map_err(CommandError::configuration)
    };
    let built_in = tree(
        Document::from_text("built in", server::settings::SETTINGS_TEMPLATE)
            .map_err(CommandError::configuration)?,
    )?;
    let written = match std::fs::symlink_metadata(file) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => None,
        _ => Some(tree(Document::read_trusted(file).map_err(CommandError::configuration)?)?),
    };
    let schema = schemars::schema_for!(server::settings::DaemonSettingsFile).to_value();
    let variable = |name: &str| std::env::var(name).ok();
    Ok(setting_sources::setting_rows(&schema, &built_in, written.as_ref(), variable))
}

/// Returns the names of the policy files, each with its path if it exists; otherwise the built-in version is
/// used.
fn policy_files(config: &Path) -> Vec<(&'static str, Option<std::path::PathBuf>)> {
    let folder = config.join("governance");
    let names =
        governance::EMBEDDED_FILES.into_iter().chain([guardrail::EMBEDDED_FILE]).map(|(name, _)| name);
    names.map(|name| (name, Some(folder.join(name)).filter(|path| path.exists()))).collect()
}

fn as_json(row: &SettingRow) -> Value {
    let origin = match &row.origin {
        SettingOrigin::Default => json!({"from": "default"}),
        SettingOrigin::File { line, is_default: as_built_in } => {
            json!({"from": "file", "line": line, "is_default": as_built_in})
        }
        SettingOrigin::Variable(name) => json!({"from": "environment", "variable": name}),
    };
    json!({"key": row.key, "value": row.value, "origin": origin})
}

fn origin_text(row: &SettingRow, file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    match &row.origin {
        SettingOrigin::Default => "default".to_owned(),
        SettingOrigin::File { line, is_default: true } => format!("{name}:{line}, same as default"),
        SettingOrigin::File { line, is_default: false } => format!("{name}:{line}"),
        SettingOrigin::Variable(name) => format!("{name} (environment)"),
    }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
