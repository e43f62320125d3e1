//! `list_directory`: lists the entries of a directory. Symbolic links are shown, not followed.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use file_access::{DirectoryEntry, EntryKind, VisitAction};
use governance::Permit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::definition::Annotations;
use tool::result::{Truncation, TruncationUnit};
use tool::text::path_to_text;
use tool::{Category, Failure, RiskLevel, ToolOutput, ToolSpec};

use super::cursor::Cursor;
use super::name_pattern::NamePattern;
use super::{display_path, target, timestamp};
use crate::output_budget;
use crate::tool_registration::{FolderArg, ToolRegistration, TypedOutput};

/// Largest number of entries visited in one call, because a tree can be arbitrarily large.
const MAX_VISITED: usize = 100_000;

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
    /// Sort order. name: by path; size: largest first; modified: newest first.
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
fn take_fitting(entries: Vec<(Cursor, ListedEntry)>, most: usize, budget: u64) -> Vec<(Cursor, ListedEntry)> {
    let mut remaining = budget;
    let mut fits = |entry: &ListedEntry| {
        let cost = serde_json::to_string(entry).map_or(u64::MAX, |text| text.len() as u64 + 1);
        remaining.checked_sub(cost).map(|rest| remaining = rest).is_some()
    };
    entries.into_iter().take(most).take_while(|(_, entry)| fits(entry)).collect()
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
