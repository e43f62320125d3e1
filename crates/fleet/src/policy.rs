//! Distribution of policy: signed bundles whose revision only rises, and the pointer that shows a frozen server.

mod bundle;
mod pointer;

pub use bundle::{BundleFile, PolicyBundle, PolicyRevision, PolicyTrust};
pub(crate) use bundle::{check_number, version_parts};
pub use pointer::{PointerFreshness, PolicyPointer};
