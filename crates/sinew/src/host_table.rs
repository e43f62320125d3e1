//! The tables in `config/hosts/`: how the tools of other programs look to our rules. Read and checked like every file
//! of the configuration; where none was written, the built-in one holds.

mod file;
#[cfg(test)]
mod tests;

use std::path::Path;

use document::{Document, DocumentError, Located};
use execution::{Below, Host, HostArgument, HostTool, HostToolName, JudgedTool};
use serde_json::{Map, Value, json};
use tool::{Category, ToolSpec};

use self::file::{ArgumentKind, ArgumentRow, ToolRow};
use crate::compose::is_there;
use crate::exit::Problem;

pub(crate) use self::file::HostFile;

/// The one host there is a table for.
pub(crate) const CLAUDE_CODE: &str = "claude-code";
/// The tables that ship with Sinew, by host.
pub(crate) const EMBEDDED: [(&str, &str); 1] =
    [(CLAUDE_CODE, include_str!("../../../config/hosts/claude-code.yaml"))];

/// How much of a table is looked at before it is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scrutiny {
    /// Every schema and example.
    Whole,
    /// What stands in the file; the schema of a tool is compiled by the call that needs it, which is refused if it
    /// cannot be.
    AsNeeded,
}

/// Every host with its table, looked at whole: the file in this folder, else the built-in one.
pub(crate) fn load(folder: &Path, user_home: Option<&Path>) -> Result<Vec<Host>, Problem> {
    load_with(folder, user_home, Scrutiny::Whole)
}

/// The same, with as much scrutiny as it needs.
pub(crate) fn load_with(
    folder: &Path,
    user_home: Option<&Path>,
    scrutiny: Scrutiny,
) -> Result<Vec<Host>, Problem> {
    let read = |(name, text): (&str, &str)| {
        let file = folder.join(format!("{name}.yaml"));
        let document = if is_there(&file)? {
            Document::read_trusted(&file)
        } else {
            Document::from_text(&format!("config/hosts/{name}.yaml"), text)
        };
        let document = document.map_err(Problem::configuration)?;
        let host = check(name, &document, scrutiny).map_err(|errors| {
            let errors: Vec<String> = errors.iter().map(DocumentError::to_string).collect();
            Problem::configuration(errors.join("\n"))
        })?;
        Ok(Host { user_home: user_home.map(Path::to_owned), ..host })
    };
    EMBEDDED.into_iter().map(read).collect()
}

/// The host that a table describes, or everything that is wrong with it.
fn check(name: &str, document: &Document, scrutiny: Scrutiny) -> Result<Host, Vec<DocumentError>> {
    let file: HostFile = document.parse().map_err(|error| vec![error])?;
    let (mut tools, mut errors) = (Vec::new(), Vec::new());
    for (key, row) in file.tools.iter() {
        match host_tool(key, row, document).and_then(|tool| looked_at(tool, key, document, scrutiny)) {
            Ok(tool) => tools.push(tool),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(Host { name: name.to_owned(), on_permit: file.on_permit, user_home: None, tools })
}

type Entry = (HostToolName, HostTool);

fn host_tool(key: &Located<String>, row: &ToolRow, document: &Document) -> Result<Entry, DocumentError> {
    let at_key = |message: &str| document.error_at(key.line, key.column, message);
    let name = tool_name(key, document)?;
    if row.decided_by.is_some() {
        if row.says_more() {
            let error =
                at_key(&format!("`{}` is decided by the daemon, so nothing else here holds", key.value));
            return Err(error.suggest("remove `decided_by`, or everything else"));
        }
        return Ok((name, HostTool::Ours));
    }
    let (Some(category), Some(risk)) = (&row.category, row.risk_level) else {
        let error = at_key(&format!("`{}` needs a `category` and a `risk_level`", key.value));
        return Err(error.suggest("category: read_only, system_write, network or execution"));
    };
    let category = Category::try_from(category.value.clone())
        .map_err(|error| document.error_at(category.line, category.column, &error.to_string()))?;
    let governed =
        row.rules_of.as_ref().map_or_else(|| key.to_ascii_lowercase(), |rules| rules.value.clone());
    let mut spec = ToolSpec::new(&governed, &format!("{} of a host", key.value), category, risk);
    spec.requires_approval = row.asks;
    spec.example = row.example.clone();
    let place = row.rules_of.as_ref().unwrap_or(key);
    let define = |commands: Commands| {
        let spec = ToolSpec { input_schema: Some(input_schema(row, commands)), ..spec.clone() };
        spec.check().map_err(|error| document.error_at(place.line, place.column, &error.to_string()))
    };
    let mut tool = JudgedTool::new(define(Commands::Texts)?, arguments(row, document)?);
    if row.arguments.iter().any(|(_, argument)| argument.is == ArgumentKind::Command) {
        tool = tool.with_commands(define(Commands::Judged)?);
    }
    if let Some(below) = below(row, document)? {
        tool = tool.showing(below);
    }
    Ok((name, HostTool::Judged(Box::new(tool))))
}

fn below(row: &ToolRow, document: &Document) -> Result<Option<Below>, DocumentError> {
    match &row.narrowed_by {
        Some(narrow) if !row.shows_below => {
            let error =
                document.error_at(narrow.line, narrow.column, "nothing is shown that could be narrowed");
            Err(error.suggest("shows_below: true"))
        }
        narrow => {
            let narrowed_by = narrow.as_ref().map(|key| key.value.clone());
            Ok(row.shows_below.then_some(Below { narrowed_by }))
        }
    }
}

fn looked_at(
    (name, tool): Entry,
    key: &Located<String>,
    document: &Document,
    scrutiny: Scrutiny,
) -> Result<Entry, DocumentError> {
    if let (HostTool::Judged(judged), Scrutiny::Whole) = (&tool, scrutiny) {
        judged.check().map_err(|error| document.error_at(key.line, key.column, &error))?;
    }
    Ok((name, tool))
}

/// What a command line is to the rules.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Commands {
    /// A text like others.
    Texts,
    /// Words that rules allow or forbid.
    Judged,
}

/// The host's own spelling; a star may stand at its end alone.
fn tool_name(key: &Located<String>, document: &Document) -> Result<HostToolName, DocumentError> {
    let (name, begins) = key.strip_suffix('*').map_or((key.as_str(), false), |start| (start, true));
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || !name.chars().all(plain) {
        let message = format!("`{}` is not the name of a tool", key.value);
        let error = document.error_at(key.line, key.column, &message);
        return Err(error.suggest("letters, digits, _, - and ., with one * at the end if it stands for many"));
    }
    Ok(if begins { HostToolName::Begins(name.to_owned()) } else { HostToolName::Is(name.to_owned()) })
}

/// Open, since hosts add arguments of their own; what is named here has its type.
fn input_schema(row: &ToolRow, commands: Commands) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (key, argument) in row.arguments.iter() {
        let access = argument.access.as_str();
        let schema = match argument.is {
            ArgumentKind::Path | ArgumentKind::Pattern => {
                json!({"type": "string", "format": "path", "x-sinew-access": access})
            }
            ArgumentKind::Url => json!({"type": "string", "format": "uri"}),
            ArgumentKind::Command => match commands {
                Commands::Texts => json!({"type": "string"}),
                Commands::Judged => json!({"type": "string", "format": "command"}),
            },
        };
        properties.insert(key.value.clone(), schema);
        if argument.default.is_none() {
            required.push(key.value.clone());
        }
    }
    json!({"type": "object", "properties": properties, "required": required})
}

fn arguments(row: &ToolRow, document: &Document) -> Result<Vec<HostArgument>, DocumentError> {
    let mut arguments = Vec::new();
    for (key, argument) in row.arguments.iter() {
        if let Some(below) = &argument.below
            && !(argument.is == ArgumentKind::Pattern && row.is_path(below))
        {
            let message =
                format!("`below: {}` must name a path argument, and belongs to a pattern", below.value);
            return Err(document.error_at(below.line, below.column, &message));
        }
        arguments.extend(host_argument(&key.value, argument));
    }
    // A pattern starts in the folder another argument names, so that one is written out first.
    arguments.sort_by_key(|argument| matches!(argument, HostArgument::Pattern { .. }));
    Ok(arguments)
}

fn host_argument(key: &str, argument: &ArgumentRow) -> Option<HostArgument> {
    let key = key.to_owned();
    match argument.is {
        ArgumentKind::Path => Some(HostArgument::Path { key, default: argument.default.clone() }),
        ArgumentKind::Pattern => Some(HostArgument::Pattern {
            key,
            below: argument.below.as_ref().map(|below| below.value.clone()),
        }),
        ArgumentKind::Url | ArgumentKind::Command => None,
    }
}
