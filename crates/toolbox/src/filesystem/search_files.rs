//! `search_files`: finds files by name or lines by content, in a directory and its subdirectories.

use std::path::Path;
use std::time::{Duration, Instant};

use file_access::{EntryKind, TreeEntry, VisitAction};
use governance::Permit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::definition::Annotations;
use tool::result::{Truncation, TruncationUnit, Usage};
use tool::text::path_to_text;
use tool::{Category, Failure, FailureKind, RiskLevel, ToolOutput, ToolSpec};

use super::cursor::Cursor;
use super::ignore_rules::IgnoreRules;
use super::line_search::{LineMatch, LineQuery, MatchSelection};
use super::name_pattern::NamePattern;
use super::search_workers::{OpenedFile, SearchWorkers, SearchedFile, WaitFor};
use super::{display_path, target, timestamp};
use crate::output_budget;
use crate::tool_registration::{FolderArg, ToolRegistration, TypedOutput};

/// Largest number of entries visited in one call.
const MAX_VISITED: u64 = 500_000;
/// Largest number of content bytes searched in one call.
const MAX_SEARCHED_BYTES: u64 = 1 << 30;
/// Largest number of hard-linked files whose other names are looked up in one call; the next one ends the
/// call.
const MAX_LINK_LOOKUPS: u64 = 32;
/// Longest duration of a search. It ends before the deadline of the call, so that its results are not lost.
const MAX_DURATION: Duration = Duration::from_secs(15);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Directory to search, absolute or relative to the workspace.
    #[serde(default, rename = "path")]
    _path: FolderArg,
    /// Text to find in lines. Without it, files are found by name only.
    #[serde(default)]
    #[schemars(extend("minLength" = 1, "maxLength" = 2048))]
    query: Option<String>,
    /// Treat `query` as a regular expression.
    #[serde(default)]
    regex: bool,
    /// Match upper and lower case exactly.
    #[serde(default = "yes")]
    case_sensitive: bool,
    /// Search only files whose name matches, such as `*.rs`. A glob with `/` matches the relative path:
    /// `src/**/*.rs`.
    #[serde(default)]
    #[schemars(extend("minLength" = 1, "maxLength" = 256))]
    glob: Option<String>,
    /// Number of lines to show before and after each match.
    #[serde(default)]
    #[schemars(range(max = 10))]
    context: u8,
    /// Include files excluded by .gitignore and .ignore.
    #[serde(default)]
    include_ignored: bool,
    /// Include names that begin with a dot.
    #[serde(default)]
    include_hidden: bool,
    /// Skip files larger than this, in MiB.
    #[serde(default = "usual_size")]
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 1024))]
    max_file_size_mb: f64,
    /// Maximum number of results.
    #[serde(default = "usual_count")]
    #[schemars(range(min = 1, max = 1000))]
    max_results: usize,
    /// `next_cursor` of an earlier result, to continue after it. All other arguments must be the same.
    #[serde(default)]
    #[schemars(extend("maxLength" = 8192))]
    cursor: Option<String>,
}

fn yes() -> bool {
    true
}

fn usual_size() -> f64 {
    10.0
}

fn usual_count() -> usize {
    100
}

#[derive(Serialize, JsonSchema)]
struct SearchFilesOutput {
    /// Canonical path of the directory.
    path: String,
    /// Matching lines, if there was a query.
    matches: Vec<LineMatch>,
    /// Files that match by name, if there was no query.
    files: Vec<NamedFile>,
    /// Number of files searched.
    searched_files: u64,
    /// Files that were not searched, by reason.
    skipped: SkippedFiles,
    /// True if everything was searched.
    complete: bool,
    /// Pass as `cursor` to continue.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct NamedFile {
    /// Path relative to the directory.
    path: String,
    /// `file`, `directory`, `symlink` or another kind.
    kind: &'static str,
    /// Size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// Modification time (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
}

#[derive(Default, Serialize, JsonSchema)]
struct SkippedFiles {
    /// Files that are not text.
    binary: u64,
    /// Files larger than max_file_size_mb.
    too_large: u64,
    /// Files and directories that could not be read.
    unreadable: u64,
    /// Files with several hard links, another of which is or may be forbidden.
    hard_links: u64,
    /// .gitignore and .ignore files with too many or too long patterns; the files they exclude were searched.
    ignore_files: u64,
}

pub(super) fn tool() -> ToolRegistration {
    let about = "Search a directory and its subdirectories for files by name or lines by content. Symbolic links are not \
                 followed; files excluded by .gitignore are skipped.";
    let mut spec = ToolSpec::new("search_files", about, Category::READ_ONLY, RiskLevel::Low);
    spec.annotations = Annotations::READ_ONLY;
    spec.example = Some(json!({"path": ".", "query": "TODO", "glob": "*.rs"}));
    ToolRegistration::new(spec, search)
}

/// Running search.
struct FileSearch<'a> {
    permit: &'a Permit,
    directory: &'a Path,
    link_lookups: u64,
    arguments: &'a Arguments,
    pattern: Option<NamePattern>,
    ignored: IgnoreRules,
    after: Option<Cursor>,
    deadline: Instant,
    remaining_bytes: u64,
    results: SearchFilesOutput,
    /// Last result, or last file that was searched completely.
    last: Option<Cursor>,
    visited: u64,
    read_bytes: u64,
    end: SearchEnd,
    /// No further result fits, or there was no time to search a file completely.
    is_full: bool,
}

/// Reason why a search ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SearchEnd {
    Running,
    /// The result is full; there may be more matches.
    ResultLimit,
    /// A limit on time, entries or bytes was reached.
    WorkLimit,
}

fn search(permit: &Permit, arguments: &Arguments) -> Result<TypedOutput<SearchFilesOutput>, Failure> {
    let directory = target(permit)?;
    if arguments.query.is_none() && arguments.glob.is_none() {
        let message = "neither query nor glob is given";
        return Err(
            Failure::new(FailureKind::Conflict, message).with_hint("use list_directory to list all entries")
        );
    }
    let until = Instant::now() + MAX_DURATION.min(permit.timeout().mul_f64(0.75));
    let query = match &arguments.query {
        Some(text) => {
            Some(LineQuery::new(text, arguments.regex, arguments.case_sensitive, arguments.context)?)
        }
        None => None,
    };
    let skipped = SkippedFiles::default();
    let (path, matches, files) = (display_path(directory), Vec::new(), Vec::new());
    let results = SearchFilesOutput {
        path,
        matches,
        files,
        searched_files: 0,
        skipped,
        complete: true,
        next_cursor: None,
    };
    let mut search = FileSearch {
        permit,
        directory: directory.canonical(),
        link_lookups: 0,
        arguments,
        pattern: arguments.glob.as_deref().map(NamePattern::new).transpose()?,
        ignored: IgnoreRules::for_directory(directory, arguments.include_ignored),
        after: arguments.cursor.as_deref().map(Cursor::parse).transpose()?,
        deadline: until,
        remaining_bytes: output_budget::content_budget(permit),
        results,
        last: None,
        visited: 0,
        read_bytes: 0,
        end: SearchEnd::Running,
        is_full: false,
    };
    let unvisited = std::thread::scope(|scope| {
        let most_bytes = search.max_file_bytes();
        let mut workers = query.as_ref().map(|query| SearchWorkers::start(scope, query, most_bytes));
        let unvisited = directory.visit(&mut |found| {
            let is_shown = permit.is_visible(&directory.canonical().join(found.relative));
            if is_shown { search.visit(found, workers.as_mut()) } else { VisitAction::Skip }
        });
        search.collect(workers.as_mut(), WaitFor::All);
        unvisited
    })?;
    search.results.skipped.unreadable += unvisited.unreadable.len() as u64;
    search.results.skipped.ignore_files = search.ignored.skipped_files();
    search.results.complete = search.end == SearchEnd::Running && !unvisited.truncated;
    Ok(search.into_output())
}

impl FileSearch<'_> {
    fn visit(&mut self, found: &TreeEntry<'_>, workers: Option<&mut SearchWorkers>) -> VisitAction {
        self.visited += 1;
        if self.visited > MAX_VISITED
            || self.read_bytes > MAX_SEARCHED_BYTES
            || Instant::now() > self.deadline
        {
            self.end = SearchEnd::WorkLimit;
            return VisitAction::Stop;
        }
        let hidden = found.entry.name.as_encoded_bytes().starts_with(b".");
        let is_folder = found.entry.kind == EntryKind::Directory;
        if (hidden && !self.arguments.include_hidden) || self.ignored.excludes(found, is_folder) {
            return VisitAction::Skip;
        }
        if is_folder && self.is_before_cursor(found) {
            return VisitAction::Skip;
        }
        if is_folder {
            self.ignored.enter_directory(found);
        }
        let is_named = self.pattern.as_ref().is_none_or(|pattern| pattern.matches(found.relative));
        match (workers, is_named) {
            (None, true) => self.add_file(found),
            (Some(workers), true) if found.entry.kind == EntryKind::File => self.search_file(found, workers),
            _ => {}
        }
        if self.end == SearchEnd::Running { VisitAction::Enter } else { VisitAction::Stop }
    }

    /// Returns true if everything in a directory comes before the cursor.
    fn is_before_cursor(&self, found: &TreeEntry<'_>) -> bool {
        let after = |after: &Cursor| found.relative < after.path && !after.path.starts_with(found.relative);
        self.after.as_ref().is_some_and(after)
    }

    fn add_file(&mut self, found: &TreeEntry<'_>) {
        if self.after.as_ref().is_some_and(|after| found.relative <= after.path.as_path()) {
            return;
        }
        let kind = match &found.entry.kind {
            EntryKind::File => "file",
            EntryKind::Directory => "directory",
            EntryKind::Symlink(_) => "symlink",
            EntryKind::Special(kind) => kind,
            EntryKind::Unreadable => "unreadable",
        };
        let path = path_to_text(found.relative.as_os_str()).into_owned();
        let (size, modified) = (found.entry.size, found.entry.modified.and_then(timestamp));
        let named = NamedFile { path, kind, size, modified };
        if self.reserve_space(&named) {
            self.results.files.push(named);
            self.last = Some(Cursor::new(u64::MAX, found.relative));
        }
    }

    /// Hands a file over to the threads, and collects the files that they have searched.
    fn search_file(&mut self, found: &TreeEntry<'_>, workers: &mut SearchWorkers) {
        // In the file where the previous result ended, only later lines are new.
        let after = self.after.as_ref().map(|after| (found.relative.cmp(&after.path), after.rank));
        let after_line = match after {
            Some((std::cmp::Ordering::Less, _)) => return,
            Some((std::cmp::Ordering::Equal, line)) => line,
            Some((std::cmp::Ordering::Greater, _)) | None => 0,
        };
        if found.entry.size.is_some_and(|size| size > self.max_file_bytes()) {
            self.results.skipped.too_large += 1;
            return;
        }
        let Ok(reader) = found.reader() else {
            self.results.skipped.unreadable += 1;
            return;
        };
        if reader.has_several_names() {
            // Looking up the other hard links takes time, so the number is limited. The next call starts with
            // this file.
            if self.link_lookups >= MAX_LINK_LOOKUPS {
                self.end = SearchEnd::WorkLimit;
                return;
            }
            self.link_lookups += 1;
            if !self.permit.is_content_visible(&self.directory.join(found.relative), &reader) {
                self.results.skipped.hard_links += 1;
                // Files that are still being searched come first.
                if workers.is_idle() {
                    self.last = Some(Cursor::new(u64::MAX, found.relative));
                }
                return;
            }
        }
        let remaining = self.arguments.max_results - self.results.matches.len();
        let lines = MatchSelection { after_line, max_matches: remaining + 1, deadline: self.deadline };
        let (relative, size) = (found.relative.to_owned(), found.entry.size.unwrap_or(0));
        workers.send(OpenedFile { relative, reader, size, lines });
        self.collect(Some(workers), WaitFor::Room);
    }

    /// Adds the results of searched files, in the order of the walk.
    fn collect(&mut self, workers: Option<&mut SearchWorkers>, wait: WaitFor) {
        let Some(workers) = workers else { return };
        while !self.is_full
            && let Some(file) = workers.next(wait)
        {
            self.add_matches(file);
        }
    }

    fn add_matches(&mut self, file: SearchedFile) {
        self.results.searched_files += 1;
        self.read_bytes += file.size.min(self.max_file_bytes());
        let file_matches = match file.matches {
            Ok(file_matches) => file_matches,
            Err(_) => {
                self.results.skipped.unreadable += 1;
                return;
            }
        };
        self.results.skipped.binary += u64::from(file_matches.binary);
        for each in file_matches.matches {
            let position = Cursor::new(each.line, &file.relative);
            if !self.reserve_space(&each) {
                return;
            }
            self.results.matches.push(each);
            self.last = Some(position);
        }
        if file_matches.out_of_time {
            (self.end, self.is_full) = (SearchEnd::WorkLimit, true);
        } else {
            self.last = Some(Cursor::new(u64::MAX, &file.relative));
        }
    }

    fn max_file_bytes(&self) -> u64 {
        // The schema bounds the number, so the conversion does not overflow.
        (self.arguments.max_file_size_mb * 1024.0 * 1024.0) as u64
    }

    /// Returns true and reserves space if one more result fits; otherwise the search ends.
    fn reserve_space(&mut self, result: &impl Serialize) -> bool {
        let count = self.results.matches.len() + self.results.files.len();
        let cost = serde_json::to_string(result).map_or(u64::MAX, |text| text.len() as u64 + 1);
        match self.remaining_bytes.checked_sub(cost).filter(|_| count < self.arguments.max_results) {
            Some(rest) => self.remaining_bytes = rest,
            None => (self.end, self.is_full) = (SearchEnd::ResultLimit, true),
        }
        !self.is_full
    }

    fn into_output(mut self) -> TypedOutput<SearchFilesOutput> {
        let returned = (self.results.matches.len() + self.results.files.len()) as u64;
        let mut truncated = None;
        if self.end != SearchEnd::Running {
            self.results.next_cursor = self.last.as_ref().map(Cursor::to_string);
            let how = match self.results.next_cursor {
                Some(_) => "call again with cursor set to next_cursor, or narrow the search",
                None => "search a subdirectory, or narrow the search",
            };
            truncated = Some(Truncation {
                unit: TruncationUnit::Entries,
                total: returned,
                returned,
                how_to_continue: how.to_owned(),
            });
        }
        let usage = Usage { read_bytes: self.read_bytes, ..Usage::default() };
        TypedOutput {
            value: self.results,
            metadata: ToolOutput { usage, truncated, ..ToolOutput::default() },
        }
    }
}
