//! Errors of the ledger. A caller that receives one must not run the call.

use std::{io, path::PathBuf, sync::Arc};

use tool::CallId;

/// Reason why an entry could not be recorded or read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the error messages document the variants
pub enum LedgerError {
    #[error("the ledger accepts no records: {reason}; it continues in a new segment once it can write again")]
    Unavailable { reason: Arc<str> },
    #[error(
        "the ledger has {bytes} bytes that are too young to be removed, and the last quarter of ledger.max_bytes ({max_bytes}) is reserved for records of changes"
    )]
    ReadsRefused { bytes: u64, max_bytes: u64 },
    #[error("the ledger is closed")]
    Closed,
    #[error("another process ({holder}) writes the ledger in `{}`: stop it, or read only", .folder.display())]
    Locked { folder: PathBuf, holder: String },
    #[error("`{}` belongs to user {owner}, not to user {us}: a ledger must be written by its owner", .path.display())]
    NotOwned { path: PathBuf, owner: u32, us: u32 },
    #[error("the key `{}` is missing although the ledger has records: put it back from a backup, or move the folder away to begin a new ledger", .path.display())]
    KeyMissing { path: PathBuf },
    #[error("the key `{}` is not 64 hexadecimal digits: put it back from a backup", .path.display())]
    BadKey { path: PathBuf },
    #[error("`{}` is not a ledger segment: only `segment-<number>.ndjson` may begin with `segment-`; move it away", .path.display())]
    UnexpectedFile { path: PathBuf },
    #[error("the outcome of call {0} is already recorded")]
    AlreadyConcluded(CallId),
    #[error("cannot {doing} `{}`: {source}", .path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("an entry cannot be written as one line of JSON: {0}")]
    Encode(String),
    #[error("cannot write the export: {0}")]
    Export(io::Error),
    #[error("the index failed: {0}")]
    Index(#[from] rusqlite::Error),
}

impl LedgerError {
    /// Returns a function that adds the operation and the path to an I/O error.
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> LedgerError {
        let path = path.into();
        move |source| LedgerError::Io { doing, path, source }
    }
}
