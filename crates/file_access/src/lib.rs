//! Opens the paths that a call names, and reads, writes and removes files through the opened handles.
//!
//! The kernel resolves each path of a caller once, to a handle. Governance judges the canonical name of that
//! handle, and every later operation goes through the same handle: reads and listings use it directly, a
//! write renames a temporary file to one plain name in its folder, a removal renames that name away. `..`,
//! symbolic links and races between the check and the use therefore have no effect. The state before each
//! change is saved, so that the change can be undone.
//!
//! This crate does not decide whether a call may touch a path. No other crate opens a path that a caller
//! named.

mod at_hand;
mod difference;
mod error;
mod git_directory;
mod links;
mod list;
mod make;
mod obstacle;
mod opened;
mod platform;
mod read;
mod remove;
mod replace;
mod request;
mod resolve;
mod tree;
mod undo;
mod walk;

#[cfg(test)]
#[cfg(target_os = "linux")]
mod crashes;
#[cfg(test)]
mod races;
#[cfg(test)]
mod testing;

pub use at_hand::open_at_hand;
pub use difference::{Difference, difference};
pub use error::{AccessError, OpenError};
pub use links::{LinkSearch, OtherNames};
pub use list::{Entry, EntryKind, Listing};
pub use make::MadeFolders;
pub use obstacle::Obstacle;
pub use opened::{Identity, ObjectFacts, ObjectKind, Opened, OpenedPath};
pub use read::{Portion, Reader};
pub use remove::{Descent, Protects, Removed};
pub use replace::{Expected, Replaced};
pub use request::{NamesPaths, PathRequest};
pub use resolve::{canonical_directory, open};
pub use tree::{Found, Next, Unseen};
pub use undo::{Reversal, Reverted, Saving, Settled, UndoLimits, UndoStore};
