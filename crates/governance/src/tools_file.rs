//! `tools.yaml` as it is written. What its words mean is checked in `tool_rules`.

use document::{Located, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Arguments, Mode, RiskLevel};

use crate::command_entry::CommandEntry;

/// What each tool may do. A tool that is not listed is governed by its definition and the caller's workspaces.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "tools.yaml")]
pub struct ToolsFile {
    /// Kinds of tools, and what holds for all of a kind.
    #[serde(default)]
    pub tool_categories: Table<CategoryEntry>,
    /// The tools, by name.
    pub tools: Table<ToolEntry>,
}

/// One kind of tools.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CategoryEntry {
    /// For people.
    #[serde(default)]
    pub description: String,
    /// The least risk its tools are treated as having.
    #[serde(default)]
    pub risk_level: Option<RiskLevel>,
    /// Modes in which a human is asked.
    #[serde(default)]
    #[schemars(with = "Vec<Mode>")]
    pub requires_approval_in_modes: Vec<Located<String>>,
    /// Whether its tools go out through the gateway of `safety.yaml` only. Those of the category network always do.
    #[serde(default)]
    pub requires_outbound_gateway: bool,
}

/// The rules of one tool.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolEntry {
    /// The kind of tool, where it differs from the definition's.
    #[serde(default)]
    #[schemars(with = "Option<tool::Category>")]
    pub category: Option<Located<String>>,
    /// Modes it runs in; absent means those of its definition. A mode in none of the three lists is denied.
    #[serde(default)]
    #[schemars(with = "Option<Vec<Mode>>")]
    pub allowed_in_modes: Option<Located<Vec<Located<String>>>>,
    /// Modes it runs in after a human agreed.
    #[serde(default)]
    #[schemars(with = "Vec<Mode>")]
    pub requires_approval_in_modes: Vec<Located<String>>,
    /// Modes it never runs in, whatever the other lists say.
    #[serde(default)]
    #[schemars(with = "Vec<Mode>")]
    pub forbidden_in_modes: Vec<Located<String>>,
    /// Where it may go; absent means the caller's workspaces, empty means nowhere.
    #[serde(default)]
    pub allowed_paths: Option<Located<Vec<Located<String>>>>,
    /// Whether a pattern in `allowed_paths` may stand for every path of the machine. Without it such a list does not load.
    #[serde(default)]
    pub allow_every_path: bool,
    /// Where it may never go, whatever else is allowed.
    #[serde(default)]
    pub forbidden_paths: Vec<Located<String>>,
    /// The largest file it may write or read, in units of 1,048,576 bytes.
    #[serde(default)]
    #[schemars(with = "Option<u32>")]
    pub max_file_size_mb: Option<Located<u32>>,
    /// Whether a human is asked every time.
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    pub requires_approval: Option<Located<bool>>,
    /// Whether it must run confined. Where this machine cannot confine it, it is refused.
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    pub requires_sandbox: Option<Located<bool>>,
    /// The least confinement it may run under; below it the call is refused.
    #[serde(default)]
    #[schemars(with = "Option<Isolation>")]
    pub min_isolation: Option<Located<Isolation>>,
    /// How long it may run.
    #[serde(default)]
    #[schemars(with = "Option<u64>", range(min = 1, max = 86400))]
    pub timeout_seconds: Option<Located<u64>>,
    /// How often it may run in any hour. 0 means never; absent means as its definition says.
    #[serde(default)]
    #[schemars(with = "Option<u32>")]
    pub rate_limit_per_hour: Option<Located<u32>>,
    /// The only programs it may start, `*` for any; absent means none. Judged where an argument is a command.
    #[serde(default)]
    pub allowed_commands: Option<Located<Vec<Located<CommandEntry>>>>,
    /// Programs it may never start, whatever else is allowed.
    #[serde(default)]
    pub forbidden_commands: Option<Located<Vec<Located<CommandEntry>>>>,
    /// Folders whose programs a confined tool may start by their names, before those of the system: from `bin` in each, or
    /// from the folder itself. It reads what is in them, and writes nothing there.
    #[serde(default)]
    pub program_folders: Vec<Located<String>>,
    /// The only hosts it may reach, of those that the gateway of `safety.yaml` lets anybody reach.
    #[serde(default)]
    pub allowed_domains: Option<Located<Vec<Located<String>>>>,
    /// What a confined tool reaches. Off where nothing is said.
    #[serde(default)]
    pub network: Option<Network>,
    /// Memory of a confined tool, in units of 1,048,576 bytes; 2048 where nothing is said.
    #[serde(default)]
    pub memory_mb: Option<u32>,
    /// Processes and threads of a confined tool; 256 where nothing is said.
    #[serde(default)]
    pub max_processes: Option<u32>,
    /// Processor time of each process of a confined tool, in seconds.
    #[serde(default)]
    pub cpu_seconds: Option<u32>,
    /// What happens with a file that has a second name, which may lie outside every rule.
    #[serde(default)]
    pub hard_links: HardLinks,
    /// Where what this file asks a human about is not asked: for calls of which every path leads into this list. What
    /// the modes, `safety.yaml` and the tool's own definition ask about is asked all the same.
    #[serde(default)]
    pub unattended_paths: Vec<Located<String>>,
    /// Record what the rules of this entry would deny, and judge as if they were not there: by the tool's definition
    /// and the workspaces. Modes, limits of modes, approvals, confinement and the floor hold all the same.
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    pub shadow: Option<Located<bool>>,
    /// What one call costs, in the unit of the cost caps of worker sessions; nothing where it is not said.
    #[serde(default)]
    #[schemars(with = "Option<f64>", range(min = 0))]
    pub cost_per_call: Option<Located<f64>>,
    /// The most it may answer.
    #[serde(default)]
    #[schemars(with = "Option<u64>")]
    pub max_output_bytes: Option<Located<u64>>,
    /// Calls and what must become of them. A policy that breaks its own example does not load.
    #[serde(default)]
    pub examples: Vec<Located<ExampleEntry>>,
}

/// What happens with files that have several names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HardLinks {
    /// They are refused.
    #[default]
    Refuse,
    /// They are files like any other.
    Allow,
}

/// How far a process is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// As far as the system can.
    Full,
    /// With parts missing.
    Reduced,
}

impl Isolation {
    /// The word used in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Isolation::Full => "full",
            Isolation::Reduced => "reduced",
        }
    }
}

/// What a confined process reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Nothing.
    Off,
    /// An interface of its own that leads nowhere.
    Loopback,
    /// What the machine reaches.
    Full,
}

/// A call and what must become of it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExampleEntry {
    /// Its arguments.
    pub arguments: Arguments,
    /// The mode it is judged in.
    #[schemars(with = "Mode")]
    pub mode: String,
    /// The verdict.
    pub expect: Expectation,
}

/// A verdict, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Expectation {
    /// It runs.
    Allow,
    /// A human is asked.
    Ask,
    /// It does not run.
    Deny,
}

impl std::fmt::Display for Expectation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Expectation::Allow => "allow",
            Expectation::Ask => "ask",
            Expectation::Deny => "deny",
        })
    }
}
