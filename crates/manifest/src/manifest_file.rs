//! A manifest file as it is written: the core of schema 1.0, and the sections of each type of tool. Raw: nothing here
//! has been checked.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use tool::{Annotations, Category, Mode, RiskLevel, ToolParameter};

use crate::knowledge_file::{AntiPattern, ApiComplexity, Examples, ExecutableKnowledge};

/// A tool for Sinew, schema 1.0 or 2.0.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Manifest")]
pub struct ManifestFile {
    /// The tool. Nothing stands beside it.
    pub(crate) tool: ToolFile,
}

/// The tool itself. Not closed: older manifests have keys of their own here, which are reported and not read.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct ToolFile {
    /// 1.0 or 2.0; found out by the sections that are there if it is left out.
    #[serde(default)]
    #[schemars(schema_with = "schema_version")]
    #[allow(dead_code, reason = "read from the tree, before anything else is")]
    pub(crate) schema_version: Option<Value>,
    /// What the tool is called by programs: kebab-case, unique.
    #[schemars(length(min = 1))]
    pub(crate) id: String,
    /// What runs it.
    #[serde(rename = "type")]
    pub(crate) kind: ToolType,
    /// What people call it.
    #[schemars(length(min = 1))]
    pub(crate) name: String,
    /// A semantic version: three numbers, quoted if your editor asks for it.
    #[schemars(extend("format" = "semver"))]
    pub(crate) version: String,
    /// What it is for.
    #[schemars(length(min = 1))]
    pub(crate) description: String,
    /// What of its knowledge reaches the caller.
    #[serde(default)]
    pub(crate) knowledge_strategy: KnowledgeStrategy,
    /// What it can do; each becomes a tool, `id.command`.
    #[serde(default)]
    pub(crate) commands: Vec<CommandEntry>,
    /// Functions in JavaScript. Schema 2.0.
    #[serde(default)]
    pub(crate) executable_knowledge: ExecutableKnowledge,
    /// What is odd about the interface behind it. Schema 2.0.
    #[serde(default)]
    pub(crate) api_complexity: ApiComplexity,
    /// Mistakes that are often made, and what to do instead. Schema 2.0.
    #[serde(default)]
    pub(crate) anti_patterns: Vec<AntiPattern>,
    /// Calls and what becomes of them, by command.
    #[serde(default)]
    pub(crate) examples: Examples,
    /// For `type: mcp`.
    #[serde(default)]
    pub(crate) mcp_specific: Option<McpSection>,
    /// For `type: cli`.
    #[serde(default)]
    pub(crate) cli_specific: Option<CliSection>,
    /// For `type: local`.
    #[serde(default)]
    pub(crate) local_specific: Option<LocalSection>,
    /// For `type: meta`.
    #[serde(default)]
    pub(crate) meta_specific: Option<MetaSection>,
}

fn schema_version(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"enum": ["1.0", "2.0", 1.0, 2.0, 1, 2, "1", "2"]})
}

/// What runs a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolType {
    /// A server that speaks the Model Context Protocol.
    Mcp,
    /// A program with a command line.
    Cli,
    /// A script or program of one's own.
    Local,
    /// Other tools, in order.
    Meta,
}

impl ToolType {
    /// The word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            ToolType::Mcp => "mcp",
            ToolType::Cli => "cli",
            ToolType::Local => "local",
            ToolType::Meta => "meta",
        }
    }
}

/// What of its knowledge reaches the caller of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KnowledgeStrategy {
    /// Quirks, anti-patterns and examples, in refusals.
    #[default]
    Embedded,
    /// A reference only.
    External,
    /// As embedded.
    Hybrid,
    /// As embedded, and JavaScript runs.
    Executable,
    /// None of it.
    None,
}

impl KnowledgeStrategy {
    /// Whether a refusal tells quirks and mistakes.
    pub fn teaches(self) -> bool {
        matches!(
            self,
            KnowledgeStrategy::Embedded | KnowledgeStrategy::Hybrid | KnowledgeStrategy::Executable
        )
    }
}

/// A command: its name alone, or with what it takes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CommandEntry {
    /// Its name.
    Name(String),
    /// Its name and more.
    Full(Box<Command>),
}

/// A command and what it takes. What it asks for is a wish: policy decides, and a manifest can only ask for less.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// snake_case or kebab-case.
    #[schemars(length(min = 1))]
    pub name: String,
    /// What it does; the tool's own description if left out.
    #[serde(default)]
    pub description: Option<String>,
    /// What it takes. Left out, it is inferred from the examples.
    #[serde(default)]
    pub parameters: Option<Vec<ToolParameter>>,
    /// For `type: cli`: the words after the program. `{name}` is one argument, whole; a list is left out where its
    /// argument is not given.
    #[serde(default)]
    pub argv: Vec<ArgvPart>,
    /// What its output is: text, or JSON.
    #[serde(default)]
    pub output: OutputForm,
    /// The schema of what it answers.
    #[serde(default)]
    pub output_schema: Option<Map<String, Value>>,
    /// Its governance category.
    #[serde(default)]
    pub category: Option<Category>,
    /// The harm it can do.
    #[serde(default)]
    pub risk_level: Option<RiskLevel>,
    /// The modes it may run in.
    #[serde(default)]
    pub allowed_modes: Option<Vec<Mode>>,
    /// Whether a human is asked each time.
    #[serde(default)]
    pub requires_approval: bool,
    /// Whether it is handed the worker session of its caller, as `session_id`. It states no such parameter, and whoever
    /// supplies one is refused.
    #[serde(default)]
    pub wants_session: bool,
    /// How long it may run.
    #[serde(default)]
    pub timeout_seconds: Option<u64>,
    /// How often it may run in any hour.
    #[serde(default)]
    pub rate_limit_per_hour: Option<u32>,
    /// A processor that its arguments go through before it runs, by id.
    #[serde(default)]
    pub process_input: Option<String>,
    /// A processor that its output goes through, by id.
    #[serde(default)]
    pub process_output: Option<String>,
    /// Hints for MCP clients.
    #[serde(default)]
    pub annotations: Annotations,
}

/// A part of a command line.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ArgvPart {
    /// A word, or an argument.
    Word(String),
    /// Words that are left out where an argument among them is not given, or is `false`.
    Optional(Vec<String>),
}

impl ArgvPart {
    /// Its words, as they are written.
    pub fn words(&self) -> &[String] {
        match self {
            ArgvPart::Word(word) => std::slice::from_ref(word),
            ArgvPart::Optional(words) => words,
        }
    }
}

/// What a program writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OutputForm {
    /// Text.
    #[default]
    Text,
    /// One JSON value.
    Json,
}

impl CommandEntry {
    /// The command, with nothing but its name where only that was given.
    pub(crate) fn into_command(self) -> Command {
        match self {
            CommandEntry::Full(command) => *command,
            CommandEntry::Name(name) => Command {
                name,
                description: None,
                parameters: None,
                argv: Vec::new(),
                output: OutputForm::Text,
                output_schema: None,
                category: None,
                risk_level: None,
                allowed_modes: None,
                requires_approval: false,
                wants_session: false,
                timeout_seconds: None,
                rate_limit_per_hour: None,
                process_input: None,
                process_output: None,
                annotations: Annotations::default(),
            },
        }
    }
}

/// How an MCP server is reached.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpSection {
    /// The command that starts it, split into words at blanks; there is no shell.
    #[serde(default)]
    pub server_command: Option<String>,
    /// How it is spoken to.
    #[serde(default)]
    pub transport: Transport,
    /// Where it is, for a transport over the network.
    #[serde(default)]
    pub url: Option<String>,
    /// Which key it wants, for a transport over the network. What the key is stands in no manifest.
    #[serde(default)]
    pub key: Option<KeyWish>,
    /// How to see that it works.
    #[serde(default)]
    pub health_check: Option<Health>,
}

/// Which key a server wants, and in which header.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyWish {
    /// Its name below `keys` in `sinew.yaml`, which says whose key it is and where it is kept.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The header that has the key and nothing else. Left out, it is sent as `Authorization: Bearer KEY`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub header: Option<String>,
}

/// How an MCP server is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// By its standard input and output.
    #[default]
    Stdio,
    /// By HTTP with server-sent events, as servers were until 2025.
    Sse,
    /// By a web socket.
    Websocket,
    /// By HTTP, as servers are since 2025.
    StreamableHttp,
}

/// How to see that a tool works.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// What is done.
    pub method: HealthMethod,
    /// The command that is called.
    #[serde(default)]
    pub command: Option<String>,
    /// What it must answer, in part.
    #[serde(default)]
    pub expected_response: Option<Map<String, Value>>,
}

/// How a tool is asked whether it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthMethod {
    /// One of its commands is called.
    ToolCall,
    /// A program is run.
    Command,
    /// An address is asked.
    Http,
}

/// A program with a command line.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CliSection {
    /// Its name on the search path, or its whole path.
    #[schemars(length(min = 1))]
    pub executable: String,
    /// A command that works where it is installed.
    #[serde(default)]
    pub install_check: Option<String>,
    /// How to install it.
    #[serde(default)]
    pub install_guide: Option<String>,
}

impl CliSection {
    /// The words after the program that show whether it works. A check of another program is none of this one.
    pub fn check(&self) -> Option<Vec<&str>> {
        let mut words = self.install_check.as_deref()?.split_whitespace();
        (words.next() == Some(self.executable.as_str())).then(|| words.collect())
    }
}

/// A script or program of one's own: arguments as JSON on standard input, the answer as JSON on standard output.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LocalSection {
    /// The file, as seen from the manifest.
    #[schemars(length(min = 1))]
    pub entry_point: String,
    /// What runs it.
    #[serde(default)]
    pub runtime: LocalRuntime,
    /// Packages it needs.
    #[serde(default)]
    pub dependencies: Vec<String>,
}

/// What runs a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LocalRuntime {
    /// Node.js.
    #[default]
    Node,
    /// Python 3.
    Python,
    /// The file itself.
    Binary,
}

/// Other tools, in order.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetaSection {
    /// The tools it may call.
    pub aggregates: Vec<String>,
    /// The helper that says which, in what order: `helpers.ID`.
    #[serde(default)]
    pub orchestration: Option<String>,
}
