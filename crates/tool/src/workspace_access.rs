//! Access that callers have in a workspace. Does not define which directories are workspaces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Access that callers have in a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceAccess {
    /// Read only.
    ReadOnly,
    /// Everything that the policy allows.
    #[default]
    ReadWrite,
}

impl WorkspaceAccess {
    /// Returns the word used in configuration and output.
    pub fn as_str(self) -> &'static str {
        match self {
            WorkspaceAccess::ReadOnly => "read_only",
            WorkspaceAccess::ReadWrite => "read_write",
        }
    }
}

impl std::fmt::Display for WorkspaceAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_words_match_configuration_and_output() {
        for access in [WorkspaceAccess::ReadOnly, WorkspaceAccess::ReadWrite] {
            assert_eq!(serde_json::to_value(access).unwrap(), access.as_str());
        }
        assert_eq!(WorkspaceAccess::default(), WorkspaceAccess::ReadWrite);
        assert!(serde_json::from_str::<WorkspaceAccess>("\"readonly\"").is_err());
    }
}
