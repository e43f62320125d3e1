//! Raw types of `tools.yaml`. `tool_rules` checks the values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strict_yaml::{Located, LocatedMap};
use tool::{Arguments, Mode, RiskLevel};

use crate::command_entry::CommandEntry;

/// Rules of each tool. A tool that is not listed is governed by its definition and the caller's workspaces.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "tools.yaml")]
#[schemars(transform = strict_yaml::layered::allow_list_changes)]
pub struct ToolsFile {
    /// Base of this file: the built-in file (the default), or none.
    #[serde(default)]
    pub extends: Option<Extends>,
    /// Sets of paths by name, used as `"@name"` in lists of paths.
    #[serde(default)]
    pub path_sets: LocatedMap<Vec<Located<String>>>,
    /// Sets of commands by name, used as `"@name"` in lists of commands.
    #[serde(default)]
    pub command_sets: LocatedMap<Vec<Located<CommandEntry>>>,
    /// Sets of hosts by name, used as `"@name"` in lists of hosts, also in `safety.yaml`.
    #[serde(default)]
    pub host_sets: LocatedMap<Vec<Located<String>>>,
    /// Tool categories, and the rules for all tools of a category.
    #[serde(default)]
    pub tool_categories: LocatedMap<CategoryEntry>,
    /// Paths that no tool may access, whether it is built in, from a manifest or of an MCP server, and listed
    /// below or not. Absent means the list that ships with Sinew, empty means none.
    #[serde(default)]
    pub forbidden_paths: Option<Vec<Located<String>>>,
    /// Tools by name.
    pub tools: LocatedMap<ToolEntry>,
}

/// Base of a policy file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Extends {
    /// The file replaces the built-in one.
    None,
    /// The file overrides the built-in one key by key.
    BuiltIn,
}

/// One tool category.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = strict_yaml::layered::allow_list_changes)]
pub struct CategoryEntry {
    /// Description for people.
    #[serde(default)]
    pub description: String,
    /// Minimum risk level of its tools.
    #[serde(default)]
    pub risk_level: Option<RiskLevel>,
    /// Modes in which its tools require approval.
    #[serde(default)]
    #[schemars(with = "Vec<Mode>")]
    pub requires_approval_in_modes: Vec<Located<String>>,
    /// Restricts outbound calls of its tools to the gateway of `safety.yaml`. The category `network` always
    /// uses it.
    #[serde(default)]
    pub requires_outbound_gateway: bool,
}

/// Rules of one tool.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = strict_yaml::layered::allow_list_changes)]
pub struct ToolEntry {
    /// Tool category, if it differs from the definition.
    #[serde(default)]
    #[schemars(with = "Option<tool::Category>")]
    pub category: Option<Located<String>>,
    /// Modes in which it runs; absent means those of its definition. A mode in none of the three lists is
    /// denied.
    #[serde(default)]
    #[schemars(with = "Option<Vec<Mode>>")]
    pub allowed_in_modes: Option<Located<Vec<Located<String>>>>,
    /// Modes in which it runs only after approval.
    #[serde(default)]
    #[schemars(with = "Vec<Mode>")]
    pub requires_approval_in_modes: Vec<Located<String>>,
    /// Modes in which it never runs; overrides the other lists.
    #[serde(default)]
    #[schemars(with = "Vec<Mode>")]
    pub forbidden_in_modes: Vec<Located<String>>,
    /// Paths that it may access; absent means the caller's workspaces, empty means none.
    #[serde(default)]
    pub allowed_paths: Option<Located<Vec<Located<String>>>>,
    /// Permits a pattern in `allowed_paths` to match every path of the machine. Without it such a list does
    /// not load.
    #[serde(default)]
    pub allow_every_path: bool,
    /// Paths that it may never access; overrides every rule that allows them.
    #[serde(default)]
    pub forbidden_paths: Vec<Located<String>>,
    /// Entries of the `forbidden_paths` at the top of the file that do not hold for this tool, written as they are there.
    #[serde(default)]
    pub forbidden_paths_except: Vec<Located<String>>,
    /// Largest file it may write or read, in units of 1,048,576 bytes.
    #[serde(default)]
    #[schemars(with = "Option<u32>")]
    pub max_file_size_mb: Option<Located<u32>>,
    /// Requires approval for every call.
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    pub requires_approval: Option<Located<bool>>,
    /// Requires a sandbox. The call is refused where this machine cannot provide one.
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    pub requires_sandbox: Option<Located<bool>>,
    /// Minimum isolation level; below it the call is refused.
    #[serde(default)]
    #[schemars(with = "Option<Isolation>")]
    pub min_isolation: Option<Located<Isolation>>,
    /// Timeout in seconds.
    #[serde(default)]
    #[schemars(with = "Option<u64>", range(min = 1, max = 86400))]
    pub timeout_seconds: Option<Located<u64>>,
    /// Calls per hour. 0 denies every call; absent means the limit of its definition.
    #[serde(default)]
    #[schemars(with = "Option<u32>")]
    pub rate_limit_per_hour: Option<Located<u32>>,
    /// Commands that it may start, `*` for any; absent means none. Applies to arguments that are commands.
    #[serde(default)]
    pub allowed_commands: Option<Located<Vec<Located<CommandEntry>>>>,
    /// Commands that are refused even if `allowed_commands` has them: a program in any folder, and its first
    /// arguments. Programs that an allowed program starts are not matched.
    #[serde(default)]
    pub forbidden_commands: Option<Located<Vec<Located<CommandEntry>>>>,
    /// Folders whose programs a sandboxed tool may start by name, before those of the system: from `bin` in
    /// each, or from the folder itself. The tool can read these folders, but not write to them.
    #[serde(default)]
    pub program_folders: Vec<Located<String>>,
    /// Hosts that it may reach, within those that the gateway of `safety.yaml` allows.
    #[serde(default)]
    pub allowed_domains: Option<Located<Vec<Located<String>>>>,
    /// Network access of a sandboxed tool. Default off.
    #[serde(default)]
    pub network: Option<NetworkAccess>,
    /// Memory limit of a sandboxed tool, in units of 1,048,576 bytes. Default 2048.
    #[serde(default)]
    pub memory_mb: Option<u32>,
    /// Maximum number of processes and threads of a sandboxed tool. Default 256.
    #[serde(default)]
    pub max_processes: Option<u32>,
    /// Processor time of each process of a sandboxed tool, in seconds.
    #[serde(default)]
    pub cpu_seconds: Option<u32>,
    /// Handling of files with several hard links, whose other names may be outside every rule.
    #[serde(default)]
    pub hard_links: HardLinks,
    /// Paths on which approvals required by this file are waived: for calls whose paths are all in this list.
    /// Approvals required by modes, `safety.yaml` and the tool's definition still apply.
    #[serde(default)]
    pub unattended_paths: Vec<Located<String>>,
    /// Records what the rules of this entry would deny, and judges by the tool's definition and the
    /// workspaces instead. Modes, limits of modes, approvals, the sandbox and the built-in denials still
    /// apply.
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    pub shadow: Option<Located<bool>>,
    /// Cost of one call, in the unit of the cost caps of worker sessions. Default 0.
    #[serde(default)]
    #[schemars(with = "Option<f64>", range(min = 0))]
    pub cost_per_call: Option<Located<f64>>,
    /// Maximum size of its output in bytes.
    #[serde(default)]
    #[schemars(with = "Option<u64>")]
    pub max_output_bytes: Option<Located<u64>>,
    /// Time in seconds for which a result is returned again to an equal call that the policy permits. Only for
    /// read-only tools of which Sinew knows the files that they read. Absent means never.
    #[serde(default)]
    #[schemars(with = "Option<u64>", range(min = 1, max = 86400))]
    pub cache_seconds: Option<Located<u64>>,
    /// Callers that share cached results. Default caller.
    #[serde(default)]
    pub cache_scope: ResultCacheScope,
    /// Example calls with the expected verdict. A policy that breaks its own example does not load.
    #[serde(default)]
    pub examples: Vec<Located<ExampleEntry>>,
}

/// Callers that share a cached result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResultCacheScope {
    /// Each caller has its own results.
    #[default]
    Caller,
    /// Every caller gets the result that any caller obtained.
    All,
}

/// Handling of files with several hard links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HardLinks {
    /// They are refused, unless every name is known and permitted.
    #[default]
    Refuse,
    /// They are treated like any other file.
    Allow,
}

/// Isolation level of a sandboxed process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Everything that the operating system supports.
    Full,
    /// Some layers are missing.
    Reduced,
}

impl Isolation {
    /// Returns the word used in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Isolation::Full => "full",
            Isolation::Reduced => "reduced",
        }
    }
}

/// Network access of a sandboxed process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkAccess {
    /// No network.
    Off,
    /// A private loopback interface only.
    Loopback,
    /// The network of the machine.
    Full,
}

/// Example call with the expected verdict.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExampleEntry {
    /// Arguments of the call.
    pub arguments: Arguments,
    /// Mode in which it is judged.
    #[schemars(with = "Mode")]
    pub mode: String,
    /// Expected verdict.
    pub expect: VerdictKind,
}

/// Verdict as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// The call runs.
    Allow,
    /// Approval is required.
    Ask,
    /// The call is denied.
    Deny,
}

impl std::fmt::Display for VerdictKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            VerdictKind::Allow => "allow",
            VerdictKind::Ask => "ask",
            VerdictKind::Deny => "deny",
        })
    }
}
