//! A manifest in which nothing is wrong, and the tools it stands for.

use std::path::Path;

use document::{Document, DocumentError};
use serde_json::{Map, Value, json};
use tool::{Category, DefinitionError, RiskLevel, ToolDefinition, ToolSpec};

use crate::detect::SchemaVersion;
use crate::diagnostic::{Code, Diagnostic};
use crate::knowledge_file::{AntiPattern, ApiComplexity, Check, Example};
use crate::manifest_file::{
    CliSection, Command, KnowledgeStrategy, LocalSection, McpSection, MetaSection, ToolFile, ToolType,
    Transport,
};

/// A function of a manifest.
#[derive(Clone, Debug)]
pub struct Function {
    /// What it is called.
    pub id: String,
    /// Its text.
    pub source: String,
}

/// What refuses a call before it runs.
#[derive(Clone, Debug)]
pub struct Validator {
    /// What needs no function.
    pub checks: Vec<Check>,
    /// What does.
    pub function: Function,
    /// The command whose calls it sees.
    pub validates: String,
}

/// Where what other manifests may contradict stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// The id: line and column.
    pub(crate) id: (u64, u64),
    /// Each tool that a meta tool calls.
    pub(crate) aggregates: Vec<(u64, u64)>,
}

/// A checked manifest.
#[derive(Clone, Debug)]
pub struct Manifest {
    document: Document,
    places: Places,
    version: SchemaVersion,
    file: ToolFile,
    commands: Vec<Command>,
    validators: Vec<Validator>,
    definitions: Vec<ToolDefinition>,
}

impl Manifest {
    /// The checked form of a file; else the command that cannot be a tool, and why.
    pub(crate) fn new(
        (document, places): (&Document, Places),
        mut file: ToolFile,
        version: SchemaVersion,
    ) -> Result<Self, (usize, DefinitionError)> {
        let commands = std::mem::take(&mut file.commands).into_iter().map(|entry| entry.into_command());
        let commands: Vec<Command> = commands.collect();
        let mut definitions = Vec::new();
        for (index, command) in commands.iter().enumerate() {
            definitions.push(spec(&file, command).check().map_err(|error| (index, error))?);
        }
        let validators = std::mem::take(&mut file.executable_knowledge.validators).into_iter().map(|raw| {
            let function = Function { id: raw.id, source: raw.function };
            Validator { checks: raw.checks, function, validates: raw.validates }
        });
        let validators = validators.collect();
        let document = document.clone();
        Ok(Manifest { document, places, version, file, commands, validators, definitions })
    }

    /// The file it came from.
    pub fn path(&self) -> &Path {
        Path::new(self.document.name())
    }

    /// The file's text.
    pub fn text(&self) -> &str {
        self.document.text()
    }

    /// An error at one of its places.
    pub(crate) fn error_at(&self, place: (u64, u64), message: &str) -> DocumentError {
        self.document.error_at(place.0, place.1, message)
    }

    /// A diagnostic about one of its commands, which cannot be used as it is.
    pub fn unusable(&self, command: &str, why: &str) -> Diagnostic {
        let place = self.error_at(self.places.id, &format!("the tool `{command}` would be left out: {why}"));
        let field = "tool.commands".to_owned();
        Diagnostic {
            code: Code::InvalidValue,
            field,
            place: place.suggest("mend what it says of its arguments or answers"),
        }
    }

    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// The schema it is written in.
    pub fn schema_version(&self) -> SchemaVersion {
        self.version
    }

    /// What programs call it.
    pub fn id(&self) -> &str {
        &self.file.id
    }

    /// The same as the names of its tools begin with, which any file may have.
    pub fn callable_id(&self) -> String {
        callable(&self.file.id)
    }

    /// What runs it.
    pub fn kind(&self) -> ToolType {
        self.file.kind
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// Its version.
    pub fn version(&self) -> &str {
        &self.file.version
    }

    /// What it is for.
    pub fn description(&self) -> &str {
        &self.file.description
    }

    /// What of its knowledge reaches the caller.
    pub fn strategy(&self) -> KnowledgeStrategy {
        self.file.knowledge_strategy
    }

    /// What it can do, and for each the tool it becomes, in the same order.
    pub fn tools(&self) -> impl Iterator<Item = (&Command, &ToolDefinition)> {
        self.commands.iter().zip(&self.definitions)
    }

    /// What a command of this manifest says of itself as a tool.
    pub fn spec(&self, command: &Command) -> ToolSpec {
        spec(&self.file, command)
    }

    /// Functions that others refer to.
    pub fn helpers(&self) -> impl Iterator<Item = Function> {
        let helpers = self.file.executable_knowledge.helpers.iter();
        helpers.map(|helper| Function { id: helper.id.clone(), source: helper.function.clone() })
    }

    /// Functions that change what goes in or comes out.
    pub fn processors(&self) -> impl Iterator<Item = Function> {
        let processors = self.file.executable_knowledge.processors.iter();
        processors.map(|one| Function { id: one.id.clone(), source: one.function.clone() })
    }

    /// What refuses a call of this command.
    pub fn validators(&self, command: &str) -> impl Iterator<Item = &Validator> {
        self.validators.iter().filter(move |validator| validator.validates == command)
    }

    /// What is odd about the interface behind it.
    pub fn api(&self) -> &ApiComplexity {
        &self.file.api_complexity
    }

    /// Mistakes that are often made.
    pub fn anti_patterns(&self) -> &[AntiPattern] {
        &self.file.anti_patterns
    }

    /// The examples of a command.
    pub fn examples(&self, command: &str) -> &[Example] {
        self.file.examples.get(command).map(Vec::as_slice).unwrap_or_default()
    }

    /// Its section for `type: mcp`, if it is one.
    pub fn mcp(&self) -> Option<&McpSection> {
        self.file.mcp_specific.as_ref().filter(|_| self.kind() == ToolType::Mcp)
    }

    /// Its section for `type: cli`, if it is one.
    pub fn cli(&self) -> Option<&CliSection> {
        self.file.cli_specific.as_ref().filter(|_| self.kind() == ToolType::Cli)
    }

    /// Its section for `type: local`, if it is one.
    pub fn local(&self) -> Option<&LocalSection> {
        self.file.local_specific.as_ref().filter(|_| self.kind() == ToolType::Local)
    }

    /// Its section for `type: meta`, if it is one.
    pub fn meta(&self) -> Option<&MetaSection> {
        self.file.meta_specific.as_ref().filter(|_| self.kind() == ToolType::Meta)
    }
}

/// What a command says of itself as a tool. What it does not say is taken for the worst: it changes things, at high
/// risk. It is confined whatever it says.
fn spec(file: &ToolFile, command: &Command) -> ToolSpec {
    let name = format!("{}.{}", callable(&file.id), callable(&command.name));
    let description = command.description.as_deref().unwrap_or(&file.description);
    let category = match is_elsewhere(file) {
        true => Category::NETWORK,
        false => command.category.clone().unwrap_or(Category::SYSTEM_WRITE),
    };
    let risk = command.risk_level.unwrap_or(RiskLevel::High).max(least_risk(&category));
    let mut spec = ToolSpec::new(&name, description, category, risk);
    spec.version.clone_from(&file.version);
    spec.requires_sandbox = file.kind != ToolType::Meta && !is_elsewhere(file);
    spec.requires_approval = command.requires_approval;
    spec.wants_session = command.wants_session;
    if let Some(modes) = &command.allowed_modes {
        spec.allowed_modes.clone_from(modes);
    }
    spec.timeout_seconds = command.timeout_seconds.unwrap_or(spec.timeout_seconds);
    spec.rate_limit_per_hour = command.rate_limit_per_hour;
    spec.output_schema = command.output_schema.clone().map(Value::Object);
    spec.annotations = command.annotations;
    let examples = file.examples.get(&command.name).map(Vec::as_slice).unwrap_or_default();
    let success = || examples.iter().filter(|example| example.scenario == "success");
    spec.example = success().next().map(|example| Value::Object(example.input.clone()));
    match &command.parameters {
        Some(parameters) => spec.parameters.clone_from(parameters),
        None => spec.input_schema = Some(inferred(success().map(|example| &example.input))),
    }
    spec
}

/// Whether it is a server on the network, which no wall here holds and every call leaves the machine for.
fn is_elsewhere(file: &ToolFile) -> bool {
    let mcp = file.mcp_specific.as_ref().filter(|_| file.kind == ToolType::Mcp);
    mcp.is_some_and(|section| section.transport != Transport::Stdio)
}

/// What a tool of this category can do whatever it says of itself. Only what the walls enforce is believed: that a tool
/// changes nothing.
fn least_risk(category: &Category) -> RiskLevel {
    match category {
        read_only if *read_only == Category::READ_ONLY => RiskLevel::Low,
        network if *network == Category::NETWORK => RiskLevel::Medium,
        _ => RiskLevel::High,
    }
}

/// A schema from what works: open, since examples never show everything, and marked, so that nobody takes it for stated.
fn inferred<'e>(inputs: impl Iterator<Item = &'e Map<String, Value>> + Clone) -> Value {
    let mut properties = Map::new();
    for (name, value) in inputs.clone().flatten() {
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
    let all: Vec<&Map<String, Value>> = inputs.collect();
    let always = |name: &&String| all.iter().all(|input| input.contains_key(name.as_str()));
    let required: Vec<String> = properties.keys().filter(always).cloned().collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": true,
        "x-sinew-inferred": true})
}

/// A name as tools have it. An id that is written another way still loads, under the nearest name.
fn callable(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c.to_ascii_lowercase() } else { '-' }
    };
    name.chars().map(plain).collect()
}
