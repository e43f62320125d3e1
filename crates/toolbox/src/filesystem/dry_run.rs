//! Dry runs and previews: the difference that a change would make.

use std::io::Read;

use file_access::{ContentPrecondition, ObjectKind, OpenedPath};
use governance::Permit;
use registry::{CallPreview, FileChange};
use schemars::JsonSchema;
use serde::Serialize;
use tool::{Failure, FailureKind};

use super::display_path;
use crate::output_budget;

/// Largest file that is changed, even if the policy permits more: changes are made in memory.
const MAX_IN_MEMORY_BYTES: u64 = 64 * 1024 * 1024;

/// Largest file whose change is shown in an approval request. A longer diff cannot be reviewed.
const MAX_PREVIEWED_BYTES: usize = 8 * 1024 * 1024;

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DryRunDiff {
    /// Change as a unified diff, or a sentence if the content is not text. Empty if nothing would change.
    diff: String,
    /// Lines that would be added.
    added: u64,
    /// Lines that would be removed.
    removed: u64,
    /// True if hunks were omitted because the diff was too long.
    cut: bool,
}

impl DryRunDiff {
    pub(super) fn new(permit: &Permit, file: &OpenedPath, before: Option<&[u8]>, after: &[u8]) -> Self {
        // JSON escapes can make a text longer; half of the budget leaves enough space for any diff.
        let max = usize::try_from(output_budget::content_budget(permit) / 2).unwrap_or(usize::MAX);
        let found = file_access::content_diff(&display_path(file), before, Some(after), max);
        DryRunDiff { diff: found.text, added: found.added, removed: found.removed, cut: found.truncated }
    }
}

/// Previews the change of one file for an approval request. The change is shown completely or refused.
pub(super) fn preview_change(
    file: &OpenedPath,
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
) -> Result<CallPreview, Failure> {
    let size = before.as_ref().map_or(0, Vec::len).max(after.as_ref().map_or(0, Vec::len));
    if size > MAX_PREVIEWED_BYTES {
        let message =
            format!("`{}` is too large to show its change in an approval request", display_path(file));
        return Err(Failure::new(FailureKind::TooLarge, message));
    }
    let change = FileChange { path: file.canonical().to_owned(), before, after };
    Ok(CallPreview { changes: vec![change], ..CallPreview::default() })
}

/// Returns the condition of the `expected_sha256` argument, or another one if it is absent.
pub(super) fn expected(sha256: Option<&str>, otherwise: ContentPrecondition) -> ContentPrecondition {
    sha256.map_or(otherwise, |sha256| ContentPrecondition::Content { sha256: sha256.to_owned() })
}

/// Fails if the content that was read does not have the SHA-256 of the `expected_sha256` argument.
pub(super) fn check_digest(file: &OpenedPath, sha256: &str, wanted: Option<&str>) -> Result<(), Failure> {
    if wanted.is_none_or(|wanted| wanted.eq_ignore_ascii_case(sha256)) {
        return Ok(());
    }
    let message = format!("`{}` has changed: its sha256 is now {sha256}", display_path(file));
    Err(Failure::new(FailureKind::Conflict, message).with_hint("read it again"))
}

/// Returns the largest size in bytes of a file that is changed in memory, before and after the change.
pub(super) fn max_file_bytes(permit: &Permit) -> u64 {
    permit.max_file_bytes().map_or(MAX_IN_MEMORY_BYTES, |max| max.min(MAX_IN_MEMORY_BYTES))
}

/// Reads the current content of the file, if it exists, up to the limit for changes in memory.
pub(super) fn read_current(permit: &Permit, file: &OpenedPath) -> Result<Option<Vec<u8>>, Failure> {
    if file.kind() == ObjectKind::Missing {
        return Ok(None);
    }
    let limit = max_file_bytes(permit);
    let mut content = Vec::new();
    file.reader()?
        .take(limit.saturating_add(1))
        .read_to_end(&mut content)
        .map_err(|error| Failure::from_io(&format!("reading `{}`", display_path(file)), &error))?;
    if content.len() as u64 > limit {
        let message = format!("`{}` has more than {limit} bytes", display_path(file));
        let hint = match limit < MAX_IN_MEMORY_BYTES {
            true => "max_file_size_mb in tools.yaml sets the limit",
            false => "larger files are not changed in memory: write a new file instead",
        };
        return Err(Failure::new(FailureKind::TooLarge, message).with_hint(hint));
    }
    Ok(Some(content))
}
