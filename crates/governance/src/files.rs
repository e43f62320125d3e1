//! The policy files as they are written, for schemas and for the parts whose reader is not the judge.

pub use crate::command_entry::*;
pub use crate::modes_file::*;
pub use crate::policy::Files;
pub use crate::safety_file::*;
pub use crate::tools_file::*;
