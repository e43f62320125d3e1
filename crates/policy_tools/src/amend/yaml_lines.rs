//! Finds a key in the lines of a YAML file by indentation: everything indented deeper than a key belongs to
//! it.

use std::ops::Range;

/// Key and the lines of its value.
#[derive(Debug)]
pub(super) struct YamlEntry {
    /// Line of the key, 0-based.
    pub(super) line: usize,
    /// Byte offset of the value in that line.
    pub(super) value_start: usize,
    /// Line after the last line of the value.
    pub(super) end_line: usize,
}

impl YamlEntry {
    /// Returns the text beside the key without a comment. Empty where the value is on the following lines.
    pub(super) fn value<'a>(&self, lines: &'a [String]) -> Option<&'a str> {
        let rest = lines.get(self.line)?.get(self.value_start..)?;
        let comment = if rest.trim_start().starts_with('#') { Some(0) } else { rest.find(" #") };
        Some(rest.get(..comment.unwrap_or(rest.len()))?.trim())
    }
}

/// Location of a key, or the position where it would be inserted.
pub(super) enum KeyLookup {
    Found(YamlEntry),
    Missing(InsertPosition),
}

/// Insert position for keys that do not exist yet.
pub(super) struct InsertPosition {
    line: usize,
    indent: usize,
    keys: Vec<String>,
}

impl InsertPosition {
    /// Returns the position of one more key, below the last one.
    pub(super) fn below(mut self, key: &str) -> InsertPosition {
        self.keys.push(key.to_owned());
        self
    }

    /// Inserts the keys as nested lines, with the value beside the last one.
    pub(super) fn insert(&self, lines: &mut Vec<String>, value: &str) {
        let last = self.keys.len().saturating_sub(1);
        let written = self.keys.iter().enumerate().map(|(depth, key)| {
            let indent = " ".repeat(self.indent + 2 * depth);
            if depth == last { format!("{indent}{key}: {value}") } else { format!("{indent}{key}:") }
        });
        lines.splice(self.line..self.line, written.collect::<Vec<_>>());
    }
}

impl InsertPosition {
    /// Inserts the keys as nested lines, with a list below the last one.
    pub(super) fn insert_items(&self, lines: &mut Vec<String>, items: &[(String, String)]) {
        let keys = self.keys.iter().enumerate();
        let keys = keys.map(|(depth, key)| format!("{}{key}:", " ".repeat(self.indent + 2 * depth)));
        let below = commented_items(items, self.indent + 2 * self.keys.len());
        lines.splice(self.line..self.line, keys.chain(below).collect::<Vec<_>>());
    }
}

/// Returns the lines of list items, each below its comment.
pub(super) fn commented_items(items: &[(String, String)], indent: usize) -> Vec<String> {
    let dash = " ".repeat(indent);
    items
        .iter()
        .flat_map(|(value, comment)| [format!("{dash}# {comment}"), format!("{dash}- {value}")])
        .collect()
}

/// Finds a nested key. Returns `None` where one of the outer keys has its value on the same line.
pub(super) fn find_key(lines: &[String], keys: &[String]) -> Option<KeyLookup> {
    let (mut scope, mut outer) = (0..lines.len(), None);
    for (depth, key) in keys.iter().enumerate() {
        let content = || scope.clone().filter(|at| lines.get(*at).is_some_and(|line| is_content(line)));
        let inside = content().next().and_then(|at| lines.get(at)).map(|line| indent(line));
        let known = content().filter(|at| lines.get(*at).is_some_and(|line| Some(indent(line)) == inside));
        let mut entries = known.filter_map(|at| {
            let (name, value_at) = split_key(lines.get(at)?)?;
            name.eq_ignore_ascii_case(key).then(|| YamlEntry {
                line: at,
                value_start: value_at,
                end_line: value_end(lines, at),
            })
        });
        let Some(entry) = entries.next() else {
            let at = content().next_back().map_or(scope.start, |last| last + 1);
            let indent = inside.or(outer.map(|outer: usize| outer + 2)).unwrap_or(0);
            return Some(KeyLookup::Missing(InsertPosition {
                line: at,
                indent,
                keys: keys.get(depth..)?.to_vec(),
            }));
        };
        if depth + 1 == keys.len() {
            return Some(KeyLookup::Found(entry));
        }
        if !entry.value(lines)?.is_empty() {
            return None;
        }
        outer = lines.get(entry.line).map(|line| indent(line));
        scope = entry.line + 1..entry.end_line;
    }
    None
}

/// Removes the value of `key: {}` on the first level, so that lines can be inserted below it.
pub(super) fn open_empty_mapping(lines: &mut [String], key: &str) {
    let opened = format!("{key}:");
    let is_empty = |line: &&mut String| {
        line.strip_prefix(&opened)
            .is_some_and(|rest| rest.split('#').next().unwrap_or_default().trim() == "{}")
    };
    if let Some(line) = lines.iter_mut().find(is_empty) {
        *line = line.replacen(" {}", "", 1);
    }
}

/// Returns true if the value of a key is a block mapping with the keys `add` or `remove`.
pub(super) fn is_list_change(lines: &[String], entry: &YamlEntry) -> bool {
    let below = lines.get(entry.line + 1..entry.end_line).unwrap_or_default();
    let first = below.iter().find(|line| is_content(line));
    entry.value(lines) == Some("")
        && first.and_then(|line| split_key(line)).is_some_and(|(key, _)| matches!(key, "add" | "remove"))
}

/// Returns the line ranges of the items of a block list (`- item`).
pub(super) fn list_items(lines: &[String], entry: &YamlEntry) -> Vec<Range<usize>> {
    let mut items: Vec<Range<usize>> = Vec::new();
    let mut dash = None;
    for (at, line) in lines.iter().enumerate().take(entry.end_line).skip(entry.line + 1) {
        if !is_content(line) {
            continue;
        }
        let is_item = is_list_item(line) && dash.is_none_or(|known| known == indent(line));
        match items.last_mut() {
            _ if is_item => {
                dash = Some(indent(line));
                items.push(at..at + 1);
            }
            Some(item) => item.end = at + 1,
            None => return Vec::new(),
        }
    }
    items
}

/// Returns the line after the value of `key`. A list item or a closing bracket may have the same indentation
/// as its key.
fn value_end(lines: &[String], key: usize) -> usize {
    let own = lines.get(key).map_or(0, |line| indent(line));
    let mut end = key + 1;
    for (at, line) in lines.iter().enumerate().skip(key + 1).filter(|(_, line)| is_content(line)) {
        let goes_on = is_list_item(line) || line.trim_start().starts_with([']', '}']);
        if indent(line) < own || (indent(line) == own && !goes_on) {
            break;
        }
        end = at + 1;
    }
    end
}

pub(super) fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn is_content(line: &str) -> bool {
    let text = line.trim_start();
    !text.is_empty() && !text.starts_with('#')
}

fn is_list_item(line: &str) -> bool {
    let text = line.trim();
    text == "-" || text.starts_with("- ")
}

/// Returns the key of a line and the byte offset of its value.
fn split_key(line: &str) -> Option<(&str, usize)> {
    let start = indent(line);
    let text = line.get(start..)?;
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    let (key, after) = match quote {
        Some(quote) => {
            let end = text.get(1..)?.find(quote)?;
            (text.get(1..=end)?, end + 2)
        }
        None => {
            let end = text.find(':')?;
            (text.get(..end)?, end)
        }
    };
    let rest = text.get(after..)?.strip_prefix(':')?;
    (rest.is_empty() || rest.starts_with(' ')).then_some((key, start + after + 1))
}
