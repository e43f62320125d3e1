//! Search for matching lines in one file, within bounds. Detects files that are not text.

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
use tool::text::path_to_text;
use tool::{Failure, FailureKind};

/// Memory limit of a compiled expression, in bytes.
const MAX_COMPILED_BYTES: usize = 4 * 1024 * 1024;
/// Memory limit for one line; a file with a longer line is not searched.
const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;
/// Characters shown of a line.
const MAX_SHOWN_CHARS: usize = 400;

/// Matching line.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LineMatch {
    /// Path relative to the directory.
    path: String,
    /// Line number, from 1.
    pub(super) line: u64,
    /// Byte offset of the match in the line, from 1.
    column: u64,
    /// Text of the line, at most 400 characters.
    text: String,
    /// Lines before it, if context was requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    before: Vec<String>,
    /// Lines after it, if context was requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<String>,
}

/// Compiled search expression.
#[derive(Debug)]
pub(super) struct LineQuery {
    matcher: RegexMatcher,
    context: u8,
}

/// Searcher of one thread, with the buffers that it uses for every file.
pub(super) struct LineSearcher {
    matcher: RegexMatcher,
    searcher: Searcher,
}

/// Selection of the matching lines to return.
pub(super) struct MatchSelection {
    /// Return only lines after this one.
    pub(super) after_line: u64,
    pub(super) max_matches: usize,
    pub(super) deadline: Instant,
}

/// Matches in one file.
#[derive(Debug, Default)]
pub(super) struct FileMatches {
    pub(super) matches: Vec<LineMatch>,
    pub(super) binary: bool,
    pub(super) out_of_time: bool,
}

impl LineQuery {
    /// Compiles an expression. Each match is shown with `context` lines before and after it.
    pub(super) fn new(text: &str, regex: bool, case_sensitive: bool, context: u8) -> Result<Self, Failure> {
        let mut builder = RegexMatcherBuilder::new();
        builder
            .case_insensitive(!case_sensitive)
            .size_limit(MAX_COMPILED_BYTES)
            .dfa_size_limit(MAX_COMPILED_BYTES);
        builder.line_terminator(Some(b'\n')).fixed_strings(!regex);
        let matcher = builder.build(text).map_err(|error| {
            let message = format!(
                "`query` is not a valid expression: {}",
                tool::text::shorten(&error.to_string(), 300)
            );
            let hint = "a match cannot span lines; set regex to false to search for the literal text";
            Failure::new(FailureKind::Conflict, message).with_hint(hint)
        })?;
        Ok(LineQuery { matcher, context })
    }
}

impl LineSearcher {
    pub(super) fn new(query: &LineQuery) -> Self {
        let context = usize::from(query.context);
        let searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_LINE_BYTES))
            .line_number(true)
            .before_context(context)
            .after_context(context)
            .build();
        LineSearcher { matcher: query.matcher.clone(), searcher }
    }

    /// Searches the first `most_bytes` bytes of a file.
    pub(super) fn search(
        &mut self,
        file: impl Read,
        most_bytes: u64,
        path: &Path,
        lines: &MatchSelection,
    ) -> io::Result<FileMatches> {
        let path = path_to_text(path.as_os_str());
        let mut found = MatchCollector {
            matcher: &self.matcher,
            lines,
            path: &path,
            before: Vec::new(),
            file_matches: FileMatches::default(),
        };
        self.searcher.search_reader(&self.matcher, file.take(most_bytes), &mut found)?;
        found.file_matches.matches.truncate(lines.max_matches);
        Ok(found.file_matches)
    }
}

struct MatchCollector<'a> {
    matcher: &'a RegexMatcher,
    lines: &'a MatchSelection,
    path: &'a str,
    before: Vec<String>,
    file_matches: FileMatches,
}

impl Sink for MatchCollector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if Instant::now() > self.lines.deadline {
            self.file_matches.out_of_time = true;
            return Ok(false);
        }
        let before = std::mem::take(&mut self.before);
        let line = found.line_number().unwrap_or(0);
        if line <= self.lines.after_line {
            return Ok(true);
        }
        let begins = self.matcher.find(found.bytes()).ok().flatten();
        let column = begins.map_or(1, |begins| begins.start() as u64 + 1);
        let (path, text) = (self.path.to_owned(), display_line(found.bytes()));
        self.file_matches.matches.push(LineMatch { path, line, column, text, before, after: Vec::new() });
        // One match more than requested is collected, so that the context after the last requested one is
        // complete.
        Ok(self.file_matches.matches.len() <= self.lines.max_matches)
    }

    fn context(&mut self, _searcher: &Searcher, found: &SinkContext<'_>) -> Result<bool, io::Error> {
        match found.kind() {
            SinkContextKind::Before => self.before.push(display_line(found.bytes())),
            SinkContextKind::After => {
                self.file_matches
                    .matches
                    .last_mut()
                    .into_iter()
                    .for_each(|last| last.after.push(display_line(found.bytes())));
            }
            SinkContextKind::Other => {}
        }
        Ok(true)
    }

    fn binary_data(&mut self, _searcher: &Searcher, _offset: u64) -> Result<bool, io::Error> {
        self.file_matches.binary = true;
        Ok(true)
    }

    fn finish(&mut self, _searcher: &Searcher, finish: &SinkFinish) -> Result<(), io::Error> {
        self.file_matches.binary |= finish.binary_byte_offset().is_some();
        if self.file_matches.binary {
            self.file_matches.matches.clear();
        }
        Ok(())
    }
}

fn display_line(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    tool::text::shorten(&String::from_utf8_lossy(line), MAX_SHOWN_CHARS).into_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn search_text(text: &[u8], query: &LineQuery, after_line: u64, most: usize) -> FileMatches {
        let until = Instant::now() + Duration::from_secs(60);
        let lines = MatchSelection { after_line, max_matches: most, deadline: until };
        LineSearcher::new(query).search(text, 1000, Path::new("f"), &lines).unwrap()
    }

    fn numbers(file_matches: &FileMatches) -> Vec<(u64, u64)> {
        file_matches.matches.iter().map(|each| (each.line, each.column)).collect()
    }

    #[test]
    fn lines_match_by_text_case_and_regex() {
        let text = b"one\nTwo two\nthree.\ntwo\r\n";
        let check = |query: &str, regex, sensitive, expect: &[(u64, u64)]| {
            let query = LineQuery::new(query, regex, sensitive, 0).unwrap();
            assert_eq!(numbers(&search_text(text, &query, 0, 10)), expect);
        };
        check("two", false, true, &[(2, 5), (4, 1)]);
        check("two", false, false, &[(2, 1), (4, 1)]);
        check("t.o", false, true, &[]);
        check("t.o", true, true, &[(2, 5), (4, 1)]);
        check("three.", false, true, &[(3, 1)]);
        check("^two$", true, true, &[]);
    }

    #[test]
    fn matches_are_paged_and_have_context() {
        let query = LineQuery::new("x", false, true, 0).unwrap();
        let text = b"a\nx1\nb\nx2\nc\nx3\n";
        assert_eq!(numbers(&search_text(text, &query, 0, 2)), [(2, 1), (4, 1)]);
        assert_eq!(numbers(&search_text(text, &query, 4, 2)), [(6, 1)]);
        let with_context = LineQuery::new("x", false, true, 1).unwrap();
        let shown = search_text(text, &with_context, 0, 10);
        assert_eq!(
            (&shown.matches[0].before, &shown.matches[0].after),
            (&vec!["a".to_owned()], &vec!["b".to_owned()])
        );
        let file_matches = search_text(text, &query, u64::MAX, 10);
        assert!(file_matches.matches.is_empty() && !file_matches.binary);
    }

    #[test]
    fn binary_files_and_oversized_queries_have_no_matches() {
        let query = LineQuery::new("x", false, true, 0).unwrap();
        let file_matches = search_text(b"x\n\0x\n", &query, 0, 10);
        assert!(file_matches.binary && file_matches.matches.is_empty());
        let long = [b"x".repeat(500), b"\n".to_vec()].concat();
        assert_eq!(search_text(&long, &query, 0, 10).matches[0].text.chars().count(), MAX_SHOWN_CHARS + 1);
        assert!(LineQuery::new("a\nb", false, true, 0).is_err(), "a match cannot span lines");
        let huge = "(a{1000}){1000}";
        assert!(
            LineQuery::new(huge, true, true, 0).unwrap_err().message.contains("is not a valid expression")
        );
    }
}
