//! One strict reader for every YAML file of the project, with errors a person can act on.
//!
//! A policy that means two things is worse than none, so much of YAML is refused before anything is read into a
//! type: several documents, tags, anchors and aliases (and with them every alias bomb), merge keys, duplicate
//! keys, empty values and nulls, `yes` for `true`. What is left has one meaning. Every error names the file, the
//! line and the column, shows the place, and suggests the nearest known word.
//!
//! What a file means is the business of the crate that owns its type; nothing here knows a key. Beside it stands how a
//! file of our own is judged by who could have changed it, and how one is replaced whole.

mod document;
mod error;
mod located;
mod node;
mod private;
mod scan;
mod table;
mod translate;
mod trust;

pub use document::{Document, LARGEST_DOCUMENT};
pub use error::DocumentError;
pub use located::Located;
pub use node::{Node, NodeKind};
pub use private::replace_private;
pub use table::Table;
pub use trust::{Untrusted, check_trusted};
