//! Finding a key in the lines of a file, by its indentation: whatever belongs to a key stands further in than it.

use std::ops::Range;

/// A key and the lines of its value.
#[derive(Debug)]
pub(super) struct Entry {
    /// The line of the key, counted from 0.
    pub(super) line: usize,
    /// Where in that line its value begins.
    pub(super) value_at: usize,
    /// After the last line of its value.
    pub(super) end: usize,
}

impl Entry {
    /// What stands beside the key, without a comment. Empty where the value is on the lines below.
    pub(super) fn value<'a>(&self, lines: &'a [String]) -> Option<&'a str> {
        let rest = lines.get(self.line)?.get(self.value_at..)?;
        let comment = if rest.trim_start().starts_with('#') { Some(0) } else { rest.find(" #") };
        Some(rest.get(..comment.unwrap_or(rest.len()))?.trim())
    }
}

/// Where a key is, or where it would have to stand.
pub(super) enum Found {
    Here(Entry),
    Absent(Place),
}

/// Where keys that are not there would have to stand.
pub(super) struct Place {
    at: usize,
    indent: usize,
    keys: Vec<String>,
}

impl Place {
    /// Writes the keys, one below the other, and the value beside the last.
    pub(super) fn insert(&self, lines: &mut Vec<String>, value: &str) {
        let last = self.keys.len().saturating_sub(1);
        let written = self.keys.iter().enumerate().map(|(depth, key)| {
            let indent = " ".repeat(self.indent + 2 * depth);
            if depth == last { format!("{indent}{key}: {value}") } else { format!("{indent}{key}:") }
        });
        lines.splice(self.at..self.at, written.collect::<Vec<_>>());
    }
}

/// Looks for a key inside a key inside a key. `None` where one of them is not written over lines of its own.
pub(super) fn find(lines: &[String], keys: &[String]) -> Option<Found> {
    let (mut scope, mut outer) = (0..lines.len(), None);
    for (depth, key) in keys.iter().enumerate() {
        let content = || scope.clone().filter(|at| lines.get(*at).is_some_and(|line| is_content(line)));
        let inside = content().next().and_then(|at| lines.get(at)).map(|line| indent(line));
        let known = content().filter(|at| lines.get(*at).is_some_and(|line| Some(indent(line)) == inside));
        let mut entries = known.filter_map(|at| {
            let (name, value_at) = key_of(lines.get(at)?)?;
            name.eq_ignore_ascii_case(key).then(|| Entry { line: at, value_at, end: end_of(lines, at) })
        });
        let Some(entry) = entries.next() else {
            let at = content().next_back().map_or(scope.start, |last| last + 1);
            let indent = inside.or(outer.map(|outer: usize| outer + 2)).unwrap_or(0);
            return Some(Found::Absent(Place { at, indent, keys: keys.get(depth..)?.to_vec() }));
        };
        if depth + 1 == keys.len() {
            return Some(Found::Here(entry));
        }
        if !entry.value(lines)?.is_empty() {
            return None;
        }
        outer = lines.get(entry.line).map(|line| indent(line));
        scope = entry.line + 1..entry.end;
    }
    None
}

/// The items of a list that has a dash a line, each with the lines that belong to it.
pub(super) fn items(lines: &[String], entry: &Entry) -> Vec<Range<usize>> {
    let mut items: Vec<Range<usize>> = Vec::new();
    let mut dash = None;
    for (at, line) in lines.iter().enumerate().take(entry.end).skip(entry.line + 1) {
        if !is_content(line) {
            continue;
        }
        let is_item = is_dash(line) && dash.is_none_or(|known| known == indent(line));
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

/// After the last line that stands further in than the key; a list may begin, and a bracket end, right below it.
fn end_of(lines: &[String], key: usize) -> usize {
    let own = lines.get(key).map_or(0, |line| indent(line));
    let mut end = key + 1;
    for (at, line) in lines.iter().enumerate().skip(key + 1).filter(|(_, line)| is_content(line)) {
        let goes_on = is_dash(line) || line.trim_start().starts_with([']', '}']);
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

fn is_dash(line: &str) -> bool {
    let text = line.trim();
    text == "-" || text.starts_with("- ")
}

/// The key of a line, and where its value begins.
fn key_of(line: &str) -> Option<(&str, usize)> {
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
