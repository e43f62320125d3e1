//! Schema version of a manifest: the stated version, else the one its sections imply, else 1.0.

use strict_yaml::{YamlNode, YamlNodeKind};

/// Version of the manifest schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaVersion {
    /// Simple tools: the core fields only.
    V1,
    /// Executable knowledge, complex APIs, anti-patterns, and examples with scenarios.
    V2,
}

impl SchemaVersion {
    /// Returns the version as written in a manifest.
    pub fn as_str(self) -> &'static str {
        match self {
            SchemaVersion::V1 => "1.0",
            SchemaVersion::V2 => "2.0",
        }
    }
}

/// Sections that exist only in 2.0.
pub(crate) const V2_SECTIONS: [&str; 3] = ["executable_knowledge", "api_complexity", "anti_patterns"];

/// Detects the schema version of the node below `tool`. An unreadable version counts as 2.0, the stricter
/// one; the schema check reports it.
pub(crate) fn detect_version(tool: &YamlNode) -> SchemaVersion {
    if let Some(stated) = tool.get("schema_version") {
        let one = match &stated.kind {
            YamlNodeKind::Number(number, _) => number.as_f64() == Some(1.0),
            YamlNodeKind::Text(text) => matches!(text.as_str(), "1" | "1.0"),
            _ => false,
        };
        return if one { SchemaVersion::V1 } else { SchemaVersion::V2 };
    }
    let has_section = V2_SECTIONS.iter().any(|section| tool.get(section).is_some());
    let scenario = |example: &YamlNode| {
        let scenario = example.get("scenario").and_then(YamlNode::text);
        matches!(scenario, Some("success" | "failure_invalid_param"))
    };
    let mut lists = tool.get("examples").map(YamlNode::entries).unwrap_or_default().iter();
    let enhanced = lists.any(|(_, list)| list.items().iter().any(scenario));
    if has_section || enhanced { SchemaVersion::V2 } else { SchemaVersion::V1 }
}
