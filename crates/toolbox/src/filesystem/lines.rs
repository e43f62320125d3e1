//! The lines of one file that match, within bounds. Files that are not text are told from those that are.

use std::io::{self, Read};
use std::path::Path;
use std::time::Instant;

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch,
};
use schemars::JsonSchema;
use serde::Serialize;
use tool::{Failure, FailureKind};

/// What a compiled expression may take.
const MOST_COMPILED: usize = 4 * 1024 * 1024;
/// A line may take so much memory; a file with a longer one is not looked into.
const LONGEST_LINE: usize = 8 * 1024 * 1024;
/// What is shown of a line, in characters.
const MOST_SHOWN: usize = 400;

/// A line that matches.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Match {
    /// The path from the directory on.
    path: String,
    /// Its number; the first is 1.
    pub(super) line: u64,
    /// Where in it the match begins, in bytes; the first is 1.
    column: u64,
    /// The line, as far as 400 characters go.
    text: String,
    /// Lines before it, where they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    before: Vec<String>,
    /// Lines after it, where they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<String>,
}

/// What to look for.
#[derive(Debug)]
pub(super) struct Query {
    matcher: RegexMatcher,
}

/// Which of the lines that match are wanted.
pub(super) struct Lines {
    /// Only those after this one.
    pub(super) after_line: u64,
    pub(super) most: usize,
    pub(super) context: u8,
    pub(super) until: Instant,
}

/// What was found in a file.
#[derive(Debug, Default)]
pub(super) struct Looked {
    pub(super) matches: Vec<Match>,
    pub(super) binary: bool,
    pub(super) out_of_time: bool,
}

impl Query {
    pub(super) fn new(text: &str, regex: bool, case_sensitive: bool) -> Result<Self, Failure> {
        let mut builder = RegexMatcherBuilder::new();
        builder.case_insensitive(!case_sensitive).size_limit(MOST_COMPILED).dfa_size_limit(MOST_COMPILED);
        builder.line_terminator(Some(b'\n')).fixed_strings(!regex);
        let matcher = builder.build(text).map_err(|error| {
            let message =
                format!("`query` cannot be searched for: {}", tool::shorten(&error.to_string(), 300));
            let hint = "lines are searched one by one; set regex to false to search for the text as it is";
            Failure::new(FailureKind::Conflict, message).hint(hint)
        })?;
        Ok(Query { matcher })
    }

    /// Looks through the first `most_bytes` bytes of a file.
    pub(super) fn look(
        &self,
        file: impl Read,
        most_bytes: u64,
        path: &Path,
        lines: &Lines,
    ) -> io::Result<Looked> {
        let context = usize::from(lines.context);
        let mut searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(LONGEST_LINE))
            .line_number(true)
            .before_context(context)
            .after_context(context)
            .build();
        let path = path.to_string_lossy();
        let mut found =
            Finder { query: self, lines, path: &path, before: Vec::new(), looked: Looked::default() };
        searcher.search_reader(&self.matcher, file.take(most_bytes), &mut found)?;
        found.looked.matches.truncate(lines.most);
        Ok(found.looked)
    }
}

struct Finder<'a> {
    query: &'a Query,
    lines: &'a Lines,
    path: &'a str,
    before: Vec<String>,
    looked: Looked,
}

impl Sink for Finder<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if Instant::now() > self.lines.until {
            self.looked.out_of_time = true;
            return Ok(false);
        }
        let before = std::mem::take(&mut self.before);
        let line = found.line_number().unwrap_or(0);
        if line <= self.lines.after_line {
            return Ok(true);
        }
        let begins = self.query.matcher.find(found.bytes()).ok().flatten();
        let column = begins.map_or(1, |begins| begins.start() as u64 + 1);
        let (path, text) = (self.path.to_owned(), shown(found.bytes()));
        self.looked.matches.push(Match { path, line, column, text, before, after: Vec::new() });
        // One more than wanted may come: then its lines after the last wanted one are there as well.
        Ok(self.looked.matches.len() <= self.lines.most)
    }

    fn context(&mut self, _searcher: &Searcher, found: &SinkContext<'_>) -> Result<bool, io::Error> {
        match found.kind() {
            SinkContextKind::Before => self.before.push(shown(found.bytes())),
            SinkContextKind::After => {
                self.looked
                    .matches
                    .last_mut()
                    .into_iter()
                    .for_each(|last| last.after.push(shown(found.bytes())));
            }
            SinkContextKind::Other => {}
        }
        Ok(true)
    }

    fn binary_data(&mut self, _searcher: &Searcher, _offset: u64) -> Result<bool, io::Error> {
        self.looked.binary = true;
        Ok(true)
    }

    fn finish(&mut self, _searcher: &Searcher, finish: &SinkFinish) -> Result<(), io::Error> {
        self.looked.binary |= finish.binary_byte_offset().is_some();
        if self.looked.binary {
            self.looked.matches.clear();
        }
        Ok(())
    }
}

fn shown(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    tool::shorten(&String::from_utf8_lossy(line), MOST_SHOWN).into_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn look(text: &[u8], query: &Query, after_line: u64, most: usize, context: u8) -> Looked {
        let until = Instant::now() + Duration::from_secs(60);
        query.look(text, 1000, Path::new("f"), &Lines { after_line, most, context, until }).unwrap()
    }

    fn numbers(looked: &Looked) -> Vec<(u64, u64)> {
        looked.matches.iter().map(|each| (each.line, each.column)).collect()
    }

    #[test]
    fn lines_are_found_as_asked() {
        let text = b"one\nTwo two\nthree.\ntwo\r\n";
        let check = |query: &str, regex, sensitive, expect: &[(u64, u64)]| {
            let query = Query::new(query, regex, sensitive).unwrap();
            assert_eq!(numbers(&look(text, &query, 0, 10, 0)), expect);
        };
        check("two", false, true, &[(2, 5), (4, 1)]);
        check("two", false, false, &[(2, 1), (4, 1)]);
        check("t.o", false, true, &[]);
        check("t.o", true, true, &[(2, 5), (4, 1)]);
        check("three.", false, true, &[(3, 1)]);
        check("^two$", true, true, &[]);
    }

    #[test]
    fn pages_and_context() {
        let query = Query::new("x", false, true).unwrap();
        let text = b"a\nx1\nb\nx2\nc\nx3\n";
        assert_eq!(numbers(&look(text, &query, 0, 2, 0)), [(2, 1), (4, 1)]);
        assert_eq!(numbers(&look(text, &query, 4, 2, 0)), [(6, 1)]);
        let shown = look(text, &query, 0, 10, 1);
        assert_eq!(
            (&shown.matches[0].before, &shown.matches[0].after),
            (&vec!["a".to_owned()], &vec!["b".to_owned()])
        );
        let looked = look(text, &query, u64::MAX, 10, 0);
        assert!(looked.matches.is_empty() && !looked.binary);
    }

    #[test]
    fn what_is_not_text_and_what_is_too_long_gives_nothing() {
        let query = Query::new("x", false, true).unwrap();
        let looked = look(b"x\n\0x\n", &query, 0, 10, 0);
        assert!(looked.binary && looked.matches.is_empty());
        let long = [b"x".repeat(500), b"\n".to_vec()].concat();
        assert_eq!(look(&long, &query, 0, 10, 0).matches[0].text.chars().count(), MOST_SHOWN + 1);
        assert!(Query::new("a\nb", false, true).is_err(), "lines are searched one by one");
        let huge = "(a{1000}){1000}";
        assert!(Query::new(huge, true, true).unwrap_err().message.contains("cannot be searched for"));
    }
}
