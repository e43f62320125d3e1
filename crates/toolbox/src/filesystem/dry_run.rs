//! What a change would do, shown instead of done.

use std::io::Read;

use governance::Permit;
use registry::{Change, Preview};
use resources::{ObjectKind, OpenedPath};
use schemars::JsonSchema;
use serde::Serialize;
use tool::{Failure, FailureKind};

use super::shown;
use crate::room;

/// Files are changed in memory, and no larger ones, whatever policy says.
const MOST_CHANGED: u64 = 64 * 1024 * 1024;

/// Nobody reads the difference of larger files.
const MOST_FORESEEN: usize = 8 * 1024 * 1024;

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DryRun {
    /// The change as a unified diff, or a sentence where the content is not text. Empty where nothing would change.
    diff: String,
    /// Lines that would come.
    added: u64,
    /// Lines that would go.
    removed: u64,
    /// Whether hunks were left out because the diff would have been too long.
    cut: bool,
}

impl DryRun {
    pub(super) fn of(permit: &Permit, file: &OpenedPath, before: Option<&[u8]>, after: &[u8]) -> Self {
        // As a string in JSON a text can become longer by its escapes; half of the room is enough for any diff.
        let most = usize::try_from(room::for_content(permit) / 2).unwrap_or(usize::MAX);
        let found = resources::difference(&shown(file), before, Some(after), most);
        DryRun { diff: found.text, added: found.added, removed: found.removed, cut: found.cut }
    }
}

/// A change of one file for the person who is asked about it: all of it, or it is not asked about.
pub(super) fn foreseen(
    file: &OpenedPath,
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
) -> Result<Preview, Failure> {
    let size = before.as_ref().map_or(0, Vec::len).max(after.as_ref().map_or(0, Vec::len));
    if size > MOST_FORESEEN {
        let message = format!("`{}` is too large for its change to be shown", shown(file));
        return Err(Failure::new(FailureKind::TooLarge, message));
    }
    let change = Change { path: file.canonical().to_owned(), before, after };
    Ok(Preview { changes: vec![change], ..Preview::default() })
}

/// How many bytes a file may have that is changed in memory, before and after.
pub(super) fn limit(permit: &Permit) -> u64 {
    permit.max_file_bytes().map_or(MOST_CHANGED, |most| most.min(MOST_CHANGED))
}

/// What the file holds now, if there is one. Bounded by what may be changed in memory.
pub(super) fn current(permit: &Permit, file: &OpenedPath) -> Result<Option<Vec<u8>>, Failure> {
    if file.kind() == ObjectKind::Missing {
        return Ok(None);
    }
    let limit = limit(permit);
    let mut content = Vec::new();
    file.reader()?
        .take(limit.saturating_add(1))
        .read_to_end(&mut content)
        .map_err(|error| Failure::from_io(&format!("reading `{}`", shown(file)), &error))?;
    if content.len() as u64 > limit {
        let message = format!("`{}` has more than {limit} bytes", shown(file));
        let hint = match limit < MOST_CHANGED {
            true => "policy sets the limit: max_file_size_mb",
            false => "larger files are not changed in memory: write a new file instead",
        };
        return Err(Failure::new(FailureKind::TooLarge, message).hint(hint));
    }
    Ok(Some(content))
}
