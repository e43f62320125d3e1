//! Append-only ledger of Sinew: every decision before it takes effect, every outcome before the reply, and every
//! refusal, approval, mode change and start. No effect happens and nothing leaves the daemon before its record,
//! and `verify` detects any later change.
//!
//! The ledger is a folder of plain NDJSON segments with one sealed line per entry; each line contains the
//! seal of the previous line. It can be read with `grep` and `jq`. The index is derived from the segments,
//! and the anchors protect their end. An entry passes through `entry` → `line` → `writer`; `commit` makes
//! lines durable; `recover` and `open` continue from the state the last writer left; `verify` reports every
//! byte that differs from what was written.
//!
//! The caller chooses what is recorded: this crate redacts nothing and decides nothing.

mod anchor;
mod chain;
mod chain_verifier;
mod commit;
mod deferred;
mod disk;
mod error;
mod export;
#[cfg(any(test, fuzzing))]
mod fuzz_lines;
mod hash;
mod health;
mod index;
mod intent;
mod key;
mod ledger;
mod line;
mod lines;
mod open;
mod options;
mod private_file;
mod query;
mod reader;
mod record;
mod recover;
mod resume;
mod retention;
#[cfg(test)]
mod samples;
mod search_fields;
mod segment;
mod shared;
mod shrink;
#[cfg(test)]
mod tests;
mod tracker;
mod verify;
mod writer;

pub mod entry;
pub mod raw_records;

pub use entry::{CallHeader, LedgerEntry, LedgerOutcome, OutcomeStatus, RecordedDecision, RecordedEffect};
pub use error::LedgerError;
pub use export::{ExportFormat, ExportPage};
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use fuzz_lines::fuzz_ledger_lines;
pub use health::{LedgerHealthReport, LedgerState, LedgerStateWatch, SizeLimitPressure};
pub use intent::Intent;
pub use ledger::{Ledger, RecordReceipt};
pub use open::LedgerRecovery;
pub use options::{LedgerOptions, UnavailablePolicy};
pub use query::{CallIdPrefix, RecordFilter};
pub use reader::LedgerReader;
pub use record::LedgerRecord;
pub use verify::{VerifyFinding, VerifyReport, verify, verify_with_progress};
