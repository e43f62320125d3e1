//! Open what a call will touch.
//!
//! A path named by a caller is resolved once, by the kernel, to a handle. The handle's own canonical name is what
//! governance judges, and everything done afterwards goes through that same handle: reading and listing from it,
//! writing as a temporary file that takes one plain name in its folder, removing by moving that name away. `..`,
//! symbolic links and races between the check and the use then have nothing to bite on. What was there before a
//! change is kept, so that the change can be taken back.
//!
//! Nothing here decides whether a call may touch what it named, and nothing else in Sinew opens a path that a
//! caller named.

mod at_hand;
mod difference;
mod error;
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
