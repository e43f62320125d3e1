//! The ledger's settings: how long records are kept, and what holds while none can be written.

use std::time::Duration;

use document::{Document, DocumentError, Located};
use schemars::JsonSchema;
use serde::Deserialize;

use super::bounded;

const MIB: u64 = 1024 * 1024;
const DAY: u64 = 24 * 60 * 60;

/// How long records are kept, and what holds while none can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerSettings {
    /// The oldest records go when all together are larger than this.
    pub keep_bytes: u64,
    /// Records go when they are older than this.
    pub keep_for: Option<Duration>,
    /// What becomes of calls that only look while no record can be taken.
    pub when_unavailable: WhenUnavailable,
}

impl Default for LedgerSettings {
    fn default() -> Self {
        LedgerSettings {
            keep_bytes: 1024 * MIB,
            keep_for: None,
            when_unavailable: WhenUnavailable::default(),
        }
    }
}

/// What becomes of calls that only look while no record can be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenUnavailable {
    /// They are refused, like every other call.
    #[default]
    Refuse,
    /// Those that are not of high risk run; their result says `recorded: false`, and their records are kept in memory and
    /// written when the ledger is back. A crash before that takes them.
    AllowReads,
}

/// The record of what was decided and done.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LedgerFile {
    /// The oldest records go when all together are larger than this. Default 1073741824 (1 GiB).
    pub(crate) keep_bytes: Option<Located<u64>>,
    /// Records go when they are older than this many days, or an eighth more. Default: size alone decides.
    pub(crate) keep_days: Option<Located<u64>>,
    /// What becomes of calls that only look while no record can be taken; all others are refused.
    pub(crate) when_unavailable: WhenUnavailable,
}

pub(super) fn check(document: &Document, file: &LedgerFile) -> Result<LedgerSettings, DocumentError> {
    let usual = LedgerSettings::default();
    let keep_bytes = bounded(document, "keep_bytes", &file.keep_bytes, 16 * MIB, 1024 * 1024 * MIB)?;
    let keep_days = bounded(document, "keep_days", &file.keep_days, 1, 36_500)?;
    Ok(LedgerSettings {
        keep_bytes: keep_bytes.unwrap_or(usual.keep_bytes),
        keep_for: keep_days.map(|days| Duration::from_secs(days * DAY)),
        when_unavailable: file.when_unavailable,
    })
}
