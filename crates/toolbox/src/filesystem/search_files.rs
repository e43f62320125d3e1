//! `search_files`: files by name, lines by content, in a directory and everything below it.

use std::path::Path;
use std::time::{Duration, Instant};

use governance::Permit;
use resources::{EntryKind, Found, Next};
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
use crate::tool_entry::{Answer, ToolEntry, this_folder};

/// Entries that are looked at in one call.
const MOST_SEEN: u64 = 500_000;
/// Bytes of content that are looked through in one call.
const MOST_BYTES: u64 = 1 << 30;
/// Files with several names whose other names are looked for in one call; the next such ends it.
const MOST_LOOKED_UP: u64 = 32;
/// A search ends by itself before its deadline does, so that what it found is not lost.
const LONGEST: Duration = Duration::from_secs(15);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The directory to search, absolute or relative to the workspace.
    #[serde(default = "this_folder", rename = "path")]
    #[schemars(extend("format" = "path", "x-sinew-access" = "read", "minLength" = 1))]
    _path: String,
    /// Lines that contain this. Without it, files are found by name alone.
    #[serde(default)]
    #[schemars(extend("minLength" = 1, "maxLength" = 2048))]
    query: Option<String>,
    /// Take `query` as a regular expression.
    #[serde(default)]
    regex: bool,
    /// Whether upper and lower case differ.
    #[serde(default = "yes")]
    case_sensitive: bool,
    /// Only files whose name matches, such as `*.rs`; with a `/` the path from the directory on, such as `src/**/*.rs`.
    #[serde(default)]
    #[schemars(extend("minLength" = 1, "maxLength" = 256))]
    glob: Option<String>,
    /// Lines to show before and after each match.
    #[serde(default)]
    #[schemars(range(max = 10))]
    context: u8,
    /// Also what .gitignore and .ignore leave out.
    #[serde(default)]
    include_ignored: bool,
    /// Also names that begin with a dot.
    #[serde(default)]
    include_hidden: bool,
    /// Leave out larger files, in MiB.
    #[serde(default = "usual_size")]
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 1024))]
    max_file_size_mb: f64,
    /// At most this many results.
    #[serde(default = "usual_count")]
    #[schemars(range(min = 1, max = 1000))]
    max_results: usize,
    /// Go on after an earlier answer: its `next_cursor`, with everything else the same.
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
    /// The canonical name of the directory.
    path: String,
    /// The lines that match, where there was a query.
    matches: Vec<Match>,
    /// The files that match by name, where there was none.
    files: Vec<NamedFile>,
    /// How many files were looked into.
    searched_files: u64,
    /// What was not looked into.
    skipped: Skipped,
    /// Whether everything was looked at.
    complete: bool,
    /// Hand it in as `cursor` to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct NamedFile {
    /// The path from the directory on.
    path: String,
    /// `file`, `directory`, `symlink` or another kind.
    kind: &'static str,
    /// In bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// When the content last changed (RFC 3339).
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
    /// Files with several names (hard links) of which another is forbidden, or may be.
    several_names: u64,
    /// .gitignore and .ignore files with too many patterns or too long ones; what they leave out was looked into.
    ignore_files: u64,
}

pub(super) fn tool() -> ToolEntry {
    let about = "Search a directory and everything below it for files by name, or for lines by content. Symbolic links are \
                 not followed; what .gitignore leaves out is left out.";
    let mut spec = ToolSpec::new("search_files", about, Category::READ_ONLY, RiskLevel::Low);
    spec.annotations = Annotations::LOOKING;
    spec.example = Some(json!({"path": ".", "query": "TODO", "glob": "*.rs"}));
    ToolEntry::new(spec, search)
}

/// A search under way.
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
    /// The last result, or the last file that was looked into to its end.
    last: Option<Cursor>,
    seen: u64,
    read_bytes: u64,
    ended: Ended,
}

/// Why a search is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    NotYet,
    /// There may be more results.
    Full,
    /// There was too much to look at.
    Spent,
}

fn search(permit: &Permit, arguments: &Arguments) -> Result<Answer<Results>, Failure> {
    let directory = target(permit)?;
    if arguments.query.is_none() && arguments.glob.is_none() {
        let message = "neither query nor glob says what to search for";
        return Err(Failure::new(FailureKind::Conflict, message).hint("list_directory lists everything"));
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
    let unseen = directory.visit(&mut |found| {
        let is_shown = permit.shows(&directory.canonical().join(found.relative));
        if is_shown { search.see(found) } else { Next::Skip }
    })?;
    search.results.skipped.unreadable += unseen.unreadable.len() as u64;
    search.results.skipped.ignore_files = search.ignored.unfollowed();
    search.results.complete = search.ended == Ended::NotYet && !unseen.cut;
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

    /// Whether everything in a folder came before the place to go on from.
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
        // Lines of the file the last answer ended in that were not in it.
        let after = self.after.as_ref().map(|after| (found.relative.cmp(&after.path), after.rank));
        let after_line = match after {
            Some((std::cmp::Ordering::Less, _)) => return,
            Some((std::cmp::Ordering::Equal, line)) => line,
            Some((std::cmp::Ordering::Greater, _)) | None => 0,
        };
        // The schema bounds the number, so the conversion keeps its meaning.
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
            // To look for its other names takes time, so it is done for a few. The next call begins with this one.
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
        let looked = match query.look(reader, most, found.relative, &lines) {
            Ok(looked) => looked,
            Err(_) => {
                self.results.skipped.unreadable += 1;
                return;
            }
        };
        self.results.skipped.binary += u64::from(looked.binary);
        for each in looked.matches {
            let place = Cursor::at(each.line, found.relative);
            if !self.fits(&each) {
                return;
            }
            self.results.matches.push(each);
            self.last = Some(place);
        }
        if looked.out_of_time {
            self.ended = Ended::Spent;
        } else {
            self.last = Some(Cursor::at(u64::MAX, found.relative));
        }
    }

    /// Whether one more result may be given; if not, the search is over.
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
                Some(_) => "call again with cursor set to next_cursor, or search for less",
                None => "search a directory below, or for less",
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
