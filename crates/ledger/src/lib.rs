//! The record of Sinew: every decision before it is acted on, every outcome after it, every refusal, approval, mode
//! change and start. Nothing runs that is not written here first, and nothing written here can be changed unseen.
//!
//! The record is a folder of plain NDJSON segments, one sealed line per entry, each naming the seal of the line
//! before. It can be read with `grep` and `jq`; everything else beside it (the index, the anchors) is derived or
//! guards it. Writing goes `entry` → `line` → `writer`; `commit` makes lines durable; `recover` and `open` start
//! from what the last writer left; `verify` finds any byte that is not as it was written.
//!
//! What is recorded is the caller's choice: this crate redacts nothing and decides nothing.

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
mod remains;
mod resume;
mod retention;
mod reverse;
mod room;
#[cfg(test)]
mod samples;
mod segment;
mod shared;
mod shrink;
#[cfg(test)]
mod tests;
mod time_text;
mod tracker;
mod verify;
mod walk;
mod writer;

pub mod entry;

pub use entry::{Call, Decision, Effect, Entry, Outcome, Status};
pub use error::LedgerError;
pub use export::{ExportFormat, ExportPage};
pub use health::{Health, State, StateWatch};
pub use intent::Intent;
pub use ledger::{Ledger, Receipt};
pub use open::Recovery;
pub use options::{Options, WhenUnavailable};
pub use query::Filter;
pub use reader::Reader;
pub use record::Record;
pub use verify::{Finding, VerifyReport, verify};
