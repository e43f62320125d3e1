//! The JSON Schemas of the policy files, for editors.

use serde_json::Value;

use crate::modes_file::ModesFile;
use crate::safety_file::SafetyFile;
use crate::tools_file::ToolsFile;

/// Each file's name without its ending, and its schema.
pub fn schemas() -> [(&'static str, Value); 3] {
    [
        ("modes", schemars::schema_for!(ModesFile).to_value()),
        ("tools", schemars::schema_for!(ToolsFile).to_value()),
        ("safety", schemars::schema_for!(SafetyFile).to_value()),
    ]
}
