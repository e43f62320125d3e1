//! Error in a document: structured data, and its text form for people.

use std::fmt;

/// Characters shown on each side of the column, so that a line of a megabyte does not fill a terminal.
const EXCERPT_MARGIN: usize = 60;

/// Error in a document, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentError {
    /// File name, as shown to the operator.
    pub file: String,
    /// Line number from 1; 0 for the file as a whole.
    pub line: u64,
    /// Column number from 1, in characters; 0 for the file as a whole.
    pub column: u64,
    /// Description of the error.
    pub message: String,
    /// Source line with a caret under the column; empty if there is no line.
    pub excerpt: String,
    /// Probable intention, or what to do.
    pub suggestion: Option<String>,
}

impl DocumentError {
    /// Creates an error about a file as a whole.
    pub fn for_file(file: &str, message: &str) -> Self {
        DocumentError {
            file: printable(file),
            line: 0,
            column: 0,
            message: printable(message),
            excerpt: String::new(),
            suggestion: None,
        }
    }

    /// Adds a suggestion.
    pub fn with_suggestion(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }

    /// Removes all content of the file from the error except the words in `known`. The file may contain a
    /// secret where the reference to a secret belongs.
    pub fn without_source(mut self, known: &[&str]) -> Self {
        self.excerpt.clear();
        let mut end = 0;
        while let Some((before, rest)) = self.message.get(end..).and_then(|rest| rest.split_once(['`', '"']))
        {
            let word = rest.split(['`', '"']).next().unwrap_or_default();
            if !known.contains(&word) {
                let length = end + before.len();
                self.message.truncate(length);
                self.message.push_str("[not shown]");
                self.suggestion = None;
                break;
            }
            end += before.len() + word.len() + 2;
        }
        self
    }

    pub(crate) fn at_position(file: &str, text: &str, line: u64, column: u64, message: &str) -> Self {
        let excerpt = excerpt(text, line, column);
        DocumentError { line, column, excerpt, ..Self::for_file(file, message) }
    }
}

impl std::error::Error for DocumentError {}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message)?,
            line => write!(f, "{}:{line}:{}: {}", self.file, self.column, self.message)?,
        }
        if !self.excerpt.is_empty() {
            write!(f, "\n{}", self.excerpt)?;
        }
        match &self.suggestion {
            Some(suggestion) => write!(f, "\n  help: {suggestion}"),
            None => Ok(()),
        }
    }
}

/// Returns the line and a caret, cut to the surroundings of the column.
fn excerpt(text: &str, line: u64, column: u64) -> String {
    let Some(index) = line.checked_sub(1).and_then(|index| usize::try_from(index).ok()) else {
        return String::new();
    };
    let Some(source) = text.lines().nth(index) else { return String::new() };
    let column = usize::try_from(column.saturating_sub(1)).unwrap_or(0);
    let start = column.saturating_sub(EXCERPT_MARGIN);
    // One replacement per character keeps the caret aligned; escapes would shift it.
    let shown: String = source.chars().skip(start).take(2 * EXCERPT_MARGIN).map(printable_char).collect();
    let number = line.to_string();
    let gutter = " ".repeat(number.len());
    let caret = " ".repeat(column - start);
    format!(" {number} | {}\n {gutter} | {caret}^", shown.trim_end())
}

fn printable_char(c: char) -> char {
    match c {
        '\t' => ' ',
        c if tool::text::is_invisible(c) => '\u{fffd}',
        c => c,
    }
}

/// Escapes control and invisible characters, because the file may contain any text and the error is shown on a
/// terminal.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if tool::text::is_invisible(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_displays_position_excerpt_and_help() {
        let error =
            DocumentError::at_position("a.yaml", "x: 1\nforbiden: 2\n", 2, 1, "unknown key `forbiden`")
                .with_suggestion("did you mean `forbidden`?");
        let expect =
            "a.yaml:2:1: unknown key `forbiden`\n 2 | forbiden: 2\n   | ^\n  help: did you mean `forbidden`?";
        assert_eq!(error.to_string(), expect);
        assert_eq!(DocumentError::for_file("a.yaml", "does not exist").to_string(), "a.yaml: does not exist");
    }

    #[test]
    fn possible_secrets_are_not_quoted() {
        let check = |message: &str, expect: &str| {
            let error =
                DocumentError::at_position("a.yaml", "key: abc-1\n", 1, 1, message).with_suggestion("abc-1");
            let shown = error.without_source(&["key", "host"]);
            assert_eq!((shown.message.as_str(), shown.excerpt.as_str()), (expect, ""));
            assert_eq!(shown.suggestion.is_some(), message == expect);
        };
        check("the key `host` is missing", "the key `host` is missing");
        check("unknown key `key`", "unknown key `key`");
        check("unknown key `abc-1`", "unknown key [not shown]");
        check("expected a, found string \"abc`-`1\"", "expected a, found string [not shown]");
        check("`key` has `abc-1` and `host`", "`key` has [not shown]");
    }

    #[test]
    fn long_and_hostile_lines_are_cut_and_escaped() {
        let text = format!("{}\u{1b}[2J{}", "a".repeat(5000), "b".repeat(5000));
        let error = DocumentError::at_position("f", &text, 1, 5001, "here \u{202e}\u{1b}[2J");
        assert!(error.to_string().len() < 400, "{error}");
        let lines: Vec<&str> = error.excerpt.lines().collect();
        assert_eq!(lines[0].chars().position(|c| c == '\u{fffd}'), lines[1].find('^'), "{}", error.excerpt);
        assert!(!error.to_string().contains(['\u{1b}', '\u{202e}']));
    }
}
