//! Loads the tables in `config/hosts/`, which map the tools of a host program to the policy. They are read
//! and checked like every configuration file; if a table was not written, the built-in one applies.

mod file;
#[cfg(test)]
mod tests;

use std::path::Path;

use execution::host::{
    Host, HostArgument, HostTool, HostToolName, JudgedTool, OnApproval, PATCHED_FILES, RecursiveListing,
};
use serde_json::{Map, Value, json};
use strict_yaml::{Document, DocumentError, Located};
use tool::{Category, RuleRef, ToolSpec};

use self::file::{HostArgumentKind, HostArgumentRow, HostToolRow};
use crate::compose::path_exists;
use crate::exit::CommandError;

pub(crate) use self::file::HostFile;

/// Built-in tables by host.
pub(crate) const EMBEDDED: [(&str, &str); 4] = [
    ("claude-code", include_str!("../../../config/hosts/claude-code.yaml")),
    ("codex", include_str!("../../../config/hosts/codex.yaml")),
    ("gemini-cli", include_str!("../../../config/hosts/gemini-cli.yaml")),
    ("cursor", include_str!("../../../config/hosts/cursor.yaml")),
];

/// Prefix of the name of a built-in file, which tells a reader of a rule that no such file was written.
const BUILT_IN: &str = "built-in/";

/// Hosts that do not ask their user if a hook answers `ask`.
const HOSTS_WITHOUT_ASK: [&str; 2] = ["codex", "cursor"];

/// Extent of the checks on a table before use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableCheckLevel {
    /// Check every schema and example.
    Full,
    /// Check only the file. The call that needs a tool's schema compiles it, and is refused if that fails.
    Lazy,
}

/// Loads the tables of all hosts with full checks: the file in this folder, else the built-in one.
pub(crate) fn load(folder: &Path, user_home: Option<&Path>) -> Result<Vec<Host>, CommandError> {
    load_with(folder, user_home, TableCheckLevel::Full)
}

/// Loads the tables of all hosts with the given checks.
pub(crate) fn load_with(
    folder: &Path,
    user_home: Option<&Path>,
    scrutiny: TableCheckLevel,
) -> Result<Vec<Host>, CommandError> {
    let read = |(name, text): (&str, &str)| {
        let file = folder.join(format!("{name}.yaml"));
        let document = if path_exists(&file)? {
            Document::read_trusted(&file)
        } else {
            Document::from_text(&format!("{BUILT_IN}hosts/{name}.yaml"), text)
        };
        let document = document.map_err(CommandError::configuration)?;
        let host = check_table(name, &document, scrutiny).map_err(|errors| {
            let errors: Vec<String> = errors.iter().map(DocumentError::to_string).collect();
            CommandError::configuration(errors.join("\n"))
        })?;
        Ok(Host { user_home: user_home.map(Path::to_owned), ..host })
    };
    EMBEDDED.into_iter().map(read).collect()
}

/// Checks a table and returns its host, or all errors.
fn check_table(
    name: &str,
    document: &Document,
    scrutiny: TableCheckLevel,
) -> Result<Host, Vec<DocumentError>> {
    let file: HostFile = document.parse().map_err(|error| vec![error])?;
    let (mut tools, mut errors) = (Vec::new(), Vec::new());
    for (key, row) in file.tools.iter() {
        match host_tool(name, (key, row), document)
            .and_then(|tool| check_examples(tool, key, document, scrutiny))
        {
            Ok(tool) => tools.push(tool),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let on_approval = approval_answer(name, &file, document).map_err(|error| vec![error])?;
    let on_permit = file.on_permit;
    Ok(Host { name: name.to_owned(), on_permit, on_approval, user_home: None, tools })
}

/// Returns the answer of a table for calls that need approval. A host that ignores `ask` would run the call without a
/// question.
fn approval_answer(host: &str, file: &HostFile, document: &Document) -> Result<OnApproval, DocumentError> {
    let can_ask = !HOSTS_WITHOUT_ASK.contains(&host);
    match &file.on_approval {
        Some(answer) if answer.value == OnApproval::Ask && !can_ask => {
            let message =
                format!("{host} does not enforce the answer `ask` of a hook; write `deny` or `none`");
            Err(document.error_at(answer.line, answer.column, &message))
        }
        Some(answer) => Ok(answer.value),
        None if can_ask => Ok(OnApproval::Ask),
        None => Ok(OnApproval::Deny),
    }
}

type HostToolEntry = (HostToolName, HostTool);

fn host_tool(
    host: &str,
    (key, row): (&Located<String>, &HostToolRow),
    document: &Document,
) -> Result<HostToolEntry, DocumentError> {
    let at_key = |message: &str| document.error_at(key.line, key.column, message);
    let name = tool_name(key, document)?;
    if row.decided_by.is_some() {
        if row.has_other_keys() {
            let error =
                at_key(&format!("`{}` is decided by the daemon: its other keys have no effect", key.value));
            return Err(error.with_suggestion("remove `decided_by`, or everything else"));
        }
        return Ok((name, HostTool::SinewTool));
    }
    let (Some(category), Some(risk)) = (&row.category, row.risk_level) else {
        let error = at_key(&format!("`{}` needs a `category` and a `risk_level`", key.value));
        return Err(error.with_suggestion("category: read_only, system_write, network or execution"));
    };
    let category = Category::try_from(category.value.clone())
        .map_err(|error| document.error_at(category.line, category.column, &error.to_string()))?;
    let governed =
        row.rules_of.as_ref().map_or_else(|| key.to_ascii_lowercase(), |rules| rules.value.clone());
    let mut spec = ToolSpec::new(&governed, &format!("{} of a host", key.value), category, risk);
    spec.requires_approval = row.asks();
    spec.example = row.example.clone();
    let place = row.rules_of.as_ref().unwrap_or(key);
    let define = |commands: CommandTreatment| {
        let spec = ToolSpec { input_schema: Some(input_schema(row, commands)), ..spec.clone() };
        spec.check().map_err(|error| document.error_at(place.line, place.column, &error.to_string()))
    };
    let mut tool = JudgedTool::new(define(CommandTreatment::AsText)?, host_arguments(row, document)?);
    if row.command_argument().is_some() {
        tool = tool.with_commands(define(CommandTreatment::AsCommand)?);
    }
    if let Some(asks) = &row.requires_approval {
        let file = format!("hosts/{host}.yaml");
        let file = if document.name().starts_with(BUILT_IN) { format!("{BUILT_IN}{file}") } else { file };
        let id = format!("{governed}.requires_approval");
        tool = tool.with_approval_rule(RuleRef { file: file.into(), line: asks.line, id: id.into() });
    }
    if row.curated == Some(false) {
        tool = tool.without_curated_map();
    }
    if let Some(argument) = reading_lines(row, document)? {
        tool = tool.with_reading_lines(argument);
    }
    if let Some(below) = directory_listing(row, document)? {
        tool = tool.with_listing(below);
    }
    Ok((name, HostTool::Judged(Box::new(tool))))
}

/// Returns the argument with lines that are permitted if they only read.
fn reading_lines(row: &HostToolRow, document: &Document) -> Result<Option<String>, DocumentError> {
    match (row.reading_lines.as_ref().filter(|reading| reading.value), row.command_argument()) {
        (None, _) => Ok(None),
        (Some(_), Some(argument)) if row.asks() => Ok(Some(argument.to_owned())),
        (Some(reading), _) => {
            let message = "`reading_lines` needs `requires_approval` and an argument that is a command";
            Err(document.error_at(reading.line, reading.column, message))
        }
    }
}

fn directory_listing(
    row: &HostToolRow,
    document: &Document,
) -> Result<Option<RecursiveListing>, DocumentError> {
    match &row.narrowed_by {
        Some(narrow) if !row.shows_below => {
            let error = document.error_at(narrow.line, narrow.column, "`narrowed_by` needs `shows_below`");
            Err(error.with_suggestion("shows_below: true"))
        }
        narrow => {
            let narrowed_by = narrow.as_ref().map(|key| key.value.clone());
            Ok(row.shows_below.then_some(RecursiveListing { filter_argument: narrowed_by }))
        }
    }
}

fn check_examples(
    (name, tool): HostToolEntry,
    key: &Located<String>,
    document: &Document,
    scrutiny: TableCheckLevel,
) -> Result<HostToolEntry, DocumentError> {
    if let (HostTool::Judged(judged), TableCheckLevel::Full) = (&tool, scrutiny) {
        judged.check().map_err(|error| document.error_at(key.line, key.column, &error))?;
    }
    Ok((name, tool))
}

/// Treatment of a command line by the policy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CommandTreatment {
    /// Ordinary text.
    AsText,
    /// Command that rules allow or forbid.
    AsCommand,
}

/// Parses a tool name in the host's spelling, with an optional `*` at the end.
fn tool_name(key: &Located<String>, document: &Document) -> Result<HostToolName, DocumentError> {
    let (name, begins) = key.strip_suffix('*').map_or((key.as_str(), false), |start| (start, true));
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    if name.is_empty() || !name.chars().all(plain) {
        let message = format!("`{}` is not the name of a tool", key.value);
        let error = document.error_at(key.line, key.column, &message);
        return Err(error.with_suggestion("use letters, digits, _, -, . and :; a final * is a wildcard"));
    }
    Ok(if begins { HostToolName::Prefix(name.to_owned()) } else { HostToolName::Exact(name.to_owned()) })
}

/// Builds the input schema. It permits additional arguments, because hosts add their own.
fn input_schema(row: &HostToolRow, commands: CommandTreatment) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (key, argument) in row.arguments.iter() {
        let access = argument.access.as_str();
        let schema = match argument.is {
            HostArgumentKind::Path | HostArgumentKind::Pattern => {
                json!({"type": "string", "format": "path", "x-sinew-access": access})
            }
            HostArgumentKind::Url => json!({"type": "string", "format": "uri"}),
            HostArgumentKind::Command => match commands {
                CommandTreatment::AsText => json!({"type": "string"}),
                CommandTreatment::AsCommand => json!({"type": "string", "format": "command"}),
            },
            HostArgumentKind::Patch => {
                let file = json!({"type": "string", "format": "path", "x-sinew-access": access});
                properties.insert(PATCHED_FILES.to_owned(), json!({"type": "array", "items": file}));
                json!({"type": "string"})
            }
        };
        properties.insert(key.value.clone(), schema);
        if argument.default.is_none() {
            required.push(key.value.clone());
        }
    }
    json!({"type": "object", "properties": properties, "required": required})
}

fn host_arguments(row: &HostToolRow, document: &Document) -> Result<Vec<HostArgument>, DocumentError> {
    let mut arguments = Vec::new();
    for (key, argument) in row.arguments.iter() {
        if let Some(below) = &argument.below
            && !(argument.is == HostArgumentKind::Pattern && row.is_path(below))
        {
            let message =
                format!("`below: {}` must name a path argument, and belongs to a pattern", below.value);
            return Err(document.error_at(below.line, below.column, &message));
        }
        arguments.extend(host_argument(&key.value, argument));
    }
    // A pattern is relative to the folder in another argument, so paths are resolved first.
    arguments.sort_by_key(|argument| matches!(argument, HostArgument::Pattern { .. }));
    Ok(arguments)
}

fn host_argument(key: &str, argument: &HostArgumentRow) -> Option<HostArgument> {
    let key = key.to_owned();
    match argument.is {
        HostArgumentKind::Path => Some(HostArgument::Path { key, default: argument.default.clone() }),
        HostArgumentKind::Pattern => Some(HostArgument::Pattern {
            key,
            base_argument: argument.below.as_ref().map(|below| below.value.clone()),
        }),
        HostArgumentKind::Patch => Some(HostArgument::Patch { key }),
        HostArgumentKind::Url | HostArgumentKind::Command => None,
    }
}
