//! A host's table as it is written.

use document::{Located, Table};
use execution::OnPermit;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tool::RiskLevel;

/// How the tools of a host look to our rules.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostFile {
    /// What a permit says to the host: `allow`, or nothing, so that the host's own prompt comes as well.
    #[serde(default)]
    pub(crate) on_permit: OnPermit,
    /// Its tools, by the names it gives them.
    pub(crate) tools: Table<ToolRow>,
}

/// One tool, or all whose names begin so.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolRow {
    /// Who decides, if not this table.
    #[serde(default)]
    pub(crate) decided_by: Option<DecidedBy>,
    /// The entry of tools.yaml that governs it; absent, the one under its own name in lower case.
    #[serde(default)]
    pub(crate) rules_of: Option<Located<String>>,
    /// Its governance category.
    #[serde(default)]
    pub(crate) category: Option<Located<String>>,
    /// The harm it can do.
    #[serde(default)]
    pub(crate) risk_level: Option<RiskLevel>,
    /// Whether a human is asked each time.
    #[serde(default)]
    pub(crate) asks: bool,
    /// What its arguments mean.
    #[serde(default)]
    pub(crate) arguments: Table<ArgumentRow>,
    /// Whether it shows what is below the folders it is given: names, or what is in the files. Then nothing below them may
    /// be forbidden.
    #[serde(default)]
    pub(crate) shows_below: bool,
    /// The argument with a glob that says which names it shows. One that ends in `*.EXT` leaves the others out.
    #[serde(default)]
    pub(crate) narrowed_by: Option<Located<String>>,
    /// A call that works, shown when one did not.
    #[serde(default)]
    pub(crate) example: Option<Value>,
}

/// Who decides about a tool, if not its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DecidedBy {
    /// The daemon, when the call arrives there.
    Daemon,
}

/// What an argument means.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArgumentRow {
    /// What it is.
    pub(crate) is: ArgumentKind,
    /// What the tool does there. Without a word, the more dangerous.
    #[serde(default)]
    pub(crate) access: Access,
    /// What the tool takes where it is absent. Without one, a call without it is refused.
    #[serde(default)]
    pub(crate) default: Option<String>,
    /// Of a pattern: the argument with the folder it starts in.
    #[serde(default)]
    pub(crate) below: Option<Located<String>>,
}

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ArgumentKind {
    /// The name of a file or folder.
    Path,
    /// A glob; the folder in front of its first wildcard is looked through.
    Pattern,
    /// An address.
    Url,
    /// A command line.
    Command,
}

/// What a tool does with a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Access {
    /// Read a file or list a folder.
    Read,
    /// Create, replace or change what is there.
    #[default]
    Write,
}

impl Access {
    /// The word in a schema.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Write => "write",
        }
    }
}

impl ToolRow {
    /// Whether it says anything besides who decides.
    pub(crate) fn says_more(&self) -> bool {
        let stated = self.rules_of.is_some() || self.category.is_some() || self.risk_level.is_some();
        let of_folders = self.shows_below || self.narrowed_by.is_some();
        stated || self.asks || of_folders || !self.arguments.is_empty() || self.example.is_some()
    }

    /// Whether an argument of this name is a path.
    pub(crate) fn is_path(&self, name: &str) -> bool {
        self.arguments.iter().any(|(key, row)| key.value == name && row.is == ArgumentKind::Path)
    }
}
