//! Checked manifest and the tool definitions it produces.

use std::path::Path;

use serde_json::{Map, Value, json};
use strict_yaml::{Document, DocumentError};
use tool::definition::DefinitionError;
use tool::result::ModelText;
use tool::{Category, RiskLevel, ToolDefinition, ToolSpec};

use crate::diagnostic::{Diagnostic, DiagnosticCode};
use crate::knowledge_file::{AntiPattern, ApiComplexity, CommandExample, ValidatorFile};
use crate::manifest_file::{
    CliSection, KnowledgeStrategy, LocalSection, ManifestCommandSpec, McpSection, McpServerTransport,
    MetaSection, ToolFile, ToolType,
};
use crate::schema_version::SchemaVersion;

/// Argument with the words after those of a command without `argv`.
pub const ARGS_ARGUMENT: &str = "args";

/// Positions of values that other manifests may conflict with.
#[derive(Clone, Debug, Default)]
pub(crate) struct ManifestPositions {
    /// Line and column of the id.
    pub(crate) id: (u64, u64),
    /// Line and column of each tool that a meta tool calls.
    pub(crate) aggregates: Vec<(u64, u64)>,
    /// Id, line and column of each function.
    pub(crate) functions: Vec<(String, (u64, u64))>,
}

/// Checked manifest.
#[derive(Clone, Debug)]
pub struct Manifest {
    document: Document,
    positions: ManifestPositions,
    version: SchemaVersion,
    file: ToolFile,
    commands: Vec<ManifestCommandSpec>,
    definitions: Vec<ToolDefinition>,
}

impl Manifest {
    /// Creates the checked form of a file, or returns the index of the command that is not a valid tool, and
    /// the error.
    pub(crate) fn new(
        (document, positions): (&Document, ManifestPositions),
        mut file: ToolFile,
        version: SchemaVersion,
    ) -> Result<Self, (usize, DefinitionError)> {
        let commands = std::mem::take(&mut file.commands).into_iter().map(|entry| entry.into_command());
        let commands: Vec<ManifestCommandSpec> = commands.collect();
        let mut definitions = Vec::new();
        for (index, command) in commands.iter().enumerate() {
            definitions.push(spec(&file, command).check().map_err(|error| (index, error))?);
        }
        let document = document.clone();
        Ok(Manifest { document, positions, version, file, commands, definitions })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        Path::new(self.document.name())
    }

    /// Returns the text of the file.
    pub fn text(&self) -> &str {
        self.document.text()
    }

    /// Creates an error at one of its positions.
    pub(crate) fn error_at(&self, position: (u64, u64), message: &str) -> DocumentError {
        self.document.error_at(position.0, position.1, message)
    }

    /// Creates a diagnostic for a command that cannot become a tool.
    pub fn unusable_command(&self, command: &str, reason: &str) -> Diagnostic {
        let error =
            self.error_at(self.positions.id, &format!("the tool `{command}` cannot be loaded: {reason}"));
        let field = "tool.commands".to_owned();
        Diagnostic {
            code: DiagnosticCode::InvalidValue,
            field,
            error: error.with_suggestion("correct its `parameters` or `output_schema`"),
        }
    }

    /// Creates a diagnostic for a function that failed on an example of this manifest.
    pub fn failed_function(&self, id: &str, command: &str, reason: &str) -> Diagnostic {
        let known = self.positions.functions.iter().find(|(known, _)| known == id);
        let position = known.map_or(self.positions.id, |(_, position)| *position);
        let message = format!("`{id}` fails on the success example of `{command}`: {reason}");
        Diagnostic {
            code: DiagnosticCode::FunctionFailed,
            field: format!("tool.executable_knowledge.{id}"),
            error: self.error_at(position, &message).with_suggestion("correct the function or the example"),
        }
    }

    pub(crate) fn positions(&self) -> &ManifestPositions {
        &self.positions
    }

    /// Returns the schema version of the file.
    pub fn schema_version(&self) -> SchemaVersion {
        self.version
    }

    /// Returns the id.
    pub fn id(&self) -> &str {
        &self.file.id
    }

    /// Returns the id as used in tool names, with disallowed characters replaced.
    pub fn callable_id(&self) -> String {
        callable_name(&self.file.id)
    }

    /// Returns the id as used in names, with the major version unless that is 1. Two versions of a tool have
    /// different keys.
    pub fn version_key(&self) -> String {
        match self.file.version.split('.').next() {
            Some("1") | None => self.callable_id(),
            Some(major) => format!("{}@{major}", self.callable_id()),
        }
    }

    /// Returns the tool type.
    pub fn kind(&self) -> ToolType {
        self.file.kind
    }

    /// Returns the display name.
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// Returns the version of the tool.
    pub fn version(&self) -> &str {
        &self.file.version
    }

    /// Returns the description.
    pub fn description(&self) -> &str {
        &self.file.description
    }

    /// Returns the strategy that decides which knowledge reaches the caller.
    pub fn strategy(&self) -> KnowledgeStrategy {
        self.file.knowledge_strategy
    }

    /// Returns the commands, each with the tool definition made from it, in file order.
    pub fn tools(&self) -> impl Iterator<Item = (&ManifestCommandSpec, &ToolDefinition)> {
        self.commands.iter().zip(&self.definitions)
    }

    /// Returns how the arguments of a command's program are built.
    pub fn command_line(&self, command: &ManifestCommandSpec) -> CommandLine {
        command_line(&self.file, command)
    }

    /// Returns the `argv` that a command without a clear command line could have.
    pub fn suggested_argv(&self, command: &ManifestCommandSpec) -> String {
        let args = command.name.split(['_', ' ']).map(|word| format!("{word:?}"));
        let parameters = command.parameters.iter().flatten().map(|one| format!("\"{{{}}}\"", one.name));
        format!("`argv: [{}]`", args.chain(parameters).collect::<Vec<_>>().join(", "))
    }

    /// Returns the unchecked definition of a command as a tool.
    pub fn spec(&self, command: &ManifestCommandSpec) -> ToolSpec {
        spec(&self.file, command)
    }

    /// Returns the id and source of each helper function, which other sections refer to.
    pub fn helpers(&self) -> impl Iterator<Item = (&str, &str)> {
        let helpers = self.file.executable_knowledge.helpers.iter();
        helpers.map(|helper| (helper.id.as_str(), helper.function.as_str()))
    }

    /// Returns the id and source of each function that transforms input or output.
    pub fn processors(&self) -> impl Iterator<Item = (&str, &str)> {
        let processors = self.file.executable_knowledge.processors.iter();
        processors.map(|processor| (processor.id.as_str(), processor.function.as_str()))
    }

    /// Returns the validators of a command, which can refuse a call before it runs.
    pub fn validators(&self, command: &str) -> impl Iterator<Item = &ValidatorFile> {
        let validators = self.file.executable_knowledge.validators.iter();
        validators.filter(move |validator| validator.validates == command)
    }

    /// Returns the description of the API behind the tool.
    pub fn api(&self) -> &ApiComplexity {
        &self.file.api_complexity
    }

    /// Returns the common mistakes.
    pub fn anti_patterns(&self) -> &[AntiPattern] {
        &self.file.anti_patterns
    }

    /// Returns the examples of a command.
    pub fn examples(&self, command: &str) -> &[CommandExample] {
        self.file.examples.get(command).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the section for `type: mcp`, if the manifest has that type.
    pub fn mcp(&self) -> Option<&McpSection> {
        self.file.mcp_specific.as_ref().filter(|_| self.kind() == ToolType::Mcp)
    }

    /// Returns the section for `type: cli`, if the manifest has that type.
    pub fn cli(&self) -> Option<&CliSection> {
        self.file.cli_specific.as_ref().filter(|_| self.kind() == ToolType::Cli)
    }

    /// Returns the section for `type: local`, if the manifest has that type.
    pub fn local(&self) -> Option<&LocalSection> {
        self.file.local_specific.as_ref().filter(|_| self.kind() == ToolType::Local)
    }

    /// Returns the section for `type: meta`, if the manifest has that type.
    pub fn meta(&self) -> Option<&MetaSection> {
        self.file.meta_specific.as_ref().filter(|_| self.kind() == ToolType::Meta)
    }
}

/// Builds the unchecked definition of a command. Missing facts default to the worst case: the tool changes
/// the machine, at high risk. It is always sandboxed; the manifest cannot change that.
fn spec(file: &ToolFile, command: &ManifestCommandSpec) -> ToolSpec {
    let name = format!("{}.{}", callable_name(&file.id), callable_name(&command.name));
    let description = command.description.as_deref().unwrap_or(&file.description);
    let category = match is_remote(file) {
        true => Category::NETWORK,
        false => command.category.clone().unwrap_or(Category::SYSTEM_WRITE),
    };
    let risk = command.risk_level.unwrap_or(RiskLevel::High).max(minimum_risk(&category));
    let mut spec = ToolSpec::new(&name, description, category, risk);
    spec.version.clone_from(&file.version);
    spec.requires_sandbox = file.kind != ToolType::Meta && !is_remote(file);
    spec.requires_approval = command.requires_approval;
    spec.wants_session = command.wants_session;
    if let Some(modes) = &command.allowed_modes {
        spec.allowed_modes.clone_from(modes);
    }
    spec.timeout_seconds = command.timeout_seconds.unwrap_or(spec.timeout_seconds);
    spec.rate_limit_per_hour = command.rate_limit_per_hour;
    spec.output_schema = command.output_schema.clone().map(Value::Object);
    spec.model_text = Some(ModelText::PROGRAM_REPORT);
    spec.annotations = command.annotations;
    let examples = file.examples.get(&command.name).map(Vec::as_slice).unwrap_or_default();
    let success = || examples.iter().filter(|example| example.scenario == "success");
    spec.example = success().next().map(|example| Value::Object(example.input.clone()));
    spec.input_schema = match (&command.parameters, &command.input_schema) {
        (Some(parameters), _) => {
            spec.parameters.clone_from(parameters);
            None
        }
        (None, Some(schema)) => Some(Value::Object(schema.clone())),
        (None, None) => match command_line(file, command) {
            CommandLine::Implicit(args) => Some(implicit_schema(file, &args)),
            CommandLine::Declared | CommandLine::Unclear => Some(inferred_schema(
                success().map(|example| &example.input),
                &required_fields(file, command),
            )),
        },
    };
    spec
}

/// Returns true for a server on the network, which the local sandbox cannot confine and every call to which
/// leaves the machine.
fn is_remote(file: &ToolFile) -> bool {
    let mcp = file.mcp_specific.as_ref().filter(|_| file.kind == ToolType::Mcp);
    mcp.is_some_and(|section| section.transport != McpServerTransport::Stdio)
}

/// Returns the minimum risk level of a category, which the manifest cannot lower. Only the claim that a tool
/// changes nothing is trusted, because the sandbox enforces it.
fn minimum_risk(category: &Category) -> RiskLevel {
    match category {
        read_only if *read_only == Category::READ_ONLY => RiskLevel::Low,
        network if *network == Category::NETWORK => RiskLevel::Medium,
        _ => RiskLevel::High,
    }
}

/// Source of the arguments of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandLine {
    /// `argv` of the command; also the tool types without a command line.
    Declared,
    /// These words of the command's name, followed by the words of the argument `args`.
    Implicit(Vec<String>),
    /// Neither: the command cannot be called.
    Unclear,
}

/// Returns how the arguments of a command's program are built. Without `argv`, the words of the name are used:
/// `gh pr list` runs `gh` with `pr list`. Declared parameters would have no effect, and a name such as
/// `list_issues` is not how a program names a subcommand.
fn command_line(file: &ToolFile, command: &ManifestCommandSpec) -> CommandLine {
    let Some(section) = file.cli_specific.as_ref().filter(|_| file.kind == ToolType::Cli) else {
        return CommandLine::Declared;
    };
    if !command.argv.is_empty() {
        return CommandLine::Declared;
    }
    let program = section.executable.rsplit('/').next().unwrap_or(&section.executable);
    let mut args: Vec<String> = command.name.split_whitespace().map(str::to_owned).collect();
    if args.first().is_some_and(|word| word == program) {
        args.remove(0);
    }
    let has_parameters = command.parameters.as_ref().is_some_and(|list| !list.is_empty());
    let is_subcommand = |word: &String| {
        word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-:".contains(c))
    };
    match !has_parameters && command.input_schema.is_none() && args.iter().all(is_subcommand) {
        true => CommandLine::Implicit(args),
        false => CommandLine::Unclear,
    }
}

/// Returns the schema of a command without `argv`: the words that follow its name. Governance judges the whole command.
fn implicit_schema(file: &ToolFile, args: &[String]) -> Value {
    let program = file.cli_specific.as_ref().map(|section| section.executable.as_str());
    let prefix: Vec<&str> = program.into_iter().chain(args.iter().map(String::as_str)).collect();
    let description = format!("Words after `{}`, one argument each; no shell is used", prefix.join(" "));
    json!({"type": "object", "additionalProperties": false, "properties": {ARGS_ARGUMENT: {"type": "array",
        "items": {"type": "string"}, "default": [], "format": "command", tool::definition::COMMAND_PREFIX: prefix,
        "description": description}}})
}

/// Returns the fields that the declarative checks of a command require.
fn required_fields(file: &ToolFile, command: &ManifestCommandSpec) -> Vec<String> {
    let validators = file.executable_knowledge.validators.iter();
    let checks = validators.filter(|one| one.validates == command.name).flat_map(|one| &one.checks);
    let mut fields: Vec<String> = checks.flat_map(|check| check.required_fields.iter().cloned()).collect();
    fields.sort();
    fields.dedup();
    fields
}

/// Infers a schema from successful examples. It is open, because examples are never complete, and marked as
/// inferred, so that readers can distinguish it from a declared schema. An example does not make an argument
/// required: only the declarative checks of the manifest do.
fn inferred_schema<'e>(inputs: impl Iterator<Item = &'e Map<String, Value>>, required: &[String]) -> Value {
    let mut properties = Map::new();
    for (name, value) in inputs.flatten() {
        let kind = match value {
            Value::String(_) => "string",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::Bool(_) => "boolean",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
            Value::Null => continue,
        };
        let known = properties.entry(name.clone()).or_insert_with(|| json!({"type": kind}));
        if known["type"] != kind {
            *known = json!({});
        }
    }
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": true,
        "x-sinew-inferred": true})
}

/// Converts a name to the form that tool names have. An id in another form still loads, under the converted
/// name.
fn callable_name(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c.to_ascii_lowercase() } else { '-' }
    };
    name.chars().map(plain).collect()
}
