//! Raw types of the policy files, for schemas and for sections that other components than the judge use.

pub use crate::command_entry::*;
pub use crate::layers::LayerDefault;
pub use crate::modes_file::*;
pub use crate::policy::PolicyFiles;
pub use crate::project::PROJECT_POLICY;
pub use crate::safety_file::*;
pub use crate::tools_file::*;
