//! Edits YAML flow lists (`[a, "b, c"]`) that span one or more lines, character by character.

use std::ops::Range;

use super::yaml_lines::YamlEntry;

/// Flow list and the positions of its items in a text.
pub(super) struct FlowList<'a> {
    text: &'a str,
    /// Line number of the first line of `text`, 1-based.
    first_line: usize,
    open_bracket: usize,
    items: Vec<Range<usize>>,
}

/// Replaces the lines of an entry by the result of `change`.
pub(super) fn edit_flow_list(
    lines: &mut Vec<String>,
    entry: &YamlEntry,
    change: impl FnOnce(&FlowList<'_>) -> Option<String>,
) -> Option<()> {
    let text = lines.get(entry.line..entry.end_line)?.join("\n");
    let list = FlowList::parse(&text, entry)?;
    let changed = change(&list)?;
    lines.splice(entry.line..entry.end_line, changed.lines().map(str::to_owned));
    Some(())
}

impl<'a> FlowList<'a> {
    fn parse(text: &'a str, entry: &YamlEntry) -> Option<Self> {
        let open = entry.value_start + text.get(entry.value_start..)?.find('[')?;
        let mut list = FlowList { text, first_line: entry.line + 1, open_bracket: open, items: Vec::new() };
        let mut item: Option<Range<usize>> = None;
        let (mut depth, mut quote, mut escaped, mut before) = (0_usize, None, false, ' ');
        let mut comment = false;
        for (at, c) in text.char_indices().skip_while(|(at, _)| *at < open) {
            let here = at..at + c.len_utf8();
            match (quote, c) {
                _ if comment => comment = c != '\n',
                (Some('"'), _) if escaped => escaped = false,
                (Some('"'), '\\') => escaped = true,
                (Some(mark), c) if c == mark => quote = None,
                (Some(_), _) => {}
                (None, '#') if before.is_whitespace() => comment = true,
                (None, '"' | '\'') if !before.is_alphanumeric() => quote = Some(c),
                (None, '[' | '{') => depth += 1,
                (None, ']' | '}') => depth = depth.checked_sub(1)?,
                (None, _) => {}
            }
            if depth == 0 && quote.is_none() && !comment {
                list.items.extend(item);
                // Only a comment may follow the list on its last line.
                let rest = text.get(here.end..)?.trim_start();
                return (rest.is_empty() || rest.starts_with('#')).then_some(list);
            }
            let splits = c == ',' && depth == 1 && quote.is_none();
            if splits {
                list.items.extend(item.take());
            } else if at > open && !c.is_whitespace() && !comment {
                item = Some(item.map_or(here.clone(), |item| item.start..here.end));
            }
            before = c;
        }
        None
    }

    /// Returns the text with one more item.
    pub(super) fn with_item(&self, value: &str) -> Option<String> {
        let mut text = self.text.to_owned();
        match self.items.last() {
            Some(last) => text.insert_str(last.end, &format!(", {value}")),
            None => text.insert_str(self.open_bracket + 1, value),
        }
        Some(text)
    }

    /// Returns the text without the item on `line`. `item_text` selects one of several items on that line.
    pub(super) fn without_item(&self, line: usize, item_text: &str) -> Option<String> {
        let on_line = |item: &Range<usize>| {
            let above = self.text.get(..item.start).map_or(0, |text| text.matches('\n').count());
            self.first_line + above == line
        };
        let here: Vec<usize> =
            (0..self.items.len()).filter(|at| self.items.get(*at).is_some_and(on_line)).collect();
        let has_text = |at: &&usize| {
            let text = self.items.get(**at).and_then(|item| self.text.get(item.clone())).unwrap_or_default();
            text.trim_matches(['"', '\'']) == item_text
        };
        let removed = match here.as_slice() {
            [only] => *only,
            several => *several.iter().find(has_text)?,
        };
        let item = self.items.get(removed)?;
        let cut =
            match (self.items.get(removed + 1), removed.checked_sub(1).and_then(|at| self.items.get(at))) {
                (Some(next), _) => item.start..next.start,
                (None, Some(previous)) => previous.end..item.end,
                (None, None) => item.clone(),
            };
        let mut text = self.text.to_owned();
        text.replace_range(cut, "");
        Some(text)
    }
}
