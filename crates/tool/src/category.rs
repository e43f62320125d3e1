//! Category and risk level of a tool, by which governance selects rules. The set of categories is open, because
//! `tools.yaml` may declare more, so a category is a checked name, not an enum.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Category of a tool, by which governance selects rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("pattern" = "^[a-z][a-z0-9_]{0,31}$"))]
pub struct Category(Cow<'static, str>);

impl Category {
    /// Reads, changes nothing, stays on the machine.
    pub const READ_ONLY: Category = Category(Cow::Borrowed("read_only"));
    /// Changes the machine.
    pub const SYSTEM_WRITE: Category = Category(Cow::Borrowed("system_write"));
    /// Reaches beyond the machine.
    pub const NETWORK: Category = Category(Cow::Borrowed("network"));
    /// Inspects Sinew itself.
    pub const SELF_CHECK: Category = Category(Cow::Borrowed("self_check"));

    /// Returns the name used in configuration.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Category {
    type Error = InvalidCategory;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let starts_well = text.starts_with(|c: char| c.is_ascii_lowercase());
        if starts_well && text.len() <= 32 && text.chars().all(word) {
            Ok(Category(Cow::Owned(text)))
        } else {
            Err(InvalidCategory(text))
        }
    }
}

impl From<Category> for String {
    fn from(category: Category) -> String {
        category.0.into_owned()
    }
}

impl std::fmt::Display for Category {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Error for a category that is not a lower-case word of at most 32 characters.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a category name: use 1 to 32 of a-z, 0-9 and _, starting with a letter")]
pub struct InvalidCategory(String);

/// Level of harm a tool can do. It decides how durable its ledger records are and who must approve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RiskLevel {
    /// Reads harmless data.
    Low,
    /// Reaches beyond the machine, or reads private data.
    Medium,
    /// Changes the machine.
    High,
}

impl RiskLevel {
    /// Returns the name used in configuration, messages and ledger records.
    pub fn as_str(self) -> &'static str {
        match self {
            RiskLevel::Low => "low",
            RiskLevel::Medium => "medium",
            RiskLevel::High => "high",
        }
    }
}

impl std::fmt::Display for RiskLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
