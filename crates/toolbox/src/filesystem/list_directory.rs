//! `list_directory`: lists the entries of a directory. Symbolic links are shown, not followed.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use file_access::{DirectoryEntry, EntryKind, OpenedPath, VisitAction};
use governance::Permit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::definition::Annotations;
use tool::result::{Truncation, TruncationUnit};
use tool::text::path_to_text;
use tool::{Category, Failure, FailureKind, RiskLevel, ToolOutput, ToolSpec};

use super::cursor::Cursor;
use super::name_pattern::NamePattern;
use super::{display_path, target, timestamp};
use crate::output_budget;
use crate::tool_registration::{FolderArg, ToolRegistration, TypedOutput};

/// Largest number of entries visited in one call, because a tree can be arbitrarily large.
const MAX_VISITED: usize = 100_000;
/// Largest number of entries of a directory that is listed by name. To sort a larger one, each page would have to read
/// all of it.
const MAX_SORTED: usize = 10_000;
/// Start of a cursor that is a position in a large directory. No other cursor begins with it.
const POSITION: &str = "at.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Directory to list, absolute or relative to the workspace.
    #[serde(rename = "path")]
    _path: FolderArg,
    /// Levels to descend: 1 lists only the directory itself.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 32))]
    depth: usize,
    /// List only entries whose name matches, such as `*.rs`. A glob with `/` matches the relative path:
    /// `src/**/*.rs`.
    #[serde(default)]
    #[schemars(extend("minLength" = 1, "maxLength" = 256))]
    glob: Option<String>,
    /// Sort order. name: by path, up to 10,000 entries; size: largest first; modified: newest first.
    #[serde(default)]
    sort: ListSortKey,
    /// Maximum number of entries.
    #[serde(default = "usual_count")]
    #[schemars(range(min = 1, max = 10_000))]
    max_entries: usize,
    /// `next_cursor` of an earlier result, to continue after it. All other arguments must be the same.
    #[serde(default)]
    #[schemars(extend("maxLength" = 8192))]
    cursor: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ListSortKey {
    #[default]
    Name,
    Size,
    Modified,
}

fn one() -> usize {
    1
}

fn usual_count() -> usize {
    1000
}

#[derive(Serialize, JsonSchema)]
struct DirectoryListing {
    /// Canonical path of the directory.
    path: String,
    /// Entries, in the requested order.
    entries: Vec<ListedEntry>,
    /// Total number of entries.
    total: u64,
    /// True if every entry was visited. Otherwise `total` counts only the visited ones.
    complete: bool,
    /// Directories that could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<String>,
    /// Pass as `cursor` to get the entries that follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct ListedEntry {
    /// Name or relative path. A byte that is not UTF-8 is one private-use character, which a path argument may contain.
    name: String,
    /// `file`, `directory`, `symlink`, `fifo`, `socket`, a device, or `unreadable`.
    kind: &'static str,
    /// Size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// Modification time (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
    /// Target of a symbolic link; it was not followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

pub(super) fn tool() -> ToolRegistration {
    let about = "List the entries of a directory and, with depth, of its subdirectories. Symbolic links are not followed.";
    let mut spec = ToolSpec::new("list_directory", about, Category::READ_ONLY, RiskLevel::Low);
    spec.annotations = Annotations::READ_ONLY;
    spec.example = Some(json!({"path": "."}));
    ToolRegistration::new(spec, list)
}

fn list(permit: &Permit, arguments: &Arguments) -> Result<TypedOutput<DirectoryListing>, Failure> {
    let directory = target(permit)?;
    let pattern = arguments.glob.as_deref().map(NamePattern::new).transpose()?;
    if let Some(position) = position_in_large(directory, arguments)? {
        return list_unsorted(permit, arguments, pattern.as_ref(), position);
    }
    let after = arguments.cursor.as_deref().map(Cursor::parse).transpose()?;
    let mut found: Vec<(Cursor, ListedEntry)> = Vec::new();
    let mut seen = 0;
    let unvisited = directory.visit(&mut |each| {
        seen += 1;
        if !permit.is_visible(&directory.canonical().join(each.relative)) {
            return VisitAction::Skip;
        }
        if pattern.as_ref().is_none_or(|pattern| pattern.matches(each.relative)) {
            let position = Cursor::new(sort_key(arguments.sort, each.entry), each.relative);
            found.push((position, to_listed_entry(each.relative, each.entry)));
        }
        match (seen < MAX_VISITED, each.depth < arguments.depth) {
            (false, _) => VisitAction::Stop,
            (true, true) => VisitAction::Enter,
            (true, false) => VisitAction::Skip,
        }
    })?;
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    let total = found.len() as u64;
    let rest: Vec<_> = found
        .into_iter()
        .filter(|(position, _)| after.as_ref().is_none_or(|after| position > after))
        .collect();
    let (waiting, entries) =
        (rest.len(), take_fitting(rest, arguments.max_entries, output_budget::content_budget(permit)));
    let next_cursor =
        entries.last().filter(|_| entries.len() < waiting).map(|(position, _)| position.to_string());
    let entries: Vec<ListedEntry> = entries.into_iter().map(|(_, entry)| entry).collect();
    let truncated = next_cursor.as_ref().map(|_| Truncation {
        unit: TruncationUnit::Entries,
        total,
        returned: entries.len() as u64,
        how_to_continue: "call again with cursor set to next_cursor".to_owned(),
    });
    let complete = !unvisited.truncated && seen < MAX_VISITED;
    let unreadable = unvisited.unreadable.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let value =
        DirectoryListing { path: display_path(directory), entries, total, complete, unreadable, next_cursor };
    Ok(TypedOutput { value, metadata: ToolOutput { truncated, ..ToolOutput::default() } })
}

/// Position at which to list a directory that is too large to be sorted by name, or `None` for any other listing.
fn position_in_large(directory: &OpenedPath, arguments: &Arguments) -> Result<Option<u64>, Failure> {
    if arguments.depth > 1 || arguments.sort != ListSortKey::Name {
        return Ok(None);
    }
    if let Some(cursor) = &arguments.cursor {
        let position = cursor.strip_prefix(POSITION);
        return Ok(position.and_then(|digits| u64::from_str_radix(digits, 16).ok()));
    }
    let mut scan = directory.scan(0)?;
    for _ in 0..=MAX_SORTED {
        if scan.next_name()?.is_none() {
            return Ok(None);
        }
    }
    Ok(Some(0))
}

/// Lists a part of a directory in the order of the file system. Reads only the names and the metadata of that part.
fn list_unsorted(
    permit: &Permit,
    arguments: &Arguments,
    pattern: Option<&NamePattern>,
    position: u64,
) -> Result<TypedOutput<DirectoryListing>, Failure> {
    let directory = target(permit)?;
    let mut scan = directory.scan(position)?;
    let (mut entries, mut budget) = (Vec::new(), output_budget::content_budget(permit));
    let mut continue_at = Some(position);
    for _ in 0..MAX_VISITED {
        if entries.len() == arguments.max_entries {
            break;
        }
        let Some(name) = scan.next_name()? else {
            continue_at = None;
            break;
        };
        let relative = Path::new(&name);
        let is_listed = permit.is_visible(&directory.canonical().join(relative))
            && pattern.is_none_or(|pattern| pattern.matches(relative));
        let listed = is_listed.then(|| scan.entry(name.clone())).flatten();
        if let Some(listed) = listed.map(|entry| to_listed_entry(relative, &entry)) {
            match budget.checked_sub(json_length(&listed)) {
                Some(rest) => budget = rest,
                None if entries.is_empty() => return Err(oversized_entry(relative)),
                None => break,
            }
            entries.push(listed);
        }
        continue_at = Some(scan.position());
    }
    let returned = entries.len() as u64;
    let next_cursor = continue_at.map(|position| format!("{POSITION}{position:x}"));
    let truncated = next_cursor.as_ref().map(|_| Truncation {
        unit: TruncationUnit::Entries,
        total: returned,
        returned,
        how_to_continue: "call again with cursor set to next_cursor, or narrow the listing with glob"
            .to_owned(),
    });
    let path = display_path(directory);
    let (complete, unreadable) = (false, Vec::new());
    let value = DirectoryListing { path, entries, total: returned, complete, unreadable, next_cursor };
    Ok(TypedOutput { value, metadata: ToolOutput { truncated, ..ToolOutput::default() } })
}

/// Failure of a page on which not even one entry fits. A cursor would lead back to it.
fn oversized_entry(relative: &Path) -> Failure {
    let name = tool::text::shorten(&path_to_text(relative.as_os_str()), 100).into_owned();
    Failure::new(FailureKind::TooLarge, format!("the entry `{name}` alone exceeds the size of a result"))
        .with_hint("raise max_output_bytes in tools.yaml, or skip the entry with glob")
}

/// Sort key of an entry, ascending.
fn sort_key(sort: ListSortKey, entry: &DirectoryEntry) -> u64 {
    let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    match sort {
        ListSortKey::Name => 0,
        ListSortKey::Size => u64::MAX - entry.size.unwrap_or(0),
        ListSortKey::Modified => {
            u64::MAX - entry.modified.map_or(0, |time| u64::try_from(since(time)).unwrap_or(0))
        }
    }
}

/// Returns the first entries that together take at most `budget` bytes as JSON.
fn take_fitting(entries: Vec<(Cursor, ListedEntry)>, max: usize, budget: u64) -> Vec<(Cursor, ListedEntry)> {
    let mut remaining = budget;
    let mut fits = |entry: &ListedEntry| {
        remaining.checked_sub(json_length(entry)).map(|rest| remaining = rest).is_some()
    };
    entries.into_iter().take(max).take_while(|(_, entry)| fits(entry)).collect()
}

/// Number of bytes that an entry takes in the output, with a comma.
fn json_length(entry: &ListedEntry) -> u64 {
    serde_json::to_string(entry).map_or(u64::MAX, |text| text.len() as u64 + 1)
}

fn to_listed_entry(relative: &Path, entry: &DirectoryEntry) -> ListedEntry {
    let (kind, target) = match &entry.kind {
        EntryKind::File => ("file", None),
        EntryKind::Directory => ("directory", None),
        EntryKind::Symlink(target) => ("symlink", Some(target.to_string_lossy().into_owned())),
        EntryKind::Special(kind) => (*kind, None),
        EntryKind::Unreadable => ("unreadable", None),
    };
    ListedEntry {
        name: path_to_text(relative.as_os_str()).into_owned(),
        kind,
        size: entry.size,
        modified: entry.modified.and_then(timestamp),
        target,
    }
}
