//! Strict reader for all YAML files of the project, with actionable errors.
//!
//! A policy with two possible meanings is worse than none. Before the reader parses a text into a type, it
//! therefore refuses several documents, tags, anchors and aliases (and with them every alias bomb), merge
//! keys, duplicate keys, empty values and nulls, and `yes` for `true`. The remaining language is unambiguous.
//! Every error names the file, line and column, shows the source line, and suggests the nearest known word.
//!
//! This crate knows no keys: the crate that owns a type defines what its file means. It also contains the
//! check of who can change a configuration file, and the atomic replacement of private files.

mod document;
mod error;
pub mod layered;
mod located;
mod node;
mod number_text;
mod private_file;
mod scan;
mod table;
mod translate;
mod trust;

pub use document::{Document, MAX_DOCUMENT_BYTES, Origin};
pub use error::DocumentError;
pub use located::Located;
pub use node::{YamlNode, YamlNodeKind};
pub use private_file::replace_private_file;
pub use table::LocatedMap;
pub use trust::{TrustError, check_trusted};
