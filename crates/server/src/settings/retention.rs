//! Settings of the ledger and of undo: retention, and the policy while the ledger cannot be written.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use strict_yaml::{Document, DocumentError, Located};

use super::check_bounds;

const MIB: u64 = 1024 * 1024;
const DAY: u64 = 24 * 60 * 60;

/// Retention of records, and the policy while the ledger cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerSettings {
    /// Total size above which the oldest records are deleted, if they are older than `keep_at_least`.
    pub keep_bytes: u64,
    /// Minimum age of records that are removed below `max_bytes`.
    pub keep_at_least: Duration,
    /// Hard limit of all records together.
    pub max_bytes: u64,
    /// Age after which records are deleted.
    pub max_age: Option<Duration>,
    /// Policy for read-only calls while the ledger cannot be written.
    pub when_unavailable: LedgerUnavailablePolicy,
}

impl Default for LedgerSettings {
    fn default() -> Self {
        LedgerSettings {
            keep_bytes: 1024 * MIB,
            keep_at_least: Duration::from_secs(30 * DAY),
            max_bytes: 8 * 1024 * MIB,
            max_age: None,
            when_unavailable: LedgerUnavailablePolicy::default(),
        }
    }
}

/// Policy for read-only calls while the ledger cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LedgerUnavailablePolicy {
    /// Read-only calls are refused, like every other call.
    #[default]
    Refuse,
    /// Read-only calls that are not high-risk run. Their result has `recorded: false`, and their records are
    /// held in memory and written when the ledger is available again. A crash before that loses them.
    AllowReads,
}

/// Ledger: the record of decisions and outcomes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LedgerFile {
    /// Total size above which the oldest records are deleted, if they are older than `keep_at_least_days`. Default
    /// 1073741824 (1 GiB).
    pub(crate) keep_bytes: Option<Located<u64>>,
    /// Age in days after which records are deleted, with a delay of up to an eighth of it. Default: no age
    /// limit.
    pub(crate) keep_days: Option<Located<u64>>,
    /// Records younger than this many days stay, unless `max_bytes` is exceeded. 0 sets no minimum age. Default 30, or
    /// `keep_days` where that is less.
    pub(crate) keep_at_least_days: Option<Located<u64>>,
    /// Hard limit of all records together. Removing records younger than `keep_at_least_days` because of it raises an
    /// alarm. From three quarters of it on, calls that only read are refused, so that they cannot displace records of
    /// changes. Default 8589934592 (8 GiB), or `keep_bytes` where that is more.
    pub(crate) max_bytes: Option<Located<u64>>,
    /// Policy for read-only calls while the ledger cannot be written. All other calls are refused.
    pub(crate) when_unavailable: LedgerUnavailablePolicy,
}

pub(super) fn check_ledger(document: &Document, file: &LedgerFile) -> Result<LedgerSettings, DocumentError> {
    let defaults = LedgerSettings::default();
    let keep_bytes = check_bounds(document, "keep_bytes", &file.keep_bytes, 16 * MIB, 1024 * 1024 * MIB)?;
    let keep_bytes = keep_bytes.unwrap_or(defaults.keep_bytes);
    let keep_days = check_bounds(document, "keep_days", &file.keep_days, 1, 36_500)?;
    let keep_for = keep_days.map(|days| Duration::from_secs(days * DAY));
    let longest = keep_days.unwrap_or(36_500);
    let at_least = check_bounds(document, "keep_at_least_days", &file.keep_at_least_days, 0, longest)?;
    let at_least = at_least.map(|days| Duration::from_secs(days * DAY));
    let max_bytes = check_bounds(document, "max_bytes", &file.max_bytes, 16 * MIB, 1024 * 1024 * MIB)?;
    Ok(LedgerSettings {
        keep_bytes,
        max_age: keep_for,
        keep_at_least: at_least
            .unwrap_or(keep_for.map_or(defaults.keep_at_least, |keep| keep.min(defaults.keep_at_least))),
        max_bytes: max_bytes.unwrap_or(defaults.max_bytes.max(keep_bytes)),
        when_unavailable: file.when_unavailable,
    })
}

/// Retention of the file states before changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoSettings {
    /// Total size above which the oldest states are deleted. A file larger than this is not changed at all. 0
    /// stores nothing.
    pub keep_bytes: u64,
    /// Age after which states are deleted.
    pub max_age: Duration,
}

impl Default for UndoSettings {
    fn default() -> Self {
        UndoSettings { keep_bytes: 1 << 30, max_age: Duration::from_secs(30 * DAY) }
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

pub(super) fn check_undo(document: &Document, file: &UndoFile) -> Result<UndoSettings, DocumentError> {
    let defaults = UndoSettings::default();
    let keep_bytes = check_bounds(document, "keep_bytes", &file.keep_bytes, 0, 1 << 40)?;
    let keep_days = check_bounds(document, "keep_days", &file.keep_days, 1, 36_500)?;
    Ok(UndoSettings {
        keep_bytes: keep_bytes.unwrap_or(defaults.keep_bytes),
        max_age: keep_days.map_or(defaults.max_age, |days| Duration::from_secs(days * DAY)),
    })
}
