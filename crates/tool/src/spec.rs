//! A definition before it was checked: what a tool's author, or a file, states.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::definition::Annotations;
use crate::parameter::object_schema;
use crate::{Category, Mode, PathArgument, RiskLevel, ToolDefinition, ToolName, ToolParameter};

const LONGEST_TIMEOUT: u64 = 24 * 60 * 60;
const LONGEST_DESCRIPTION: usize = 4096;

/// What a tool says of itself. [`ToolSpec::check`] turns it into a [`ToolDefinition`] or says what is wrong.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "ToolDefinition")]
pub struct ToolSpec {
    /// The name callers use.
    pub name: String,
    /// Semantic version; `name@major` addresses it.
    #[serde(default = "first_version")]
    pub version: String,
    /// Other names for the same tool.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// What it does, for the model.
    pub description: String,
    /// Its governance category.
    pub category: Category,
    /// Its parameters, where it states them one by one.
    #[serde(default)]
    pub parameters: Vec<ToolParameter>,
    /// Its whole input schema, where it states one instead.
    #[serde(default)]
    pub input_schema: Option<Value>,
    /// The schema of its output.
    #[serde(default)]
    pub output_schema: Option<Value>,
    /// The harm it can do.
    pub risk_level: RiskLevel,
    /// The modes it may run in where no policy says otherwise.
    pub allowed_modes: Vec<Mode>,
    /// Whether a human is asked each time.
    #[serde(default)]
    pub requires_approval: bool,
    /// Whether it must run in a confined process.
    #[serde(default)]
    pub requires_sandbox: bool,
    /// How long it may run.
    #[serde(default = "usual_timeout")]
    pub timeout_seconds: u64,
    /// How often it may run in any hour; absent means no limit, 0 means never.
    #[serde(default)]
    pub rate_limit_per_hour: Option<u32>,
    /// Hints for MCP clients.
    #[serde(default)]
    pub annotations: Annotations,
    /// A call that works, shown when one did not.
    #[serde(default)]
    pub example: Option<Value>,
}

fn first_version() -> String {
    "1.0.0".to_owned()
}

fn usual_timeout() -> u64 {
    30
}

impl ToolSpec {
    /// A spec with the documents' defaults: 30 s, no approval, no sandbox, no rate limit.
    pub fn new(name: &str, description: &str, category: Category, risk_level: RiskLevel) -> Self {
        ToolSpec {
            name: name.to_owned(),
            version: first_version(),
            aliases: Vec::new(),
            description: description.to_owned(),
            category,
            parameters: Vec::new(),
            input_schema: None,
            output_schema: None,
            risk_level,
            allowed_modes: Mode::ALL.to_vec(),
            requires_approval: false,
            requires_sandbox: false,
            timeout_seconds: usual_timeout(),
            rate_limit_per_hour: None,
            annotations: Annotations::default(),
            example: None,
        }
    }

    /// Reads a definition back from its native export, as a client of the daemon receives it.
    pub fn from_native(mut native: Value) -> Result<Self, serde_json::Error> {
        if let Some(fields) = native.as_object_mut() {
            // Both follow from the rest: the parameters from the schema, the hash from the whole.
            fields.remove("parameters");
            fields.remove("definition_hash");
        }
        serde_json::from_value(native)
    }

    /// Takes the input schema from the Rust type the tool reads its arguments into.
    pub fn input<T: JsonSchema>(mut self) -> Self {
        self.input_schema = Some(schema_of::<T>());
        self
    }

    /// Takes the output schema from the Rust type the tool answers with.
    pub fn output<T: JsonSchema>(mut self) -> Self {
        self.output_schema = Some(schema_of::<T>());
        self
    }

    /// Checks every bound and makes the definition.
    pub fn check(self) -> Result<ToolDefinition, DefinitionError> {
        let name = ToolName::new(&self.name)?;
        let aliases = self.aliases.iter().map(|alias| ToolName::new(alias)).collect::<Result<Vec<_>, _>>()?;
        let major = major_of(&self.version).ok_or_else(|| DefinitionError::Version(self.version.clone()))?;
        self.check_bounds()?;
        check_parameters(&self.parameters)?;
        let input_schema = self.checked_input_schema()?;
        let parameters = match self.input_schema {
            Some(_) => ToolParameter::from_schema(&input_schema),
            None => self.parameters,
        };
        let paths = PathArgument::find(&input_schema, &self.category);
        Ok(ToolDefinition {
            name,
            major,
            version: self.version,
            aliases,
            description: self.description,
            category: self.category,
            parameters,
            input_schema,
            output_schema: self.output_schema,
            risk_level: self.risk_level,
            allowed_modes: self.allowed_modes,
            requires_approval: self.requires_approval,
            requires_sandbox: self.requires_sandbox,
            timeout_seconds: self.timeout_seconds,
            rate_limit_per_hour: self.rate_limit_per_hour,
            annotations: self.annotations,
            example: self.example,
            paths,
            hash: String::new(),
        }
        .hashed())
    }

    fn check_bounds(&self) -> Result<(), DefinitionError> {
        if self.description.trim().is_empty() {
            return Err(DefinitionError::NoDescription);
        }
        if self.description.len() > LONGEST_DESCRIPTION {
            return Err(DefinitionError::LongDescription(self.description.len()));
        }
        if !(1..=LONGEST_TIMEOUT).contains(&self.timeout_seconds) {
            return Err(DefinitionError::Timeout(self.timeout_seconds));
        }
        Ok(())
    }

    fn checked_input_schema(&self) -> Result<Value, DefinitionError> {
        let Some(schema) = &self.input_schema else { return Ok(object_schema(&self.parameters)) };
        if !self.parameters.is_empty() {
            return Err(DefinitionError::TwoInputs);
        }
        if schema["type"] == "object" { Ok(schema.clone()) } else { Err(DefinitionError::NotAnObject) }
    }
}

fn check_parameters(parameters: &[ToolParameter]) -> Result<(), DefinitionError> {
    for (index, parameter) in parameters.iter().enumerate() {
        let name = &parameter.name;
        if name.is_empty() || name.len() > 128 {
            return Err(DefinitionError::ParameterName(name.clone()));
        }
        if parameters.iter().take(index).any(|earlier| earlier.name == *name) {
            return Err(DefinitionError::TwiceNamed(name.clone()));
        }
        if parameter.default.as_ref().is_some_and(|default| !parameter.kind.admits(default)) {
            return Err(DefinitionError::Default { name: name.clone(), kind: parameter.kind.as_str() });
        }
    }
    Ok(())
}

/// The first number of a three-part version without leading zeros; what follows `-` or `+` is not ours to judge.
fn major_of(version: &str) -> Option<u64> {
    let core = version.split(['-', '+']).next()?;
    let numbers: Vec<&str> = core.split('.').collect();
    let plain = |n: &&str| *n == "0" || (!n.starts_with('0') && n.bytes().all(|b| b.is_ascii_digit()));
    if numbers.len() != 3 || !numbers.iter().all(plain) {
        return None;
    }
    numbers.first()?.parse().ok()
}

/// The schema of a Rust type, without the keywords that only clutter a tool list.
fn schema_of<T: JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("$schema");
        object.remove("title");
        object.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

/// Why a definition was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum DefinitionError {
    #[error(transparent)]
    Name(#[from] crate::name::BadName),
    #[error("version `{0}` is not semantic: write three numbers, such as 1.0.0")]
    Version(String),
    #[error("the description is empty")]
    NoDescription,
    #[error("the description has {0} bytes; the limit is {LONGEST_DESCRIPTION}")]
    LongDescription(usize),
    #[error("timeout_seconds is {0}: it must be between 1 and {LONGEST_TIMEOUT}")]
    Timeout(u64),
    #[error("state either `parameters` or `input_schema`, not both")]
    TwoInputs,
    #[error("the input schema must have `type: object`")]
    NotAnObject,
    #[error("parameter name `{0}` must have 1 to 128 bytes")]
    ParameterName(String),
    #[error("parameter `{0}` is stated twice")]
    TwiceNamed(String),
    #[error("the default of parameter `{name}` is not of type {kind}")]
    Default { name: String, kind: &'static str },
}
