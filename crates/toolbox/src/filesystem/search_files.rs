//! `search_files`: finds files by name or lines by content, in a directory and its subdirectories.

use std::path::Path;
use std::time::{Duration, Instant};

use file_access::{EntryKind, Found, Next};
use governance::Permit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{
    Annotations, Category, CutUnit, Failure, FailureKind, Output, RiskLevel, ToolSpec, Truncation, Usage,
};

use super::cursor::Cursor;
use super::ignored::Ignored;
use super::lines::{Lines, Match, Query};
use super::pattern::NamePattern;
use super::{shown, target, timestamp};
use crate::room;
use crate::tool_entry::{Answer, FolderArg, ToolEntry};

/// Largest number of entries visited in one call.
const MOST_SEEN: u64 = 500_000;
/// Largest number of content bytes searched in one call.
const MOST_BYTES: u64 = 1 << 30;
/// Largest number of hard-linked files whose other names are looked up in one call; the next one ends the
/// call.
const MOST_LOOKED_UP: u64 = 32;
/// Longest duration of a search. It ends before the deadline of the call, so that its results are not lost.
const LONGEST: Duration = Duration::from_secs(15);

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
struct Results {
    /// Canonical path of the directory.
    path: String,
    /// Matching lines, if there was a query.
    matches: Vec<Match>,
    /// Files that match by name, if there was no query.
    files: Vec<NamedFile>,
    /// Number of files searched.
    searched_files: u64,
    /// Files that were not searched, by reason.
    skipped: Skipped,
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
struct Skipped {
    /// Files that are not text.
    binary: u64,
    /// Files larger than max_file_size_mb.
    too_large: u64,
    /// Files and directories that could not be read.
    unreadable: u64,
    /// Files with several hard links, another of which is or may be forbidden.
    several_names: u64,
    /// .gitignore and .ignore files with too many or too long patterns; the files they exclude were searched.
    ignore_files: u64,
}

pub(super) fn tool() -> ToolEntry {
    let about = "Search a directory and its subdirectories for files by name or lines by content. Symbolic links are not \
                 followed; files excluded by .gitignore are skipped.";
    let mut spec = ToolSpec::new("search_files", about, Category::READ_ONLY, RiskLevel::Low);
    spec.annotations = Annotations::LOOKING;
    spec.example = Some(json!({"path": ".", "query": "TODO", "glob": "*.rs"}));
    ToolEntry::new(spec, search)
}

/// Running search.
struct Search<'a> {
    permit: &'a Permit,
    directory: &'a Path,
    looked_up: u64,
    arguments: &'a Arguments,
    pattern: Option<NamePattern>,
    query: Option<Query>,
    ignored: Ignored,
    after: Option<Cursor>,
    until: Instant,
    room: u64,
    results: Results,
    /// Last result, or last file that was searched completely.
    last: Option<Cursor>,
    seen: u64,
    read_bytes: u64,
    ended: Ended,
}

/// Reason why a search ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    NotYet,
    /// The result is full; there may be more matches.
    Full,
    /// A limit on time, entries or bytes was reached.
    Spent,
}

fn search(permit: &Permit, arguments: &Arguments) -> Result<Answer<Results>, Failure> {
    let directory = target(permit)?;
    if arguments.query.is_none() && arguments.glob.is_none() {
        let message = "neither query nor glob is given";
        return Err(
            Failure::new(FailureKind::Conflict, message).hint("use list_directory to list all entries")
        );
    }
    let until = Instant::now() + LONGEST.min(permit.timeout().mul_f64(0.75));
    let query = match &arguments.query {
        Some(text) => Some(Query::new(text, arguments.regex, arguments.case_sensitive)?),
        None => None,
    };
    let skipped = Skipped::default();
    let (path, matches, files) = (shown(directory), Vec::new(), Vec::new());
    let results =
        Results { path, matches, files, searched_files: 0, skipped, complete: true, next_cursor: None };
    let mut search = Search {
        permit,
        directory: directory.canonical(),
        looked_up: 0,
        arguments,
        pattern: arguments.glob.as_deref().map(NamePattern::new).transpose()?,
        query,
        ignored: Ignored::starting_in(directory, arguments.include_ignored),
        after: arguments.cursor.as_deref().map(Cursor::parse).transpose()?,
        until,
        room: room::for_content(permit),
        results,
        last: None,
        seen: 0,
        read_bytes: 0,
        ended: Ended::NotYet,
    };
    let unvisited = directory.visit(&mut |found| {
        let is_shown = permit.shows(&directory.canonical().join(found.relative));
        if is_shown { search.see(found) } else { Next::Skip }
    })?;
    search.results.skipped.unreadable += unvisited.unreadable.len() as u64;
    search.results.skipped.ignore_files = search.ignored.unfollowed();
    search.results.complete = search.ended == Ended::NotYet && !unvisited.cut;
    Ok(search.answer())
}

impl Search<'_> {
    fn see(&mut self, found: &Found<'_>) -> Next {
        self.seen += 1;
        if self.seen > MOST_SEEN || self.read_bytes > MOST_BYTES || Instant::now() > self.until {
            self.ended = Ended::Spent;
            return Next::Stop;
        }
        let hidden = found.entry.name.as_encoded_bytes().starts_with(b".");
        let is_folder = found.entry.kind == EntryKind::Directory;
        if (hidden && !self.arguments.include_hidden) || self.ignored.leaves_out(found, is_folder) {
            return Next::Skip;
        }
        if is_folder && self.is_behind(found) {
            return Next::Skip;
        }
        if is_folder {
            self.ignored.enter(found);
        }
        let is_named = self.pattern.as_ref().is_none_or(|pattern| pattern.matches(found.relative));
        match (&self.query, is_named) {
            (None, true) => self.add_name(found),
            (Some(_), true) if found.entry.kind == EntryKind::File => self.look_into(found),
            _ => {}
        }
        if self.ended == Ended::NotYet { Next::Enter } else { Next::Stop }
    }

    /// Returns true if everything in a directory comes before the cursor.
    fn is_behind(&self, found: &Found<'_>) -> bool {
        let after = |after: &Cursor| found.relative < after.path && !after.path.starts_with(found.relative);
        self.after.as_ref().is_some_and(after)
    }

    fn add_name(&mut self, found: &Found<'_>) {
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
        let path = found.relative.to_string_lossy().into_owned();
        let (size, modified) = (found.entry.size, found.entry.modified.and_then(timestamp));
        let named = NamedFile { path, kind, size, modified };
        if self.fits(&named) {
            self.results.files.push(named);
            self.last = Some(Cursor::at(u64::MAX, found.relative));
        }
    }

    fn look_into(&mut self, found: &Found<'_>) {
        // In the file where the previous result ended, only later lines are new.
        let after = self.after.as_ref().map(|after| (found.relative.cmp(&after.path), after.rank));
        let after_line = match after {
            Some((std::cmp::Ordering::Less, _)) => return,
            Some((std::cmp::Ordering::Equal, line)) => line,
            Some((std::cmp::Ordering::Greater, _)) | None => 0,
        };
        // The schema bounds the number, so the conversion does not overflow.
        let most = (self.arguments.max_file_size_mb * 1024.0 * 1024.0) as u64;
        if found.entry.size.is_some_and(|size| size > most) {
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
            if self.looked_up >= MOST_LOOKED_UP {
                self.ended = Ended::Spent;
                return;
            }
            self.looked_up += 1;
            if !self.permit.shows_content(&self.directory.join(found.relative), &reader) {
                self.results.skipped.several_names += 1;
                self.last = Some(Cursor::at(u64::MAX, found.relative));
                return;
            }
        }
        let Some(query) = &self.query else { return };
        self.results.searched_files += 1;
        self.read_bytes += found.entry.size.unwrap_or(0).min(most);
        let left = self.arguments.max_results - self.results.matches.len();
        let lines = Lines { after_line, most: left + 1, context: self.arguments.context, until: self.until };
        let file_matches = match query.look(reader, most, found.relative, &lines) {
            Ok(file_matches) => file_matches,
            Err(_) => {
                self.results.skipped.unreadable += 1;
                return;
            }
        };
        self.results.skipped.binary += u64::from(file_matches.binary);
        for each in file_matches.matches {
            let position = Cursor::at(each.line, found.relative);
            if !self.fits(&each) {
                return;
            }
            self.results.matches.push(each);
            self.last = Some(position);
        }
        if file_matches.out_of_time {
            self.ended = Ended::Spent;
        } else {
            self.last = Some(Cursor::at(u64::MAX, found.relative));
        }
    }

    /// Returns true and reserves space if one more result fits; otherwise the search ends.
    fn fits(&mut self, result: &impl Serialize) -> bool {
        let count = self.results.matches.len() + self.results.files.len();
        let cost = serde_json::to_string(result).map_or(u64::MAX, |text| text.len() as u64 + 1);
        match self.room.checked_sub(cost).filter(|_| count < self.arguments.max_results) {
            Some(rest) => self.room = rest,
            None => self.ended = Ended::Full,
        }
        self.ended == Ended::NotYet
    }

    fn answer(mut self) -> Answer<Results> {
        let returned = (self.results.matches.len() + self.results.files.len()) as u64;
        let mut truncated = None;
        if self.ended != Ended::NotYet {
            self.results.next_cursor = self.last.as_ref().map(Cursor::to_string);
            let how = match self.results.next_cursor {
                Some(_) => "call again with cursor set to next_cursor, or narrow the search",
                None => "search a subdirectory, or narrow the search",
            };
            truncated = Some(Truncation {
                unit: CutUnit::Entries,
                total: returned,
                returned,
                how_to_continue: how.to_owned(),
            });
        }
        let usage = Usage { read_bytes: self.read_bytes, ..Usage::default() };
        Answer { value: self.results, facts: Output { usage, truncated, ..Output::default() } }
    }
}
