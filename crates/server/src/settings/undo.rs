//! Settings of undo: retention of earlier file states.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use strict_yaml::{Document, DocumentError, Located};

use super::bounded;

const DAY: u64 = 24 * 60 * 60;

/// Retention of the file states before changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoSettings {
    /// Total size above which the oldest states are deleted. A file larger than this is not changed at all. 0
    /// stores nothing.
    pub keep_bytes: u64,
    /// Age after which states are deleted.
    pub keep_for: Duration,
}

impl Default for UndoSettings {
    fn default() -> Self {
        UndoSettings { keep_bytes: 1 << 30, keep_for: Duration::from_secs(30 * DAY) }
    }
}

/// Retention of earlier file states, so that changes can be undone.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct UndoFile {
    /// Total size above which the oldest states are deleted. A file larger than this is not changed at all. 0
    /// stores nothing, and nothing can be undone. Default 1073741824 (1 GiB).
    pub(crate) keep_bytes: Option<Located<u64>>,
    /// Age in days after which states are deleted. Default 30.
    pub(crate) keep_days: Option<Located<u64>>,
}

pub(super) fn check(document: &Document, file: &UndoFile) -> Result<UndoSettings, DocumentError> {
    let usual = UndoSettings::default();
    let keep_bytes = bounded(document, "keep_bytes", &file.keep_bytes, 0, 1 << 40)?;
    let keep_days = bounded(document, "keep_days", &file.keep_days, 1, 36_500)?;
    Ok(UndoSettings {
        keep_bytes: keep_bytes.unwrap_or(usual.keep_bytes),
        keep_for: keep_days.map_or(usual.keep_for, |days| Duration::from_secs(days * DAY)),
    })
}
