//! `write_file`: replaces the content of a file atomically.

use std::borrow::Cow;
use std::sync::Arc;

use file_access::{ContentPrecondition, OpenedPath, UndoStore};
use governance::Permit;
use registry::CallPreview;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::definition::Annotations;
use tool::result::Usage;
use tool::{Category, Failure, FailureKind, Mode, RiskLevel, ToolOutput, ToolSpec, canonical};

use super::dry_run::{DryRunDiff, check_digest, expected, max_file_bytes, preview_change, read_current};
use super::{create_directory, display_path, target};
use crate::blocking_tool::ChangeContext;
use crate::tool_registration::{ToolRegistration, TypedOutput};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// File to write, absolute or relative to the workspace. Its directory must exist unless create_dirs is
    /// set.
    #[schemars(extend("format" = "path", "x-sinew-access" = "write", "minLength" = 1))]
    #[serde(rename = "path")]
    _path: String,
    /// Text to write.
    content: String,
    /// create: fail if the file exists; overwrite: replace its content; append: add to its content.
    #[serde(default)]
    mode: WriteMode,
    /// Write only if the file still has this SHA-256 (reported by read_file).
    #[serde(default)]
    #[schemars(regex(pattern = "^[0-9a-fA-F]{64}$"))]
    expected_sha256: Option<String>,
    /// Create missing parent directories. They are created together with the file or not at all.
    #[serde(default)]
    create_dirs: bool,
    /// Write nothing; report what would change.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum WriteMode {
    Create,
    #[default]
    Overwrite,
    Append,
}

#[derive(Serialize, JsonSchema)]
struct WriteFileOutput {
    /// Canonical path of the file.
    path: String,
    /// True if the file did not exist before.
    created: bool,
    /// Size of the new content, in bytes.
    size: u64,
    /// SHA-256 of the new content.
    sha256: String,
    /// Parent directories created, or that would be created, outermost first. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    created_dirs: Vec<String>,
    /// Change that a dry run would make. Absent if the change was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    preview: Option<DryRunDiff>,
}

pub(super) fn tool(undo: &Arc<UndoStore>) -> ToolRegistration {
    let about =
        "Write a text file. The file is replaced atomically: if the write fails, the old content stays.";
    let mut spec = ToolSpec::new("write_file", about, Category::SYSTEM_WRITE, RiskLevel::High);
    spec.allowed_modes = vec![Mode::Normal];
    spec.annotations = Annotations { destructive_hint: true, ..Annotations::default() };
    spec.example = Some(json!({"path": "notes.txt", "content": "Remember the milk.\n"}));
    ToolRegistration::file_changing(spec, write, preview, undo)
}

fn write(change: &ChangeContext<'_>, arguments: &Arguments) -> Result<TypedOutput<WriteFileOutput>, Failure> {
    let file = target(change.permit)?;
    let (content, expected) = plan(change.permit, file, arguments)?;
    if arguments.dry_run {
        return dry_run_output(change.permit, file, arguments, &content, &expected);
    }
    let (replaced, made) = match arguments.create_dirs {
        true => file.replace_with_folders(&content, &expected, &change.saving)?,
        false => (file.replace(&content, &expected, &change.saving)?, Vec::new()),
    };
    let created_dirs = create_directory::display_paths(&made);
    let usage = Usage { written_bytes: replaced.bytes, ..Usage::default() };
    let files_touched = created_dirs.iter().cloned().chain([display_path(file)]).collect();
    let facts = ToolOutput { files_touched, usage, ..ToolOutput::default() };
    let (created, size, sha256) = (replaced.created, replaced.bytes, replaced.sha256);
    let value =
        WriteFileOutput { path: display_path(file), created, size, sha256, created_dirs, preview: None };
    Ok(TypedOutput { value, metadata: facts })
}

/// Previews the file before and after, for the approval request.
fn preview(permit: &Permit, arguments: &Arguments) -> Result<CallPreview, Failure> {
    let file = target(permit)?;
    let (content, _) = plan(permit, file, arguments)?;
    let mut preview = preview_change(file, read_current(permit, file)?, Some(content.into_owned()))?;
    if arguments.create_dirs {
        preview.facts.extend(create_directory::preview_facts(&file.missing_folders()));
    }
    Ok(preview)
}

/// Returns the new content and the expected current content.
fn plan<'a>(
    permit: &Permit,
    file: &OpenedPath,
    arguments: &'a Arguments,
) -> Result<(Cow<'a, [u8]>, ContentPrecondition), Failure> {
    let added = arguments.content.as_bytes();
    Ok(match (arguments.mode, arguments.expected_sha256.as_deref()) {
        (WriteMode::Create, Some(_)) => {
            let message = "mode create cannot be combined with expected_sha256: the file must not exist";
            return Err(Failure::new(FailureKind::Conflict, message).with_hint("omit one of the two"));
        }
        (WriteMode::Create, None) => (Cow::Borrowed(added), ContentPrecondition::Absent),
        (WriteMode::Append, expected_digest) => plan_append(permit, file, added, expected_digest)?,
        (WriteMode::Overwrite, sha256) => {
            (Cow::Borrowed(added), expected(sha256, ContentPrecondition::Anything))
        }
    })
}

fn dry_run_output(
    permit: &Permit,
    file: &OpenedPath,
    arguments: &Arguments,
    content: &[u8],
    expected: &ContentPrecondition,
) -> Result<TypedOutput<WriteFileOutput>, Failure> {
    let made = match arguments.create_dirs {
        true => file.check_replace_with_folders(expected).map(|()| file.missing_folders())?,
        false => file.check_replace(expected).map(|()| Vec::new())?,
    };
    let created_dirs = create_directory::display_paths(&made);
    let before = read_current(permit, file)?;
    let preview = Some(DryRunDiff::new(permit, file, before.as_deref(), content));
    let (size, sha256) = (content.len() as u64, canonical::sha256_hex(content));
    let value = WriteFileOutput {
        path: display_path(file),
        created: before.is_none(),
        size,
        sha256,
        created_dirs,
        preview,
    };
    Ok(TypedOutput { value, metadata: ToolOutput::default() })
}

/// Appends to the current content. The write succeeds only if the file still has the content that was read
/// here.
fn plan_append<'a>(
    permit: &Permit,
    file: &OpenedPath,
    addition: &'a [u8],
    expected_digest: Option<&str>,
) -> Result<(Cow<'a, [u8]>, ContentPrecondition), Failure> {
    let Some(mut content) = read_current(permit, file)? else {
        // A missing file does not have the expected content; the write reports that.
        return Ok((Cow::Borrowed(addition), expected(expected_digest, ContentPrecondition::Absent)));
    };
    let limit = max_file_bytes(permit);
    if (content.len() + addition.len()) as u64 > limit {
        let message = format!("`{}` would exceed {limit} bytes", display_path(file));
        return Err(Failure::new(FailureKind::TooLarge, message).with_hint("write a new file instead"));
    }
    let sha256 = canonical::sha256_hex(&content);
    check_digest(file, &sha256, expected_digest)?;
    content.extend_from_slice(addition);
    Ok((Cow::Owned(content), ContentPrecondition::Content { sha256 }))
}
