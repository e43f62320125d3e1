//! The settings of undo: how much is kept of what calls changed, and for how long.

use std::time::Duration;

use document::{Document, DocumentError, Located};
use schemars::JsonSchema;
use serde::Deserialize;

use super::bounded;

const DAY: u64 = 24 * 60 * 60;

/// How much is kept of what calls changed, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoSettings {
    /// The oldest states go when all together are larger; what alone is larger is not changed. 0 keeps nothing.
    pub keep_bytes: u64,
    /// States go when they are older.
    pub keep_for: Duration,
}

impl Default for UndoSettings {
    fn default() -> Self {
        UndoSettings { keep_bytes: 1 << 30, keep_for: Duration::from_secs(30 * DAY) }
    }
}

/// What is kept so that changes to files can be undone.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct UndoFile {
    /// The oldest states go when all together are larger than this; a file that alone is larger is not changed. 0 keeps
    /// nothing, and nothing can be undone. Default 1073741824 (1 GiB).
    pub(crate) keep_bytes: Option<Located<u64>>,
    /// States go when they are older than this many days. Default 30.
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
