//! Opens the paths that a call names, and reads, writes and removes files through the opened handles.
//!
//! The kernel resolves each path of a caller once, to a handle. Governance judges the canonical name of that
//! handle, and every later operation goes through the same handle. Reads and listings use it directly. A
//! write renames a temporary file to one plain name in its folder, and a removal renames that name away.
//! `..`, symbolic links and races between the check and the use therefore have no effect. The state before
//! each change is saved, so that the change can be undone.
//!
//! This crate does not decide whether a call may touch a path. No other crate opens a path that a caller
//! named.

mod cached_open;
mod content_diff;
mod create_folders;
mod error;
mod git_directory;
mod links;
mod list;
mod opened;
mod path_walk;
mod platform;
mod read;
mod remove;
mod replace;
mod request;
mod resolve;
mod tree;
mod undo;
mod unresolved;

#[cfg(test)]
#[cfg(target_os = "linux")]
mod crashes;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod opening_modes;
#[cfg(test)]
mod races;
#[cfg(test)]
mod testing;

pub use cached_open::try_open_cached;
pub use content_diff::content_diff;
pub use error::AccessError;
pub use links::{HardLinkNames, HardLinkSearch};
pub use list::{DirectoryEntry, EntryKind};
pub use opened::{ObjectKind, OpenedCall, OpenedPath};
pub use read::FileReader;
pub use remove::{FolderRemoval, RemovalGuard};
pub use replace::ContentPrecondition;
pub use request::{PathRequest, PathSource};
pub use resolve::{canonical_directory, open};
pub use tree::{TreeEntry, VisitAction};
pub use undo::{ChangeRecorder, Reversal, RevertedChange, UndoLimits, UndoStore};
