//! Raw file types of a manifest: the core fields of schema 1.0, and the section of each tool type. Nothing
//! here is checked.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use tool::definition::{Annotations, ToolParameter};
use tool::{Category, Mode, RiskLevel};

use crate::knowledge_file::{
    AntiPattern, ApiComplexity, ExamplesByCommand, ExecutableKnowledge, readable_examples, readable_items,
};

/// Manifest of a Sinew tool, schema 1.0 or 2.0.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Manifest")]
pub struct ManifestFile {
    /// The tool. The only root key.
    pub(crate) tool: ToolFile,
}

/// The tool. Unknown keys are allowed, because older manifests have their own; they are reported and ignored.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct ToolFile {
    /// Schema version, 1.0 or 2.0. If absent, it is detected from the sections that are present.
    #[serde(default)]
    #[schemars(schema_with = "schema_version")]
    #[allow(dead_code, reason = "read from the tree, before anything else is")]
    pub(crate) schema_version: Option<Value>,
    /// Unique id of the tool, in kebab-case.
    #[schemars(length(min = 1))]
    pub(crate) id: String,
    /// Type of the tool, which decides how it is run.
    #[serde(rename = "type")]
    pub(crate) kind: ToolType,
    /// Display name.
    #[schemars(length(min = 1))]
    pub(crate) name: String,
    /// Semantic version: three numbers, in quotes if your editor requires it.
    #[schemars(extend("format" = "semver"))]
    pub(crate) version: String,
    /// Purpose of the tool.
    #[schemars(length(min = 1))]
    pub(crate) description: String,
    /// Strategy that decides which knowledge reaches the caller.
    #[serde(default)]
    pub(crate) knowledge_strategy: KnowledgeStrategy,
    /// Commands; each becomes a tool `id.command`.
    #[serde(default)]
    pub(crate) commands: Vec<ManifestCommandEntry>,
    /// JavaScript functions. Schema 2.0.
    #[serde(default)]
    pub(crate) executable_knowledge: ExecutableKnowledge,
    /// Peculiarities of the API behind the tool. Schema 2.0.
    #[serde(default)]
    pub(crate) api_complexity: ApiComplexity,
    /// Common mistakes, and what to do instead. Schema 2.0.
    #[serde(default, deserialize_with = "readable_items")]
    pub(crate) anti_patterns: Vec<AntiPattern>,
    /// Example calls and their outcomes, by command.
    #[serde(default, deserialize_with = "readable_examples")]
    pub(crate) examples: ExamplesByCommand,
    /// Section for `type: mcp`.
    pub(crate) mcp_specific: Option<McpSection>,
    /// Section for `type: cli`.
    pub(crate) cli_specific: Option<CliSection>,
    /// Section for `type: local`.
    pub(crate) local_specific: Option<LocalSection>,
    /// Section for `type: meta`.
    pub(crate) meta_specific: Option<MetaSection>,
}

fn schema_version(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"enum": ["1.0", "2.0", 1.0, 2.0, 1, 2, "1", "2"]})
}

/// Type of a tool, which decides how it is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolType {
    /// Server for the Model Context Protocol.
    Mcp,
    /// Program with a command line.
    Cli,
    /// Script or program supplied with the manifest.
    Local,
    /// Sequence of other tools.
    Meta,
}

impl ToolType {
    /// Returns the word used in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            ToolType::Mcp => "mcp",
            ToolType::Cli => "cli",
            ToolType::Local => "local",
            ToolType::Meta => "meta",
        }
    }
}

/// Strategy that decides which knowledge reaches the caller of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KnowledgeStrategy {
    /// Refusals contain quirks, anti-patterns and examples.
    #[default]
    Embedded,
    /// Only a reference.
    External,
    /// Same as `embedded`.
    Hybrid,
    /// Same as `embedded`, and JavaScript functions run.
    Executable,
    /// No knowledge.
    None,
}

impl KnowledgeStrategy {
    /// Returns true if refusals contain quirks and anti-patterns.
    pub fn includes_guidance(self) -> bool {
        matches!(
            self,
            KnowledgeStrategy::Embedded | KnowledgeStrategy::Hybrid | KnowledgeStrategy::Executable
        )
    }
}

/// Command: its name only, or its full declaration.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum ManifestCommandEntry {
    /// Name only.
    Name(String),
    /// Full declaration.
    Full(Box<ManifestCommandSpec>),
}

/// Command declaration. All settings are requests: policy decides, and a manifest can only restrict itself
/// further.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct ManifestCommandSpec {
    /// Name in snake_case or kebab-case.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Description of the command; defaults to that of the tool.
    pub description: Option<String>,
    /// Parameters. If absent, they are inferred from the examples.
    pub parameters: Option<Vec<ToolParameter>>,
    /// Whole JSON Schema of the arguments, instead of `parameters`.
    pub input_schema: Option<Map<String, Value>>,
    /// For `type: cli`: the arguments of the program. `{name}` is replaced by one whole argument; a list is
    /// omitted if its argument is absent. Without it, and without parameters, the words of the name are the
    /// arguments, followed by the words of the argument `args`.
    #[serde(default)]
    pub argv: Vec<ArgvPart>,
    /// Form of the output: text or JSON.
    #[serde(default)]
    pub output: OutputForm,
    /// Schema of the output.
    pub output_schema: Option<Map<String, Value>>,
    /// Governance category.
    pub category: Option<Category>,
    /// Level of harm the command can do.
    pub risk_level: Option<RiskLevel>,
    /// Modes the command may run in.
    pub allowed_modes: Option<Vec<Mode>>,
    /// True if every call needs operator approval.
    #[serde(default)]
    pub requires_approval: bool,
    /// True if the command receives the id of the caller's worker session as `session_id`. It must not
    /// declare such a parameter, and a call that supplies one is refused.
    #[serde(default)]
    pub wants_session: bool,
    /// Maximum run time in seconds.
    pub timeout_seconds: Option<u64>,
    /// Maximum number of runs per sliding hour.
    pub rate_limit_per_hour: Option<u32>,
    /// Id of the processor that transforms the arguments before the command runs.
    pub process_input: Option<String>,
    /// Id of the processor that transforms the output.
    pub process_output: Option<String>,
    /// Hints for MCP clients.
    #[serde(default)]
    pub annotations: Annotations,
}

/// Part of a command line.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ArgvPart {
    /// Literal word, or an argument.
    Word(String),
    /// Words that are omitted if an argument among them is absent or `false`.
    Optional(Vec<String>),
}

impl ArgvPart {
    /// Returns the words as written.
    pub fn arguments(&self) -> &[String] {
        match self {
            ArgvPart::Word(word) => std::slice::from_ref(word),
            ArgvPart::Optional(arguments) => arguments,
        }
    }
}

/// Form of the output of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OutputForm {
    /// Text.
    #[default]
    Text,
    /// One JSON value.
    Json,
}

impl ManifestCommandEntry {
    /// Converts to a command. An entry with a name only gets defaults for everything else.
    pub(crate) fn into_command(self) -> ManifestCommandSpec {
        match self {
            ManifestCommandEntry::Full(command) => *command,
            ManifestCommandEntry::Name(name) => {
                ManifestCommandSpec { name, ..ManifestCommandSpec::default() }
            }
        }
    }
}

/// Connection to an MCP server.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct McpSection {
    /// Command that starts the server, split at spaces; no shell is used.
    pub server_command: Option<String>,
    /// Further arguments of the server, one word each.
    #[serde(default)]
    pub server_args: Vec<String>,
    /// Environment variables that a started server needs. The manifest names them; the operator supplies each
    /// value through `keys` in `sinew.yaml`.
    #[serde(default)]
    pub environment_variables: Vec<EnvironmentVariable>,
    /// Transport.
    #[serde(default)]
    pub transport: McpServerTransport,
    /// Address, for a network transport.
    pub url: Option<String>,
    /// Key that the server requires, for a network transport. The manifest never contains the key itself.
    pub key: Option<KeyRequirement>,
    /// Health check.
    pub health_check: Option<HealthCheck>,
}

/// Environment variable that a started server needs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct EnvironmentVariable {
    /// Name of the variable.
    #[schemars(length(min = 1))]
    pub name: String,
}

impl EnvironmentVariable {
    /// Returns the name below `keys` in `sinew.yaml` under which the operator supplies the value.
    pub fn key_name(&self) -> String {
        self.name.to_ascii_lowercase()
    }
}

/// Key that a server requires, and its header.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyRequirement {
    /// Name below `keys` in `sinew.yaml`, where its owner and storage are configured.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Header that contains only the key. If absent, the key is sent as `Authorization: Bearer KEY`.
    #[schemars(length(min = 1))]
    pub header: Option<String>,
}

/// Transport to an MCP server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpServerTransport {
    /// Standard input and output.
    #[default]
    Stdio,
    /// HTTP with server-sent events, as used until 2025.
    Sse,
    /// WebSocket.
    Websocket,
    /// Streamable HTTP, as used since 2025.
    StreamableHttp,
}

/// Health check of a tool.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct HealthCheck {
    /// Method of the check.
    pub method: HealthMethod,
    /// Command to call.
    pub command: Option<String>,
    /// Part of the response that must be present.
    pub expected_response: Option<Map<String, Value>>,
    /// Time limit of the check in milliseconds.
    pub timeout_ms: Option<u64>,
}

/// Method of a health check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthMethod {
    /// Call one of its commands.
    ToolCall,
    /// Run a program.
    Command,
    /// Send an HTTP request.
    Http,
}

/// Program with a command line.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct CliSection {
    /// Name on the search path, or absolute path.
    #[schemars(length(min = 1))]
    pub executable: String,
    /// Command that succeeds if the program is installed.
    pub install_check: Option<String>,
    /// Installation instructions.
    pub install_guide: Option<String>,
}

impl CliSection {
    /// Returns the arguments of the install check. Returns none if the check names another program.
    pub fn install_check_args(&self) -> Option<Vec<&str>> {
        let mut arguments = self.install_check.as_deref()?.split_whitespace();
        (arguments.next() == Some(self.executable.as_str())).then(|| arguments.collect())
    }
}

/// Script or program supplied with the manifest: arguments as JSON on standard input, output as JSON on
/// standard output.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct LocalSection {
    /// File, relative to the manifest.
    #[schemars(length(min = 1))]
    pub entry_point: String,
    /// Runtime of the script.
    #[serde(default)]
    pub runtime: LocalRuntime,
    /// Packages the script needs.
    #[serde(default)]
    pub dependencies: Vec<String>,
}

/// Runtime of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LocalRuntime {
    /// Node.js.
    #[default]
    Node,
    /// Python 3.
    Python,
    /// None: the file is executable.
    Binary,
}

/// Sequence of other tools.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct MetaSection {
    /// Tools it may call.
    pub aggregates: Vec<String>,
    /// Helper that decides which tools are called, in which order: `helpers.ID`.
    pub orchestration: Option<String>,
}
