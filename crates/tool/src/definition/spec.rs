//! Unchecked tool definition, as written by the author of a tool or read from a file.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::external_target_argument::ExternalTargetArgument;
use super::parameter::object_schema;
use super::path_argument::PathArgument;
use super::schema_of::{Direction, schema_of};
use crate::definition::{Annotations, DefinitionError, ToolParameter};
use crate::result::ModelText;
use crate::text::{MAX_QUOTED_CHARS, SharedText, shorten};
use crate::{Category, Mode, RiskLevel, ToolDefinition, ToolName};

/// Name of the argument in which a tool with `wants_session` receives the session id.
pub const SESSION_ARGUMENT: &str = "session_id";
pub(crate) const LONGEST_TIMEOUT: u64 = 24 * 60 * 60;
pub(crate) const LONGEST_DESCRIPTION: usize = 4096;

/// Unchecked tool definition. `ToolSpec::check` turns it into a `ToolDefinition` or reports the error.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "ToolDefinition")]
pub struct ToolSpec {
    /// Name that callers use.
    pub name: String,
    /// Semantic version; `name@major` addresses it.
    #[serde(default = "first_version")]
    pub version: String,
    /// Other names for the same tool.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Description of the tool, for the model.
    pub description: String,
    /// Governance category.
    pub category: Category,
    /// Parameters, if declared one by one.
    #[serde(default)]
    pub parameters: Vec<ToolParameter>,
    /// Whole input schema, if declared instead of parameters.
    #[serde(default)]
    pub input_schema: Option<Value>,
    /// Schema of the output.
    #[serde(default)]
    pub output_schema: Option<Value>,
    /// Level of harm the tool can do.
    pub risk_level: RiskLevel,
    /// Modes the tool may run in unless policy says otherwise.
    pub allowed_modes: Vec<Mode>,
    /// True if every call needs operator approval.
    #[serde(default)]
    pub requires_approval: bool,
    /// True if the tool must run in a sandboxed process.
    #[serde(default)]
    pub requires_sandbox: bool,
    /// Maximum run time in seconds.
    #[serde(default = "usual_timeout")]
    pub timeout_seconds: u64,
    /// Maximum number of runs per sliding hour; absent means no limit, 0 means never.
    #[serde(default)]
    pub rate_limit_per_hour: Option<u32>,
    /// True if the tool receives the id of the caller's worker session as `session_id`. Sinew adds it after
    /// the argument check, so a caller cannot supply one.
    #[serde(default)]
    pub wants_session: bool,
    /// Hints for MCP clients.
    #[serde(default)]
    pub annotations: Annotations,
    /// Arguments of a valid call, shown when a call is refused.
    #[serde(default)]
    pub example: Option<Value>,
    /// Digest of the implementation, such as a manifest and the program it runs. Part of the pinned hash.
    #[serde(default)]
    pub origin: Option<String>,
    /// Function that renders an output as text for a language model.
    #[serde(skip)]
    pub model_text: Option<ModelText>,
}

fn first_version() -> String {
    "1.0.0".to_owned()
}

fn usual_timeout() -> u64 {
    30
}

impl ToolSpec {
    /// Creates a spec with the defaults of the specification: 30 s, no approval, no sandbox, no rate limit.
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
            wants_session: false,
            annotations: Annotations::default(),
            example: None,
            origin: None,
            model_text: None,
        }
    }

    /// Reads a definition from its native export, as a client of the daemon receives it.
    pub fn from_native(mut native: Value) -> Result<Self, serde_json::Error> {
        if let Some(fields) = native.as_object_mut() {
            // Both are derived: the parameters from the schema, the hash from the whole definition.
            fields.remove("parameters");
            fields.remove("definition_hash");
        }
        serde_json::from_value(native)
    }

    /// Sets the input schema to that of the Rust type into which the tool deserialises its arguments.
    pub fn with_input<T: JsonSchema>(mut self) -> Self {
        self.input_schema = Some(schema_of::<T>(Direction::Input));
        self
    }

    /// Sets the output schema to that of the Rust type the tool returns.
    pub fn with_output<T: JsonSchema>(mut self) -> Self {
        self.output_schema = Some(schema_of::<T>(Direction::Output));
        self
    }

    /// Checks all limits and creates the definition.
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
        parameters.iter().try_for_each(|parameter| check_parameter_name(&parameter.name))?;
        if self.wants_session && parameters.iter().any(|parameter| parameter.name == SESSION_ARGUMENT) {
            return Err(DefinitionError::ReservedSessionParameter);
        }
        let paths = PathArgument::find(&input_schema, &self.category)?;
        let external_targets = ExternalTargetArgument::find(&input_schema)?;
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
            wants_session: self.wants_session,
            annotations: self.annotations,
            example: self.example,
            origin: self.origin,
            model_text: self.model_text,
            paths,
            external_targets,
            hash: SharedText::default(),
        }
        .with_hash())
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
            return Err(DefinitionError::ParametersAndSchema);
        }
        if schema["type"] == "object" { Ok(schema.clone()) } else { Err(DefinitionError::NotAnObject) }
    }
}

fn check_parameters(parameters: &[ToolParameter]) -> Result<(), DefinitionError> {
    for (index, parameter) in parameters.iter().enumerate() {
        let name = &parameter.name;
        if parameters.iter().take(index).any(|earlier| earlier.name == *name) {
            return Err(DefinitionError::DuplicateParameter(name.clone()));
        }
        if parameter.default.as_ref().is_some_and(|default| !parameter.kind.admits(default)) {
            return Err(DefinitionError::Default { name: name.clone(), kind: parameter.kind.as_str() });
        }
    }
    Ok(())
}

/// Checks the length of a parameter name, because refusals quote these names.
fn check_parameter_name(name: &str) -> Result<(), DefinitionError> {
    if (1..=128).contains(&name.len()) {
        Ok(())
    } else {
        Err(DefinitionError::ParameterName(shorten(name, MAX_QUOTED_CHARS).into_owned()))
    }
}

/// Returns true if a text is a semantic version.
pub fn is_version(text: &str) -> bool {
    major_of(text).is_some()
}

/// Returns the major number of a semantic version: three numbers, optionally with prerelease and build parts.
fn major_of(version: &str) -> Option<u64> {
    let (version, build) = split_optional(version, '+');
    let (numbers, prerelease) = split_optional(version, '-');
    let word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if !build.into_iter().chain(prerelease).all(|identifiers| identifiers.split('.').all(word)) {
        return None;
    }
    let plain =
        |n: &&str| *n == "0" || (word(n) && !n.starts_with('0') && n.bytes().all(|b| b.is_ascii_digit()));
    match numbers.split('.').collect::<Vec<_>>().as_slice() {
        numbers @ [major, _, _] if numbers.iter().all(plain) => major.parse().ok(),
        _ => None,
    }
}

fn split_optional(text: &str, mark: char) -> (&str, Option<&str>) {
    text.split_once(mark).map_or((text, None), |(before, after)| (before, Some(after)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Category, RiskLevel, ToolSpec};

    #[test]
    fn version_needs_three_numbers_and_no_empty_part() {
        let check = |version, expect| assert_eq!(major_of(version), expect, "{version:?}");
        check("1.0.0", Some(1));
        check("10.2.33", Some(10));
        check("0.0.0", Some(0));
        check("2.0.0-rc.1+linux-x86.64", Some(2));
        check("2.0.0+build-7", Some(2));
        for wrong in [
            "",
            ".",
            "..",
            "1",
            "1.",
            "1..",
            "..1",
            "1..0",
            "1.0",
            "1.0.",
            "1.0.0.0",
            "1.x.0.0",
            "01.0.0",
            "1.0.-1",
            "1.0.0-",
            "1.0.0+",
            "1.0.0-a..b",
            "1.0.0-+b",
            "1.0.0+a+b",
            "1.0.0-é",
            " 1.0.0",
            "+1.0.0",
            "18446744073709551616.0.0",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn schema_parameter_names_are_bounded() {
        for name in [String::new(), "n".repeat(129), "n".repeat(1 << 20)] {
            let mut spec = ToolSpec::new("t", "d", Category::READ_ONLY, RiskLevel::Low);
            let mut properties = serde_json::Map::new();
            properties.insert(name.clone(), json!({"type": "string"}));
            spec.input_schema = Some(json!({"type": "object", "properties": properties}));
            let error = spec.check().unwrap_err();
            assert!(matches!(error, DefinitionError::ParameterName(_)), "{error}");
            assert!(error.to_string().len() < 256, "{} bytes", error.to_string().len());
        }
    }

    #[test]
    fn tool_matches_its_names_and_no_part_of_them() {
        let mut spec = ToolSpec::new("git.status", "Status", Category::READ_ONLY, RiskLevel::Low);
        (spec.aliases, spec.version) = (vec!["gs".into()], "2.1.0".into());
        let tool = spec.check().unwrap();
        for own in
            ["git.status", "GIT.Status", "gs", "GS", "git__status", "Git.Status@2", "gs@2", "git__status@2"]
        {
            assert!(tool.matches_name(own), "{own}");
        }
        let others = [
            "",
            "git",
            "status",
            "git.status2",
            "git_status",
            "git status",
            "git.status ",
            "git.status@1",
            "git.status@",
            "git.status@+2",
            "git.status@02",
            "git.status@2.1.0",
            "git.status@2@2",
            "@2",
            "gs.",
        ];
        for other in others {
            assert!(!tool.matches_name(other), "{other}");
        }
        let spellings: Vec<_> = tool.callable_names().map(|name| name.to_string()).collect();
        assert_eq!(spellings, ["git.status", "gs", "git__status"]);
    }

    #[test]
    fn name_without_dots_is_listed_once() {
        let tool = ToolSpec::new("read_file", "Read", Category::READ_ONLY, RiskLevel::Low).check().unwrap();
        assert_eq!(tool.callable_names().count(), 1);
    }
}
