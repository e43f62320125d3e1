//! Checked tool definition. Only `ToolSpec::check` constructs one.

mod error;
mod export;
mod external_target_argument;
mod key_recipient;
mod parameter;
mod path_argument;
mod path_declarations;
mod schema_of;
mod spec;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use error::DefinitionError;
pub use export::ToolFormat;
use external_target_argument::ExternalTargetArgument;
pub use external_target_argument::{COMMAND_PREFIX, ExternalTargetKind};
pub use key_recipient::KeyRecipient;
pub use parameter::{ParameterType, TextFormat, ToolParameter};
pub use path_argument::PathAccess;
use path_argument::PathArgument;
pub use spec::{SESSION_ARGUMENT, ToolSpec, is_version};

use crate::result::ModelText;
use crate::text::SharedText;
use crate::{Category, Mode, RiskLevel, ToolName, canonical};

/// MCP hints about a tool. Clients must not trust them, and Sinew never bases a decision on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Annotations {
    /// The tool changes nothing.
    #[serde(default)]
    pub read_only_hint: bool,
    /// The tool may destroy data.
    #[serde(default)]
    pub destructive_hint: bool,
    /// Repeating a call has no further effect, so a transient failure may be retried.
    #[serde(default)]
    pub idempotent_hint: bool,
    /// The tool reaches beyond this machine.
    #[serde(default)]
    pub open_world_hint: bool,
}

impl Annotations {
    /// Hints of a read-only tool.
    pub const READ_ONLY: Annotations = Annotations {
        read_only_hint: true,
        destructive_hint: false,
        idempotent_hint: true,
        open_world_hint: false,
    };
}

/// Checked, immutable definition of a tool.
#[derive(Clone, Debug, Serialize)]
pub struct ToolDefinition {
    pub(crate) name: ToolName,
    pub(crate) version: String,
    #[serde(skip)]
    pub(crate) major: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) aliases: Vec<ToolName>,
    pub(crate) description: String,
    pub(crate) category: Category,
    pub(crate) risk_level: RiskLevel,
    pub(crate) allowed_modes: Vec<Mode>,
    pub(crate) requires_approval: bool,
    pub(crate) requires_sandbox: bool,
    pub(crate) timeout_seconds: u64,
    pub(crate) rate_limit_per_hour: Option<u32>,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) wants_session: bool,
    pub(crate) parameters: Vec<ToolParameter>,
    pub(crate) input_schema: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output_schema: Option<Value>,
    pub(crate) annotations: Annotations,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) example: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<String>,
    #[serde(skip)]
    pub(crate) model_text: Option<ModelText>,
    #[serde(skip)]
    pub(crate) paths: Vec<PathArgument>,
    #[serde(skip)]
    pub(crate) external_targets: Vec<ExternalTargetArgument>,
    #[serde(rename = "definition_hash", skip_serializing_if = "is_not_computed")]
    pub(crate) hash: SharedText,
}

/// Returns true if the hash is not computed yet.
fn is_not_computed(hash: &SharedText) -> bool {
    hash.is_empty()
}

/// Omits a false flag, so that definitions without it keep the hash they had before the flag existed.
#[allow(clippy::trivially_copy_pass_by_ref)] // serde requires a reference
fn is_false(flag: &bool) -> bool {
    !*flag
}

impl ToolDefinition {
    /// Computes the hash over the serialised form, which does not contain the hash yet.
    pub(crate) fn with_hash(mut self) -> Self {
        let content = serde_json::to_value(&self).unwrap_or_default();
        self.hash = canonical::digest(&content).into();
        self
    }

    /// Returns the canonical name.
    pub fn name(&self) -> &ToolName {
        &self.name
    }

    /// Returns the semantic version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the name, with its major version unless that is 1. Two versions of a tool have different keys.
    pub fn version_key(&self) -> String {
        match self.major {
            1 => self.name.to_string(),
            major => format!("{}@{major}", self.name),
        }
    }

    /// Returns the major version, for `name@major`.
    pub fn major(&self) -> u64 {
        self.major
    }

    /// Returns the other names of the tool.
    pub fn aliases(&self) -> &[ToolName] {
        &self.aliases
    }

    /// Returns the description for the model.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the governance category.
    pub fn category(&self) -> &Category {
        &self.category
    }

    /// Returns the level of harm the tool can do.
    pub fn risk_level(&self) -> RiskLevel {
        self.risk_level
    }

    /// Returns the modes the tool may run in unless policy says otherwise.
    pub fn allowed_modes(&self) -> &[Mode] {
        &self.allowed_modes
    }

    /// Returns true if every call needs operator approval.
    pub fn requires_approval(&self) -> bool {
        self.requires_approval
    }

    /// Returns true if the tool must run in a sandboxed process.
    pub fn requires_sandbox(&self) -> bool {
        self.requires_sandbox
    }

    /// Returns true if the tool receives the id of the caller's worker session.
    pub fn wants_session(&self) -> bool {
        self.wants_session
    }

    /// Returns the maximum run time.
    pub fn timeout(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.timeout_seconds)
    }

    /// Returns the maximum number of runs per sliding hour.
    pub fn rate_limit_per_hour(&self) -> Option<u32> {
        self.rate_limit_per_hour
    }

    /// Returns the parameters, declared as a list or derived from the schema.
    pub fn parameters(&self) -> &[ToolParameter] {
        &self.parameters
    }

    /// Returns the JSON Schema of the arguments.
    pub fn input_schema(&self) -> &Value {
        &self.input_schema
    }

    /// Returns the JSON Schema of the output.
    pub fn output_schema(&self) -> Option<&Value> {
        self.output_schema.as_ref()
    }

    /// Returns the hints for MCP clients.
    pub fn annotations(&self) -> Annotations {
        self.annotations
    }

    /// Returns arguments of a valid call.
    pub fn example(&self) -> Option<&Value> {
        self.example.as_ref()
    }

    /// Returns the arguments that are paths.
    pub fn path_arguments(&self) -> &[PathArgument] {
        &self.paths
    }

    /// Returns the arguments that are commands or network addresses.
    pub fn external_target_arguments(&self) -> &[ExternalTargetArgument] {
        &self.external_targets
    }

    /// Returns the digest of the implementation, such as a manifest and its program, if there is one.
    pub fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    /// Returns the function that renders an output as text for a language model; without one, it gets JSON.
    pub fn model_text(&self) -> Option<ModelText> {
        self.model_text
    }

    /// Returns the digest that pins this definition in the ledger and in approvals.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Returns the hash as shared text, without copying it.
    pub fn shared_hash(&self) -> SharedText {
        self.hash.clone()
    }
}

// Names by which a tool can be called. No other code decides if a name refers to a tool.
impl ToolDefinition {
    /// Returns true if `spelling` refers to this tool: its name, an alias, or the name without dots, each
    /// optionally with `@major`, in any letter case. A part of a name never matches.
    pub fn matches_name(&self, spelling: &str) -> bool {
        let (name, major) = match spelling.split_once('@') {
            Some((name, major)) => (name, Some(major)),
            None => (spelling, None),
        };
        let Ok(name) = ToolName::new(name) else { return false };
        self.callable_names().any(|own| own == name)
            && major.is_none_or(|major| major == self.major.to_string())
    }

    /// Returns all names without a version: the canonical name, then the aliases, then the name without dots.
    pub fn callable_names(&self) -> impl Iterator<Item = ToolName> {
        let undotted = || ToolName::new(&self.name_without_dots()).ok().filter(|name| *name != self.name);
        let named = std::iter::once(&self.name).chain(&self.aliases).cloned();
        named.chain(std::iter::once_with(undotted).flatten())
    }

    /// Returns the name with `__` for each dot, which function-calling formats do not allow.
    pub(crate) fn name_without_dots(&self) -> String {
        self.name.as_str().replace('.', "__")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::definition::{DefinitionError, ParameterType, PathAccess, ToolParameter};
    use crate::{Category, RiskLevel, ToolSpec};

    fn spec() -> ToolSpec {
        ToolSpec::new("read_file", "Read a file", Category::READ_ONLY, RiskLevel::Low)
    }

    #[test]
    fn defaults_match_the_specification() {
        let minimal = json!({"name": "t", "description": "d", "category": "read_only",
            "risk_level": "low", "allowed_modes": ["NORMAL"], "parameters": [{"name": "a", "type": "string"}]});
        let definition = serde_json::from_value::<ToolSpec>(minimal).unwrap().check().unwrap();
        assert_eq!(definition.timeout().as_secs(), 30);
        assert!(!definition.requires_approval() && !definition.requires_sandbox());
        assert_eq!(definition.rate_limit_per_hour(), None);
        assert!(definition.parameters()[0].required);
    }

    #[test]
    fn unknown_enum_values_are_refused() {
        let good = json!({"name": "t", "description": "d", "category": "read_only", "risk_level": "low",
            "allowed_modes": ["NORMAL"], "parameters": [{"name": "a", "type": "string"}]});
        serde_json::from_value::<ToolSpec>(good.clone()).unwrap();
        for (pointer, wrong) in
            [("/risk_level", "extreme"), ("/parameters/0/type", "text"), ("/allowed_modes/0", "SAFE")]
        {
            let mut bad = good.clone();
            *bad.pointer_mut(pointer).unwrap() = json!(wrong);
            assert!(serde_json::from_value::<ToolSpec>(bad).is_err(), "{pointer} = {wrong}");
        }
        let mut bad = good;
        bad["rate_limit_per_hour"] = json!(-1);
        assert!(serde_json::from_value::<ToolSpec>(bad).is_err(), "a negative rate");
    }

    #[test]
    fn each_parameter_type_becomes_a_schema_type() {
        for kind in ["string", "number", "boolean", "object", "array"] {
            let spec = json!({"name": "t", "description": "d", "category": "read_only", "risk_level": "low",
                "allowed_modes": ["NORMAL"], "parameters": [{"name": "a", "type": kind, "description": "purpose"}]});
            let definition = serde_json::from_value::<ToolSpec>(spec).unwrap().check().unwrap();
            let property = &definition.input_schema()["properties"]["a"];
            assert_eq!((&property["type"], &property["description"]), (&json!(kind), &json!("purpose")));
        }
    }

    #[test]
    fn bounds_are_checked() {
        let refuses = |change: fn(&mut ToolSpec), expect: DefinitionError| {
            let mut spec = spec();
            change(&mut spec);
            assert_eq!(spec.check().unwrap_err(), expect);
        };
        refuses(|s| s.timeout_seconds = 0, DefinitionError::Timeout(0));
        refuses(|s| s.timeout_seconds = u64::MAX, DefinitionError::Timeout(u64::MAX));
        refuses(|s| s.description = " ".into(), DefinitionError::NoDescription);
        refuses(|s| s.version = "1.0".into(), DefinitionError::Version("1.0".into()));
        refuses(|s| s.version = "01.0.0".into(), DefinitionError::Version("01.0.0".into()));
        refuses(|s| s.input_schema = Some(json!({"type": "array"})), DefinitionError::NotAnObject);
        let twice =
            |s: &mut ToolSpec| s.parameters = vec![ToolParameter::new("a", ParameterType::String, ""); 2];
        refuses(twice, DefinitionError::DuplicateParameter("a".into()));
        refuses(
            |s| {
                s.parameters =
                    vec![ToolParameter::new("a", ParameterType::Integer, "").with_default(json!("x"))]
            },
            DefinitionError::Default { name: "a".into(), kind: "integer" },
        );
    }

    #[test]
    fn parameter_list_becomes_a_closed_schema() {
        let mut spec = spec();
        let path = ToolParameter {
            format: Some("path".into()),
            ..ToolParameter::new("path", ParameterType::String, "where")
        };
        spec.parameters =
            vec![path, ToolParameter::new("max", ParameterType::Integer, "").with_default(json!(10))];
        let definition = spec.check().unwrap();
        assert_eq!(definition.input_schema()["required"], json!(["path"]));
        assert_eq!(definition.input_schema()["additionalProperties"], json!(false));
        assert_eq!(definition.path_arguments()[0].access, PathAccess::Read);
    }

    #[test]
    fn hash_changes_with_the_content() {
        let first = spec().check().unwrap();
        assert_eq!(first.hash(), spec().check().unwrap().hash());
        let mut changed = spec();
        changed.description.push('!');
        assert_ne!(first.hash(), changed.check().unwrap().hash());
    }
}
