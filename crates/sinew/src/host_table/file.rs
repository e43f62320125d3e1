//! File format of a host table.

use execution::host::{OnApproval, OnPermit};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use strict_yaml::{Located, LocatedMap};
use tool::RiskLevel;

/// Mapping of a host's tools to the policy.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostFile {
    /// Reply to the host for a permitted call: `allow`, or no decision, so that the host also shows its own
    /// prompt.
    #[serde(default)]
    pub(crate) on_permit: OnPermit,
    /// Reply to the host for a call that needs approval: `ask` its user, `deny`, or no decision. Default: `ask`, and
    /// `deny` for hosts that do not enforce `ask`.
    #[serde(default)]
    pub(crate) on_approval: Option<Located<OnApproval>>,
    /// Tools by the names that the host gives them.
    pub(crate) tools: LocatedMap<HostToolRow>,
}

/// One tool, or all tools with a name prefix.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostToolRow {
    /// Component that decides about the tool, if not this table.
    #[serde(default)]
    pub(crate) decided_by: Option<DecidedBy>,
    /// Entry of tools.yaml that governs the tool. Default: its own name in lower case.
    #[serde(default)]
    pub(crate) rules_of: Option<Located<String>>,
    /// Governance category.
    #[serde(default)]
    pub(crate) category: Option<Located<String>>,
    /// Risk level.
    #[serde(default)]
    pub(crate) risk_level: Option<RiskLevel>,
    /// True if every call needs approval.
    #[serde(default)]
    pub(crate) requires_approval: Option<Located<bool>>,
    /// True if a command line that only reads is permitted without approval, by the rules of `run_command` and
    /// `read_file`.
    #[serde(default)]
    pub(crate) reading_lines: Option<Located<bool>>,
    /// False if the entry of the same name in guardrails.yaml describes another tool.
    #[serde(default)]
    pub(crate) curated: Option<bool>,
    /// Meaning of the arguments.
    #[serde(default)]
    pub(crate) arguments: LocatedMap<HostArgumentRow>,
    /// True if the tool shows names or contents below its folder arguments. A call is then refused if the policy
    /// forbids anything below them.
    #[serde(default)]
    pub(crate) shows_below: bool,
    /// Argument with a glob that selects the names shown. A glob that ends in `*.EXT` excludes all other
    /// names.
    #[serde(default)]
    pub(crate) narrowed_by: Option<Located<String>>,
    /// Valid example call, shown when a call was invalid.
    #[serde(default)]
    pub(crate) example: Option<Value>,
}

/// Component that decides about a tool, if not its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DecidedBy {
    /// The daemon, which judges the call when it arrives there.
    Daemon,
}

/// Meaning of an argument.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostArgumentRow {
    /// Kind of argument.
    pub(crate) is: HostArgumentKind,
    /// Access of the tool to the path. Default: `write`, the more dangerous one.
    #[serde(default)]
    pub(crate) access: HostPathAccess,
    /// Value that the tool uses if the argument is absent. Without a default, a call without the argument is
    /// refused.
    #[serde(default)]
    pub(crate) default: Option<String>,
    /// For a pattern: the argument with the folder it is relative to.
    #[serde(default)]
    pub(crate) below: Option<Located<String>>,
}

/// Kind of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HostArgumentKind {
    /// Path of a file or folder.
    Path,
    /// Glob. The folder before its first wildcard is searched.
    Pattern,
    /// URL.
    Url,
    /// Command line.
    Command,
    /// Patch whose headers name the files that it changes, as Codex writes it.
    Patch,
}

/// Access of a tool to a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HostPathAccess {
    /// Read a file or list a folder.
    Read,
    /// Create, replace or change a file.
    #[default]
    Write,
}

impl HostPathAccess {
    /// Returns the keyword used in a schema.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            HostPathAccess::Read => "read",
            HostPathAccess::Write => "write",
        }
    }
}

impl HostToolRow {
    /// Returns true if a key other than `decided_by` is set.
    pub(crate) fn has_other_keys(&self) -> bool {
        let stated = self.rules_of.is_some() || self.category.is_some() || self.risk_level.is_some();
        let of_folders = self.shows_below || self.narrowed_by.is_some();
        let of_approval = self.requires_approval.is_some() || self.reading_lines.is_some();
        let of_approval = of_approval || self.curated.is_some();
        stated || of_approval || of_folders || !self.arguments.is_empty() || self.example.is_some()
    }

    /// Returns true if every call needs approval.
    pub(crate) fn asks(&self) -> bool {
        self.requires_approval.as_ref().is_some_and(|asks| asks.value)
    }

    /// Returns the argument with the command line.
    pub(crate) fn command_argument(&self) -> Option<&str> {
        let commands = self.arguments.iter().filter(|(_, row)| row.is == HostArgumentKind::Command);
        commands.map(|(key, _)| key.value.as_str()).next()
    }

    /// Returns true if the argument of this name is a path.
    pub(crate) fn is_path(&self, name: &str) -> bool {
        self.arguments.iter().any(|(key, row)| key.value == name && row.is == HostArgumentKind::Path)
    }
}
