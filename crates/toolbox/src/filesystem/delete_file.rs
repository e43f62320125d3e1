//! `delete_file`: a name goes, and what it led to is kept for as long as changes can be undone.

use std::path::Path;
use std::sync::Arc;

use governance::Permit;
use registry::Preview;
use resources::{Descent, Expected, ObjectKind, Protects, UndoStore};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{Annotations, Category, Failure, FailureKind, Mode, Output, RiskLevel, ToolSpec};

use super::{inventory, shown, target};
use crate::on_thread::Changing;
use crate::tool_entry::{Answer, ToolEntry};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file, symbolic link or directory to delete, absolute or relative to the workspace. A link is not followed.
    #[schemars(extend("format" = "path", "x-sinew-access" = "remove", "minLength" = 1))]
    #[serde(rename = "path")]
    _path: String,
    /// Delete a directory with everything in it. Without this, directories are refused.
    #[serde(default)]
    recursive: bool,
    /// Delete only if the file still has this SHA-256 (read_file tells it).
    #[serde(default)]
    #[schemars(regex(pattern = "^[0-9a-fA-F]{64}$"))]
    expected_sha256: Option<String>,
    /// Delete nothing, and say what would go.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Serialize, JsonSchema)]
struct Deleted {
    /// The canonical name that went.
    path: String,
    /// `file`, `symlink` or `directory`.
    kind: &'static str,
    /// How many names went, those in a directory included.
    entries: u64,
    /// What its files took together, in bytes.
    bytes: u64,
    /// Whether this only says what would have gone.
    dry_run: bool,
}

pub(super) fn tool(undo: &Arc<UndoStore>) -> ToolEntry {
    let about = "Delete a file, a symbolic link or, if asked to, a whole directory. A human can undo it.";
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
        let hint = "set recursive to delete it with everything in it";
        return Err(Failure::new(FailureKind::WrongKind, message).hint(hint));
    }
    let descent = if arguments.recursive { Descent::Whole } else { Descent::Never };
    let stays = |path: &Path| change.permit.protects(path);
    let protects = Protects::by(&stays);
    let expected = match &arguments.expected_sha256 {
        Some(sha256) => Expected::Content { sha256: sha256.clone() },
        None => Expected::Anything,
    };
    let removed = match arguments.dry_run {
        true => target.survey(descent, &protects),
        false => target.remove(&expected, descent, &protects, &change.saving),
    }?;
    let touched = if arguments.dry_run { Vec::new() } else { vec![shown(target)] };
    let (kind, entries, bytes) = (removed.kind, removed.entries, removed.bytes);
    let value = Deleted { path: shown(target), kind, entries, bytes, dry_run: arguments.dry_run };
    Ok(Answer { value, facts: Output { files_touched: touched, ..Output::default() } })
}

/// What would go, for the person who is asked. If it is anything else by then, the answer does not hold.
fn foresee(permit: &Permit, arguments: &Arguments) -> Result<Preview, Failure> {
    let target = target(permit)?;
    let descent = if arguments.recursive { Descent::Whole } else { Descent::Never };
    let stays = |path: &Path| permit.protects(path);
    let going = target.survey(descent, &Protects::by(&stays))?;
    let names = if going.entries == 1 { "1 name".to_owned() } else { format!("{} names", going.entries) };
    let what = format!("a {} with {names} and {} bytes", going.kind, going.bytes);
    let mut facts = vec![("deletes".to_owned(), what)];
    if target.kind() == ObjectKind::Directory {
        facts.extend(inventory::facts(target)?);
    }
    Ok(Preview { facts, ..Preview::default() })
}
