//! Commands of a manifest, from every key that lists them: `commands`, `tools` of version 1.0 files, `command_groups` of
//! command-line programs, or else the commands that validators and examples name.

use strict_yaml::{YamlNode, YamlNodeKind};

use super::{entry_mut, ignore, items_mut, mapping_at, named_entries, parameters, put, remove, text_at};
use crate::diagnostic_collector::{DiagnosticCollector, FieldPosition};

/// Keys of a group entry that describe a command and do not list one.
const NOTE_KEYS: [&str; 11] = [
    "description",
    "usage",
    "common_flags",
    "flags",
    "examples",
    "example",
    "notes",
    "note",
    "purpose",
    "output",
    "tips",
];
/// Keys that name a command.
const NAME_KEYS: [&str; 4] = ["name", "id", "command", "tool"];
/// Maximum number of words of a command that a group lists, the program included.
const MAX_COMMAND_WORDS: usize = 4;

/// Collects the commands below `commands`.
pub(super) fn convert(tool: &mut YamlNode, findings: &mut DiagnosticCollector<'_>) {
    let mut listed = match remove(tool, "commands") {
        Some(node) => listed_commands(node),
        None => ListedCommands { list: None, entries: Vec::new() },
    };
    if let Some(tools) = remove(tool, "tools") {
        match &tools.kind {
            YamlNodeKind::List(_) | YamlNodeKind::Mapping(_) => {
                let at = FieldPosition::node(&tools, "tool.tools");
                let entries = command_entries(tools.clone());
                if entries.iter().any(|entry| name_of(entry).is_none()) {
                    ignore(findings, at, "an entry without a name is ignored");
                }
                listed.add_new(entries.into_iter().filter_map(from_tool).collect());
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
    if listed.entries.is_empty() && listed.is_readable() {
        listed.add_new(referenced_commands(tool));
    }
    if let Some(node) = listed.into_node(tool) {
        put(tool, "commands", node);
    }
    for (index, command) in items_mut(entry_mut(tool, "commands")).enumerate() {
        parameters::convert(command, &format!("tool.commands[{index}]"), findings);
    }
}

/// Commands of `commands`, with the node that lists them.
struct ListedCommands {
    list: Option<YamlNode>,
    entries: Vec<YamlNode>,
}

impl ListedCommands {
    /// Returns false for `commands` of a kind that the schema check reports.
    fn is_readable(&self) -> bool {
        self.list.as_ref().is_none_or(|list| matches!(list.kind, YamlNodeKind::List(_)))
    }

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
        YamlNodeKind::List(_) | YamlNodeKind::Mapping(_) => {
            ListedCommands { list: Some(empty), entries: command_entries(node) }
        }
        _ => ListedCommands { list: Some(node), entries: Vec::new() },
    }
}

/// Returns the entries of a list, of a mapping by name, or of groups of lists, each with its name below `name`.
fn command_entries(node: YamlNode) -> Vec<YamlNode> {
    let is_group = |value: &YamlNode| matches!(value.kind, YamlNodeKind::List(_));
    let entries = match node.kind {
        YamlNodeKind::Mapping(groups) if groups.iter().any(|(_, value)| is_group(value)) => {
            let flat = |(key, value): (strict_yaml::Located<String>, YamlNode)| match is_group(&value) {
                true => named_entries(value, "name"),
                false => {
                    let (line, column) = (key.line, key.column);
                    named_entries(
                        YamlNode { line, column, kind: YamlNodeKind::Mapping(vec![(key, value)]) },
                        "name",
                    )
                }
            };
            groups.into_iter().flat_map(flat).collect()
        }
        _ => named_entries(node, "name"),
    };
    entries.into_iter().map(with_name).collect()
}

/// Gives an entry its `name`: from another key that names it, or from its only key, as in `NAME: DESCRIPTION`.
fn with_name(mut entry: YamlNode) -> YamlNode {
    if entry.text().is_some() || entry.get("name").is_some() {
        return entry;
    }
    let stated = NAME_KEYS.into_iter().find(|key| entry.get(key).is_some_and(|name| name.text().is_some()));
    if let Some(name) = stated.and_then(|key| remove(&mut entry, key)) {
        put(&mut entry, "name", name);
        return entry;
    }
    match entry.entries() {
        [_] => {
            let at = entry.clone();
            named_entries(entry, "name").pop().unwrap_or(at)
        }
        _ => entry,
    }
}

fn name_of(entry: &YamlNode) -> Option<&str> {
    entry.text().or_else(|| entry.get("name").and_then(YamlNode::text))
}

/// Converts an entry of `tools`. Its other keys are notes.
fn from_tool(mut entry: YamlNode) -> Option<YamlNode> {
    if entry.text().is_some() {
        return Some(entry);
    }
    let name = text_at(&entry, name_of(&entry)?);
    let mut command = mapping_at(&entry, vec![("name", name)]);
    for key in ["description", "parameters", "input_schema"] {
        if let Some(value) = remove(&mut entry, key) {
            put(&mut command, key, value);
        }
    }
    Some(command)
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
        YamlNodeKind::Text(lines) => {
            found.extend(lines.lines().filter_map(|line| command_of_line(node, line, None, programs)));
        }
        YamlNodeKind::Mapping(_) if stated.is_some() => {
            let description = node.get("description").filter(|node| node.text().is_some());
            found.extend(command_of_line(node, stated.unwrap_or_default(), description, programs));
        }
        YamlNodeKind::Mapping(entries) => {
            let listing = entries.iter().filter(|(key, _)| !NOTE_KEYS.contains(&key.value.as_str()));
            listing.for_each(|(_, value)| collect_lines(value, programs, found));
        }
        YamlNodeKind::List(items) => items.iter().for_each(|item| collect_lines(item, programs, found)),
        YamlNodeKind::Number(..) | YamlNodeKind::Boolean(_) | YamlNodeKind::Null => {}
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
    let mut tokens = line.split_whitespace();
    let program = tokens.next().filter(|word| programs.iter().any(|program| program == word))?;
    let is_plain = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_:".contains(c))
    };
    let tokens = tokens.take_while(is_plain).take(MAX_COMMAND_WORDS - 1);
    let name = std::iter::once(program).chain(tokens).collect::<Vec<_>>().join(" ");
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
    let has = |item: &YamlNode, key: &str| item.get(key).is_some();
    let is_call = |item: &YamlNode| has(item, "scenario") || has(item, "input");
    let is_command = |list: &YamlNode| {
        let calls = list.items().iter().any(is_call) || is_call(list);
        calls && !list.items().iter().any(|item| has(item, "step"))
    };
    let shown = examples.filter(|(_, list)| is_command(list)).map(|(key, _)| YamlNode {
        line: key.line,
        column: key.column,
        kind: YamlNodeKind::Text(key.value.clone()),
    });
    let is_name = |node: &YamlNode| node.text().is_some_and(|text| text.contains(char::is_alphanumeric));
    validated.chain(shown).filter(is_name).collect()
}
