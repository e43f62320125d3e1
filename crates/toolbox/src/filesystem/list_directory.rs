//! `list_directory`: what a directory holds. Links are shown, not followed.

use std::path::Path;

use governance::Permit;
use resources::{Entry, EntryKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{Annotations, Category, Failure, Output, RiskLevel, ToolSpec, Truncation};

use super::{answer_budget, shown, target, timestamp};
use crate::tool_entry::{Answer, ToolEntry};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The directory to list, absolute or relative to the workspace.
    #[serde(default = "here")]
    #[schemars(extend("format" = "path", "x-sinew-access" = "read", "minLength" = 1))]
    #[serde(rename = "path")]
    _path: String,
    /// At most this many entries, the first by name.
    #[serde(default = "usual_count")]
    #[schemars(range(min = 1, max = 10_000))]
    max_entries: usize,
}

fn here() -> String {
    ".".to_owned()
}

fn usual_count() -> usize {
    1000
}

#[derive(Serialize, JsonSchema)]
struct Listing {
    /// The canonical name of the directory.
    path: String,
    /// The entries, by name.
    entries: Vec<Listed>,
    /// How many entries there are in all.
    total: u64,
}

#[derive(Serialize, JsonSchema)]
struct Listed {
    /// The name; bytes that are not UTF-8 are shown as replacement characters.
    name: String,
    /// `file`, `directory`, `symlink`, `fifo`, `socket`, a device, or `unreadable`.
    kind: &'static str,
    /// In bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// When the content last changed (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
    /// What a symbolic link says; it was not followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

pub(super) fn tool() -> ToolEntry {
    let about = "List the entries of a directory. Symbolic links are shown, not followed.";
    let mut spec = ToolSpec::new("list_directory", about, Category::READ_ONLY, RiskLevel::Low);
    spec.annotations = Annotations { read_only_hint: true, idempotent_hint: true, ..Annotations::default() };
    spec.example = Some(json!({"path": "."}));
    ToolEntry::new(spec, list)
}

fn list(permit: &Permit, arguments: &Arguments) -> Result<Answer<Listing>, Failure> {
    let directory = target(permit)?;
    let found = directory.list(arguments.max_entries)?;
    let visible = |entry: &Entry| permit.shows(&directory.canonical().join(&entry.name));
    let listed: Vec<Listed> = found.entries.iter().filter(|entry| visible(entry)).map(listed).collect();
    let hidden = (found.entries.len() - listed.len()) as u64;
    let total = found.total - hidden;
    let entries = fitting(listed, answer_budget(permit));
    let returned = entries.len() as u64;
    let truncated = (returned < total).then(|| Truncation {
        total,
        returned,
        how_to_continue: "raise max_entries, or list a directory below".to_owned(),
    });
    let value = Listing { path: shown(directory), entries, total };
    Ok(Answer { value, facts: Output { truncated, ..Output::default() } })
}

/// The first entries that together take at most `budget` bytes.
fn fitting(entries: Vec<Listed>, budget: u64) -> Vec<Listed> {
    let mut left = budget;
    let mut fits = |entry: &Listed| {
        let cost = serde_json::to_string(entry).map_or(u64::MAX, |text| text.len() as u64 + 1);
        left.checked_sub(cost).map(|rest| left = rest).is_some()
    };
    entries.into_iter().take_while(|entry| fits(entry)).collect()
}

fn listed(entry: &Entry) -> Listed {
    let text = |name: &std::ffi::OsStr| Path::new(name).to_string_lossy().into_owned();
    let (kind, target) = match &entry.kind {
        EntryKind::File => ("file", None),
        EntryKind::Directory => ("directory", None),
        EntryKind::Symlink(target) => ("symlink", Some(text(target))),
        EntryKind::Special(kind) => (*kind, None),
        EntryKind::Unreadable => ("unreadable", None),
    };
    Listed {
        name: text(&entry.name),
        kind,
        size: entry.size,
        modified: entry.modified.and_then(timestamp),
        target,
    }
}
