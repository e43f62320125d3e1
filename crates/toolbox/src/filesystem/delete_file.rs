//! `delete_file`: removes a file, link or directory; the undo store keeps the content for as long as it can
//! be undone.

use std::path::Path;
use std::sync::Arc;

use file_access::{ContentPrecondition, FolderRemoval, ObjectKind, RemovalGuard, UndoStore};
use governance::Permit;
use registry::CallPreview;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::definition::Annotations;
use tool::{Category, Failure, FailureKind, Mode, RiskLevel, ToolOutput, ToolSpec};

use super::{display_path, dry_run, inventory, target};
use crate::blocking_tool::ChangeContext;
use crate::tool_registration::{ToolRegistration, TypedOutput};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// File, symbolic link or directory to delete, absolute or relative to the workspace. A link is not
    /// followed.
    #[schemars(extend("format" = "path", "x-sinew-access" = "remove", "minLength" = 1))]
    #[serde(rename = "path")]
    _path: String,
    /// Delete a directory with all its content. Without this, directories are refused.
    #[serde(default)]
    recursive: bool,
    /// Delete only if the file still has this SHA-256 (reported by read_file).
    #[serde(default)]
    #[schemars(regex(pattern = "^[0-9a-fA-F]{64}$"))]
    expected_sha256: Option<String>,
    /// Delete nothing; report what would be deleted.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Serialize, JsonSchema)]
struct DeleteOutput {
    /// Canonical path that was deleted.
    path: String,
    /// `file`, `symlink` or `directory`.
    kind: &'static str,
    /// Number of entries deleted, including the content of a directory.
    entries: u64,
    /// Total size of the deleted files, in bytes.
    bytes: u64,
    /// True if nothing was deleted because this was a dry run.
    dry_run: bool,
}

pub(super) fn tool(undo: &Arc<UndoStore>) -> ToolRegistration {
    let about = "Delete a file, a symbolic link or, with recursive, a directory. The operator can undo it.";
    let mut spec = ToolSpec::new("delete_file", about, Category::SYSTEM_WRITE, RiskLevel::High);
    spec.allowed_modes = vec![Mode::Normal];
    spec.annotations = Annotations { destructive_hint: true, ..Annotations::default() };
    spec.example = Some(json!({"path": "build/old.log"}));
    ToolRegistration::file_changing(spec, delete, preview, undo)
}

fn delete(change: &ChangeContext<'_>, arguments: &Arguments) -> Result<TypedOutput<DeleteOutput>, Failure> {
    let target = target(change.permit)?;
    if target.kind() == ObjectKind::Directory && !arguments.recursive {
        let message = format!("`{}` is a directory, not a file", display_path(target));
        let hint = "set recursive to delete it with all its content";
        return Err(Failure::new(FailureKind::WrongKind, message).with_hint(hint));
    }
    let descent = if arguments.recursive { FolderRemoval::Recursive } else { FolderRemoval::Refuse };
    let is_protected = |path: &Path| change.permit.is_protected(path);
    let protects = RemovalGuard::from_predicate(&is_protected);
    let expected = dry_run::expected(arguments.expected_sha256.as_deref(), ContentPrecondition::Anything);
    let removed = match arguments.dry_run {
        true => target.preview_removal(descent, &protects),
        false => target.remove(&expected, descent, &protects, &change.saving),
    }?;
    let touched = if arguments.dry_run { Vec::new() } else { vec![display_path(target)] };
    let (kind, entries, bytes) = (removed.kind, removed.entries, removed.bytes);
    let value = DeleteOutput { path: display_path(target), kind, entries, bytes, dry_run: arguments.dry_run };
    Ok(TypedOutput { value, metadata: ToolOutput { files_touched: touched, ..ToolOutput::default() } })
}

/// Facts for the approval request. An approval applies only if the same entries are still there when the call
/// runs.
fn preview(permit: &Permit, arguments: &Arguments) -> Result<CallPreview, Failure> {
    let target = target(permit)?;
    let descent = if arguments.recursive { FolderRemoval::Recursive } else { FolderRemoval::Refuse };
    let is_protected = |path: &Path| permit.is_protected(path);
    let removal = target.preview_removal(descent, &RemovalGuard::from_predicate(&is_protected))?;
    let names =
        if removal.entries == 1 { "1 entry".to_owned() } else { format!("{} entries", removal.entries) };
    let description = format!("a {} with {names} and {} bytes", removal.kind, removal.bytes);
    let mut facts = vec![("deletes".to_owned(), description)];
    if target.kind() == ObjectKind::Directory {
        facts.extend(inventory::directory_facts(target)?);
    }
    Ok(CallPreview { facts, ..CallPreview::default() })
}
