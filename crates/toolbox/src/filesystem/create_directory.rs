//! `create_directory`: creates a directory and its missing parents, all of them or none.

use std::path::PathBuf;
use std::sync::Arc;

use file_access::UndoStore;
use governance::Permit;
use registry::Preview;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{Annotations, Category, Failure, Mode, Output, RiskLevel, ToolSpec};

use super::{shown, target};
use crate::on_thread::Changing;
use crate::tool_entry::{Answer, ToolEntry};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Directory to create, absolute or relative to the workspace. Missing parents are created too.
    #[schemars(extend("format" = "path", "x-sinew-access" = "write", "minLength" = 1))]
    #[serde(rename = "path")]
    _path: String,
    /// Create nothing; report what would be created.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Serialize, JsonSchema)]
struct Created {
    /// Canonical path of the directory.
    path: String,
    /// Directories created, or that would be created, outermost first. Empty if it existed.
    created_dirs: Vec<String>,
    /// True if nothing was created because this was a dry run.
    dry_run: bool,
}

pub(super) fn tool(undo: &Arc<UndoStore>) -> ToolEntry {
    let about = "Create a directory and its missing parents. An existing directory is left unchanged.";
    let mut spec = ToolSpec::new("create_directory", about, Category::SYSTEM_WRITE, RiskLevel::Medium);
    spec.allowed_modes = vec![Mode::Normal];
    spec.annotations = Annotations { idempotent_hint: true, ..Annotations::default() };
    spec.example = Some(json!({"path": "docs/drafts"}));
    ToolEntry::changing(spec, create, foresee, undo)
}

fn create(change: &Changing<'_>, arguments: &Arguments) -> Result<Answer<Created>, Failure> {
    let folder = target(change.permit)?;
    let made = match arguments.dry_run {
        true => folder.rehearse_folders(),
        false => folder.make_folders(&change.saving),
    }?;
    let created_dirs = names(&made);
    let touched = if arguments.dry_run { Vec::new() } else { created_dirs.clone() };
    let value = Created { path: shown(folder), created_dirs, dry_run: arguments.dry_run };
    Ok(Answer { value, facts: Output { files_touched: touched, ..Output::default() } })
}

fn foresee(permit: &Permit, _arguments: &Arguments) -> Result<Preview, Failure> {
    let made = target(permit)?.rehearse_folders()?;
    Ok(Preview { facts: facts(&made), ..Preview::default() })
}

/// Facts for the approval request: the directories that would be created.
pub(super) fn facts(made: &[PathBuf]) -> Vec<(String, String)> {
    names(made).into_iter().map(|name| ("makes folder".to_owned(), name)).collect()
}

pub(super) fn names(made: &[PathBuf]) -> Vec<String> {
    made.iter().map(|path| path.to_string_lossy().into_owned()).collect()
}
