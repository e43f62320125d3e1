//! Tool names. Each tool has one canonical spelling, so that it has one rate window and one set of rules.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::SharedText;

/// Canonical tool name: 1 to 64 of `a-z 0-9 _ . -`, starting with a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("pattern" = "^[a-z0-9][a-z0-9_.-]{0,63}$"))]
pub struct ToolName(#[schemars(with = "String")] Arc<str>);

impl ToolName {
    /// Folds ASCII case and checks the rest. Makes no other correction: any other deviation is an error.
    pub fn new(text: &str) -> Result<Self, InvalidToolName> {
        let well_formed = text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.len() <= 64
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
        if !well_formed {
            return Err(InvalidToolName(text.to_owned()));
        }
        let mut name: Arc<str> = text.into();
        if let Some(letters) = Arc::get_mut(&mut name) {
            letters.make_ascii_lowercase();
        }
        Ok(ToolName(name))
    }

    /// Returns the canonical spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name as shared text, without copying it.
    pub fn to_shared_text(&self) -> SharedText {
        Arc::clone(&self.0).into()
    }
}

impl TryFrom<String> for ToolName {
    type Error = InvalidToolName;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        ToolName::new(&text)
    }
}

impl From<ToolName> for String {
    fn from(name: ToolName) -> String {
        name.as_str().to_owned()
    }
}

impl std::borrow::Borrow<str> for ToolName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for ToolName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Error for a text that cannot be a tool name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a tool name: use 1 to 64 of a-z, 0-9, _, . and -, starting with a letter or digit", .0.escape_debug())]
pub struct InvalidToolName(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_is_folded_and_nothing_else_is() {
        assert_eq!(ToolName::new("Read_File").unwrap().as_str(), "read_file");
        for wrong in ["", "_x", ".x", "a b", "lectur\u{e9}", "read_file ", "a/b", "ｒead", &"a".repeat(65)] {
            assert!(ToolName::new(wrong).is_err(), "{wrong:?} must be refused");
        }
        assert!(ToolName::new(&"a".repeat(64)).is_ok());
    }
}
