//! `sinew config`: shows the effective settings and where each comes from. It changes nothing and does not
//! ask the daemon, which may have been started with different environment variables.

use std::path::Path;

use serde_json::{Value, json};
use strict_yaml::{Document, Node};

use crate::cli::{ConfigCommand, ConfigShowArgs};
use crate::exit::{Exit, Problem};
use crate::origin::{self, Origin, Row};
use crate::render;
use crate::setting::Setting;
use crate::terminal::{say, visible_line};

pub(crate) fn run(command: &ConfigCommand) -> Result<Exit, Problem> {
    match command {
        ConfigCommand::Show(args) => show(args),
    }
}

fn show(args: &ConfigShowArgs) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    // Reject invalid settings as the daemon would, instead of showing values that have no effect.
    setting.settings()?;
    let file = setting.home().settings_file();
    let rows = rows(&file)?;
    let policy = policy(setting.home().config());
    if args.output.json {
        let settings: Vec<Value> = rows.iter().map(as_json).collect();
        let policy: Vec<Value> =
            policy.iter().map(|(name, from)| json!({"name": name, "file": from})).collect();
        say(render::versioned(json!({"file": file, "settings": settings, "policy": policy})))?;
        return Ok(Exit::Done);
    }
    let mut table = render::plain_table();
    for row in &rows {
        let value = row.value.as_ref().map_or("not set".to_owned(), |value| visible_line(&text(value)));
        match args.origin {
            true => table.add_row([row.key.clone(), value, origin_text(row, &file)]),
            false => table.add_row([row.key.clone(), value]),
        };
    }
    for (name, from) in &policy {
        let from = from.as_deref().map_or_else(|| "built in".to_owned(), |path| path.display().to_string());
        table.add_row([format!("governance/{name}"), visible_line(&from)]);
    }
    say(table)?;
    Ok(Exit::Done)
}

fn rows(file: &Path) -> Result<Vec<Row>, Problem> {
    let tree =
        |document: Document| -> Result<Node, Problem> { document.tree().map_err(Problem::configuration) };
    let built_in =
        tree(Document::from_text("built in", server::SETTINGS_TEMPLATE).map_err(Problem::configuration)?)?;
    let written = match std::fs::symlink_metadata(file) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => None,
        _ => Some(tree(Document::read_trusted(file).map_err(Problem::configuration)?)?),
    };
    let schema = schemars::schema_for!(server::SettingsFile).to_value();
    let variable = |name: &str| std::env::var(name).ok();
    Ok(origin::rows(&schema, &built_in, written.as_ref(), variable))
}

/// Returns the names of the policy files, each with its path if it exists; otherwise the built-in version is
/// used.
fn policy(config: &Path) -> Vec<(&'static str, Option<std::path::PathBuf>)> {
    let folder = config.join("governance");
    let names = governance::EMBEDDED.into_iter().chain([guardrail::EMBEDDED]).map(|(name, _)| name);
    names.map(|name| (name, Some(folder.join(name)).filter(|path| path.exists()))).collect()
}

fn as_json(row: &Row) -> Value {
    let origin = match &row.origin {
        Origin::Default => json!({"from": "default"}),
        Origin::File { line, as_built_in } => {
            json!({"from": "file", "line": line, "is_default": as_built_in})
        }
        Origin::Variable(name) => json!({"from": "environment", "variable": name}),
    };
    json!({"key": row.key, "value": row.value, "origin": origin})
}

fn origin_text(row: &Row, file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    match &row.origin {
        Origin::Default => "default".to_owned(),
        Origin::File { line, as_built_in: true } => format!("{name}:{line}, same as default"),
        Origin::File { line, as_built_in: false } => format!("{name}:{line}"),
        Origin::Variable(name) => format!("{name} (environment)"),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
