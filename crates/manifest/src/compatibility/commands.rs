//! Commands of a manifest, wherever it lists them: `commands`, `tools` of version 1.0 files, `command_groups` of
//! command-line programs, or else the commands that validators and examples name.

use strict_yaml::{YamlNode, YamlNodeKind};

use super::{entry_mut, ignore, items_mut, mapping_at, put, remove, text_at};
use crate::diagnostic_collector::{DiagnosticCollector, FieldPosition};

/// Keys of a group entry that describe a command and do not list one.
const NOTE_KEYS: [&str; 7] =
    ["description", "usage", "common_flags", "flags", "examples", "example", "notes"];
/// JSON types that a described parameter may state.
const JSON_TYPES: [&str; 6] = ["string", "number", "integer", "boolean", "array", "object"];
/// Maximum number of words of a command that a group lists, the program included.
const MAX_COMMAND_WORDS: usize = 4;

/// Collects the commands below `commands`.
pub(super) fn convert(tool: &mut YamlNode, findings: &mut DiagnosticCollector<'_>) {
    let mut listed = match remove(tool, "commands") {
        Some(node) => listed_commands(node),
        None => ListedCommands { list: None, entries: Vec::new() },
    };
    if let Some(tools) = remove(tool, "tools") {
        match tools.kind {
            YamlNodeKind::List(_) | YamlNodeKind::Mapping(_) => {
                listed.entries.extend(named_entries(tools).into_iter().filter_map(from_tool))
            }
            _ => ignore(findings, FieldPosition::node(&tools, "tool.tools"), "`tools` is not a list"),
        }
    }
    if let Some(groups) = remove(tool, "command_groups") {
        let programs = programs(tool);
        let mut found = Vec::new();
        collect_lines(&groups, &programs, &mut found);
        if found.is_empty() {
            let message = "`command_groups` has no line that begins with the `executable`";
            ignore(findings, FieldPosition::node(&groups, "tool.command_groups"), message);
        }
        listed.add_new(found);
    }
    if listed.entries.is_empty() && listed.list.is_none() {
        listed.add_new(referenced_commands(tool));
    }
    if let Some(node) = listed.into_node(tool) {
        put(tool, "commands", node);
    }
    for command in items_mut(entry_mut(tool, "commands")) {
        convert_parameters(command);
    }
}

/// Commands of `commands`, with the node that lists them.
struct ListedCommands {
    list: Option<YamlNode>,
    entries: Vec<YamlNode>,
}

impl ListedCommands {
    /// Adds the commands whose names are new.
    fn add_new(&mut self, found: Vec<YamlNode>) {
        for entry in found {
            if !self.entries.iter().any(|known| name_of(known) == name_of(&entry)) {
                self.entries.push(entry);
            }
        }
    }

    fn into_node(self, tool: &YamlNode) -> Option<YamlNode> {
        match self.list {
            Some(node) if !matches!(node.kind, YamlNodeKind::List(_)) => Some(node),
            Some(node) => Some(YamlNode { kind: YamlNodeKind::List(self.entries), ..node }),
            None if self.entries.is_empty() => None,
            None => {
                let at = self.entries.first().unwrap_or(tool);
                let (line, column) = (at.line, at.column);
                Some(YamlNode { line, column, kind: YamlNodeKind::List(self.entries) })
            }
        }
    }
}

/// Reads `commands` as a list, or as a mapping from names to declarations. Another kind is left for the schema
/// check.
fn listed_commands(node: YamlNode) -> ListedCommands {
    let empty = YamlNode { line: node.line, column: node.column, kind: YamlNodeKind::List(Vec::new()) };
    match node.kind {
        YamlNodeKind::List(entries) => ListedCommands { list: Some(empty), entries },
        YamlNodeKind::Mapping(_) => ListedCommands { list: Some(empty), entries: named_entries(node) },
        _ => ListedCommands { list: Some(node), entries: Vec::new() },
    }
}

/// Returns the items of a list, or the values of a mapping with their keys as `name`.
fn named_entries(node: YamlNode) -> Vec<YamlNode> {
    match node.kind {
        YamlNodeKind::List(items) => items,
        YamlNodeKind::Mapping(entries) => {
            let named = |(key, value): (strict_yaml::Located<String>, YamlNode)| {
                let mut entry = match value.kind {
                    YamlNodeKind::Mapping(_) => value,
                    YamlNodeKind::Text(_) => mapping_at(&value.clone(), vec![("description", value)]),
                    _ => mapping_at(&value, Vec::new()),
                };
                let name =
                    YamlNode { line: key.line, column: key.column, kind: YamlNodeKind::Text(key.value) };
                if name_of(&entry).is_none() {
                    put(&mut entry, "name", name);
                }
                entry
            };
            entries.into_iter().map(named).collect()
        }
        _ => Vec::new(),
    }
}

fn name_of(entry: &YamlNode) -> Option<&str> {
    entry.text().or_else(|| entry.get("name").or_else(|| entry.get("id")).and_then(YamlNode::text))
}

/// Converts an entry of `tools`. Its other keys are notes.
fn from_tool(mut entry: YamlNode) -> Option<YamlNode> {
    if entry.text().is_some() {
        return Some(entry);
    }
    let name = text_at(&entry, name_of(&entry)?);
    let mut command = mapping_at(&entry, vec![("name", name)]);
    for key in ["description", "parameters"] {
        if let Some(value) = remove(&mut entry, key) {
            put(&mut command, key, value);
        }
    }
    Some(command)
}

/// Converts `parameters` that name and describe the arguments, without a schema, into an open `input_schema`. A
/// description does not make an argument required.
fn convert_parameters(command: &mut YamlNode) {
    let is_declared = |item: &YamlNode| item.get("name").is_some();
    let Some(parameters) = command.get("parameters") else { return };
    let described: Vec<(String, YamlNode)> = match &parameters.kind {
        YamlNodeKind::List(items) if items.iter().any(is_declared) => return,
        YamlNodeKind::List(items) => items.iter().flat_map(described_arguments).collect(),
        YamlNodeKind::Mapping(_) => described_arguments(parameters),
        _ => return,
    };
    let is_empty_list = parameters.items().is_empty() && parameters.entries().is_empty();
    let Some(parameters) = (if is_empty_list { None } else { remove(command, "parameters") }) else { return };
    let mut required = Vec::new();
    let mut properties = Vec::new();
    for (name, value) in &described {
        if value.get("required").is_some_and(|node| node.kind == YamlNodeKind::Boolean(true)) {
            required.push(text_at(value, name));
        }
        properties.push((name.as_str(), property_of(value)));
    }
    let mut schema = mapping_at(
        &parameters,
        vec![("type", text_at(&parameters, "object")), ("properties", mapping_at(&parameters, properties))],
    );
    if !required.is_empty() {
        let (line, column) = (parameters.line, parameters.column);
        put(&mut schema, "required", YamlNode { line, column, kind: YamlNodeKind::List(required) });
    }
    put(command, "input_schema", schema);
}

/// Returns the arguments that an item describes: `name: description`, `name: {…}`, or only `name`.
fn described_arguments(item: &YamlNode) -> Vec<(String, YamlNode)> {
    match &item.kind {
        YamlNodeKind::Text(name) => vec![(name.clone(), mapping_at(item, Vec::new()))],
        _ => item.entries().iter().map(|(key, value)| (key.value.clone(), value.clone())).collect(),
    }
}

fn property_of(value: &YamlNode) -> YamlNode {
    let description = match value.text() {
        Some(_) => Some(value),
        None => value.get("description").filter(|node| node.text().is_some()),
    };
    let kind = value.get("type").filter(|node| node.text().is_some_and(|text| JSON_TYPES.contains(&text)));
    let mut entries = Vec::new();
    entries.extend(kind.map(|node| ("type", node.clone())));
    entries.extend(description.map(|node| ("description", node.clone())));
    mapping_at(value, entries)
}

/// Returns the programs of a command-line tool.
fn programs(tool: &YamlNode) -> Vec<String> {
    let section = tool.get("cli_specific").or_else(|| tool.get("local_specific"));
    let name = section.and_then(|section| section.get("executable")).and_then(YamlNode::text);
    name.map(|name| name.rsplit('/').next().unwrap_or(name).to_owned()).into_iter().collect()
}

/// Collects the commands of all lines that begin with one of the programs.
fn collect_lines(node: &YamlNode, programs: &[String], found: &mut Vec<YamlNode>) {
    let stated = ["command", "cmd"].iter().find_map(|key| node.get(key)?.text());
    match &node.kind {
        YamlNodeKind::Text(line) => found.extend(command_of_line(node, line, None, programs)),
        YamlNodeKind::Mapping(_) if stated.is_some() => {
            let description = node.get("description").filter(|node| node.text().is_some());
            found.extend(command_of_line(node, stated.unwrap_or_default(), description, programs));
        }
        YamlNodeKind::Mapping(entries) => {
            let listing = entries.iter().filter(|(key, _)| !NOTE_KEYS.contains(&key.value.as_str()));
            listing.for_each(|(_, value)| collect_lines(value, programs, found));
        }
        YamlNodeKind::List(items) => items.iter().for_each(|item| collect_lines(item, programs, found)),
        YamlNodeKind::Number(..) | YamlNodeKind::Boolean(_) => {}
    }
}

/// Returns the command of a line: the program and the subcommands after it, up to the first option or
/// placeholder.
fn command_of_line(
    at: &YamlNode,
    line: &str,
    description: Option<&YamlNode>,
    programs: &[String],
) -> Option<YamlNode> {
    let mut words = line.split_whitespace();
    let program = words.next().filter(|word| programs.iter().any(|program| program == word))?;
    let is_plain = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_:".contains(c))
    };
    let words = words.take_while(is_plain).take(MAX_COMMAND_WORDS - 1);
    let name = std::iter::once(program).chain(words).collect::<Vec<_>>().join(" ");
    let mut entries = vec![("name", text_at(at, &name))];
    entries.extend(description.map(|node| ("description", node.clone())));
    Some(mapping_at(at, entries))
}

/// Returns the commands that validators and examples name, for a manifest that lists none. A list of steps below
/// `examples` is not a command.
fn referenced_commands(tool: &YamlNode) -> Vec<YamlNode> {
    let validators = tool.get("executable_knowledge").and_then(|section| section.get("validators"));
    let validators = validators.map(YamlNode::items).unwrap_or_default().iter();
    let validated = validators.filter_map(|validator| validator.get("validates")).cloned();
    let examples = tool.get("examples").map(YamlNode::entries).unwrap_or_default().iter();
    let is_command = |list: &YamlNode| {
        matches!(list.kind, YamlNodeKind::List(_))
            && list.items().iter().all(|item| item.get("step").is_none())
    };
    let shown = examples.filter(|(_, list)| is_command(list)).map(|(key, _)| YamlNode {
        line: key.line,
        column: key.column,
        kind: YamlNodeKind::Text(key.value.clone()),
    });
    validated.filter(|node| node.text().is_some_and(|text| !text.trim().is_empty())).chain(shown).collect()
}
