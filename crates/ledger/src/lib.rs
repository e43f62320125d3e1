//! Append-only ledger of Sinew: every decision before it takes effect, every outcome after it, and every
//! refusal, approval, mode change and start. No call runs before its decision is recorded here, and `verify`
//! detects any later change.
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
mod commit;
mod disk;
mod error;
mod export;
mod facets;
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
mod owed;
mod private_file;
mod query;
mod reader;
mod record;
mod recover;
mod resume;
mod retention;
#[cfg(test)]
mod samples;
mod segment;
mod shared;
mod shrink;
#[cfg(test)]
mod tests;
mod tracker;
mod verify;
mod walk;
mod writer;

pub mod entry;

pub use entry::{Call, Decision, Effect, Entry, Outcome, Status};
pub use error::LedgerError;
pub use export::{ExportFormat, ExportPage};
pub use health::{Health, Pressure, State, StateWatch};
pub use intent::Intent;
pub use ledger::{Ledger, Receipt};
pub use open::Recovery;
pub use options::{Options, WhenUnavailable};
pub use query::Filter;
pub use reader::Reader;
pub use record::Record;
pub use verify::{Finding, VerifyReport, verify};
