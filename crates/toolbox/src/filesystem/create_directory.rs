//! `create_directory`: creates a directory and its missing parents, all of them or none.

use std::path::PathBuf;
use std::sync::Arc;

use file_access::UndoStore;
use governance::Permit;
use registry::CallPreview;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::definition::Annotations;
use tool::{Category, Failure, Mode, RiskLevel, ToolOutput, ToolSpec};

use super::{display_path, target};
use crate::blocking_tool::ChangeContext;
use crate::tool_registration::{ToolRegistration, TypedOutput};

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
struct CreateDirectoryOutput {
    /// Canonical path of the directory.
    path: String,
    /// Directories created, or that would be created, outermost first. Empty if it existed.
    created_dirs: Vec<String>,
    /// True if nothing was created because this was a dry run.
    dry_run: bool,
}

pub(super) fn tool(undo: &Arc<UndoStore>) -> ToolRegistration {
    let about = "Create a directory and its missing parents. An existing directory is left unchanged.";
    let mut spec = ToolSpec::new("create_directory", about, Category::SYSTEM_WRITE, RiskLevel::Medium);
    spec.allowed_modes = vec![Mode::Normal];
    spec.annotations = Annotations { idempotent_hint: true, ..Annotations::default() };
    spec.example = Some(json!({"path": "docs/drafts"}));
    ToolRegistration::file_changing(spec, create, preview, undo)
}

fn create(
    change: &ChangeContext<'_>,
    arguments: &Arguments,
) -> Result<TypedOutput<CreateDirectoryOutput>, Failure> {
    let folder = target(change.permit)?;
    let made = match arguments.dry_run {
        true => folder.preview_folders(),
        false => folder.create_folders(&change.saving),
    }?;
    let created_dirs = display_paths(&made);
    let touched = if arguments.dry_run { Vec::new() } else { created_dirs.clone() };
    let value =
        CreateDirectoryOutput { path: display_path(folder), created_dirs, dry_run: arguments.dry_run };
    Ok(TypedOutput { value, metadata: ToolOutput { files_touched: touched, ..ToolOutput::default() } })
}

fn preview(permit: &Permit, _arguments: &Arguments) -> Result<CallPreview, Failure> {
    let made = target(permit)?.preview_folders()?;
    Ok(CallPreview { facts: preview_facts(&made), ..CallPreview::default() })
}

/// Facts for the approval request: the directories that would be created.
pub(super) fn preview_facts(made: &[PathBuf]) -> Vec<(String, String)> {
    display_paths(made).into_iter().map(|name| ("creates directory".to_owned(), name)).collect()
}

pub(super) fn display_paths(made: &[PathBuf]) -> Vec<String> {
    made.iter().map(|path| path.to_string_lossy().into_owned()).collect()
}
