//! `delete_file`: removes a file, link or directory; the undo store keeps the content for as long as it can
//! be undone.

use std::path::Path;
use std::sync::Arc;

use file_access::{Descent, Expected, ObjectKind, Protects, UndoStore};
use governance::Permit;
use registry::Preview;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{Annotations, Category, Failure, FailureKind, Mode, Output, RiskLevel, ToolSpec};

use super::{dry_run, inventory, shown, target};
use crate::on_thread::Changing;
use crate::tool_entry::{Answer, ToolEntry};

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
struct Deleted {
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

pub(super) fn tool(undo: &Arc<UndoStore>) -> ToolEntry {
    let about = "Delete a file, a symbolic link or, with recursive, a directory. The operator can undo it.";
    let mut spec = ToolSpec::new("delete_file", about, Category::SYSTEM_WRITE, RiskLevel::High);
    spec.allowed_modes = vec![Mode::Normal];
    spec.annotations = Annotations { destructive_hint: true, ..Annotations::default() };
    spec.example = Some(json!({"path": "build/old.log"}));
    ToolEntry::changing(spec, delete, foresee, undo)
}

fn delete(change: &Changing<'_>, arguments: &Arguments) -> Result<Answer<Deleted>, Failure> {
    let target = target(change.permit)?;
    if target.kind() == ObjectKind::Directory && !arguments.recursive {
        let message = format!("`{}` is a directory, not a file", shown(target));
        let hint = "set recursive to delete it with all its content";
        return Err(Failure::new(FailureKind::WrongKind, message).hint(hint));
    }
    let descent = if arguments.recursive { Descent::Whole } else { Descent::Never };
    let is_protected = |path: &Path| change.permit.protects(path);
    let protects = Protects::by(&is_protected);
    let expected = dry_run::expected(arguments.expected_sha256.as_deref(), Expected::Anything);
    let removed = match arguments.dry_run {
        true => target.survey(descent, &protects),
        false => target.remove(&expected, descent, &protects, &change.saving),
    }?;
    let touched = if arguments.dry_run { Vec::new() } else { vec![shown(target)] };
    let (kind, entries, bytes) = (removed.kind, removed.entries, removed.bytes);
    let value = Deleted { path: shown(target), kind, entries, bytes, dry_run: arguments.dry_run };
    Ok(Answer { value, facts: Output { files_touched: touched, ..Output::default() } })
}

/// Facts for the approval request. An approval applies only if the same entries are still there when the call
/// runs.
fn foresee(permit: &Permit, arguments: &Arguments) -> Result<Preview, Failure> {
    let target = target(permit)?;
    let descent = if arguments.recursive { Descent::Whole } else { Descent::Never };
    let is_protected = |path: &Path| permit.protects(path);
    let removal = target.survey(descent, &Protects::by(&is_protected))?;
    let names =
        if removal.entries == 1 { "1 entry".to_owned() } else { format!("{} entries", removal.entries) };
    let what = format!("a {} with {names} and {} bytes", removal.kind, removal.bytes);
    let mut facts = vec![("deletes".to_owned(), what)];
    if target.kind() == ObjectKind::Directory {
        facts.extend(inventory::facts(target)?);
    }
    Ok(Preview { facts, ..Preview::default() })
}
