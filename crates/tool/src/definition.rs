//! A checked tool definition. Made only by [`ToolSpec::check`](crate::ToolSpec::check).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Category, Mode, OutwardArgument, PathArgument, RiskLevel, SharedText, ToolName, ToolParameter, canonical,
};

/// MCP's hints about a tool. Untrusted by clients, and never used for a decision here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Annotations {
    /// It changes nothing.
    #[serde(default)]
    pub read_only_hint: bool,
    /// What it changes may be lost.
    #[serde(default)]
    pub destructive_hint: bool,
    /// Calling it twice is the same as once; a transient failure may be retried.
    #[serde(default)]
    pub idempotent_hint: bool,
    /// It reaches beyond this machine.
    #[serde(default)]
    pub open_world_hint: bool,
}

impl Annotations {
    /// Of a tool that only looks.
    pub const LOOKING: Annotations = Annotations {
        read_only_hint: true,
        destructive_hint: false,
        idempotent_hint: true,
        open_world_hint: false,
    };
}

/// What a tool is, checked and immutable.
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
    pub(crate) paths: Vec<PathArgument>,
    #[serde(skip)]
    pub(crate) outward: Vec<OutwardArgument>,
    #[serde(rename = "definition_hash", skip_serializing_if = "is_not_taken")]
    pub(crate) hash: SharedText,
}

/// Whether the hash is still to be taken.
fn is_not_taken(hash: &SharedText) -> bool {
    hash.is_empty()
}

/// Definitions that do not say it keep the hash they had before it could be said.
#[allow(clippy::trivially_copy_pass_by_ref)] // the shape serde asks for
fn is_false(flag: &bool) -> bool {
    !*flag
}

impl ToolDefinition {
    /// The digest is taken over the serialised form before the hash itself is part of it.
    pub(crate) fn hashed(mut self) -> Self {
        let content = serde_json::to_value(&self).unwrap_or_default();
        self.hash = canonical::digest(&content).into();
        self
    }

    /// The canonical name.
    pub fn name(&self) -> &ToolName {
        &self.name
    }

    /// The semantic version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The major version, for `name@major`.
    pub fn major(&self) -> u64 {
        self.major
    }

    /// Its other names.
    pub fn aliases(&self) -> &[ToolName] {
        &self.aliases
    }

    /// What it does, for the model.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Its governance category.
    pub fn category(&self) -> &Category {
        &self.category
    }

    /// The harm it can do.
    pub fn risk_level(&self) -> RiskLevel {
        self.risk_level
    }

    /// The modes it may run in where no policy says otherwise.
    pub fn allowed_modes(&self) -> &[Mode] {
        &self.allowed_modes
    }

    /// Whether a human is asked each time.
    pub fn requires_approval(&self) -> bool {
        self.requires_approval
    }

    /// Whether it must run in a confined process.
    pub fn requires_sandbox(&self) -> bool {
        self.requires_sandbox
    }

    /// Whether it is handed the id of the caller's worker session.
    pub fn wants_session(&self) -> bool {
        self.wants_session
    }

    /// How long it may run.
    pub fn timeout(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.timeout_seconds)
    }

    /// How often it may run in any hour.
    pub fn rate_limit_per_hour(&self) -> Option<u32> {
        self.rate_limit_per_hour
    }

    /// Its parameters, whichever way they were stated.
    pub fn parameters(&self) -> &[ToolParameter] {
        &self.parameters
    }

    /// The JSON Schema of its arguments.
    pub fn input_schema(&self) -> &Value {
        &self.input_schema
    }

    /// The JSON Schema of its output.
    pub fn output_schema(&self) -> Option<&Value> {
        self.output_schema.as_ref()
    }

    /// Its hints for MCP clients.
    pub fn annotations(&self) -> Annotations {
        self.annotations
    }

    /// A call that works.
    pub fn example(&self) -> Option<&Value> {
        self.example.as_ref()
    }

    /// Its arguments that are paths.
    pub fn path_arguments(&self) -> &[PathArgument] {
        &self.paths
    }

    /// Its arguments that are commands or addresses on the network.
    pub fn outward_arguments(&self) -> &[OutwardArgument] {
        &self.outward
    }

    /// The digest of what stands behind it, where something does.
    pub fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    /// The digest that pins this definition in the ledger and in approvals.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The same for whoever keeps it.
    pub fn shared_hash(&self) -> SharedText {
        self.hash.clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{Category, DefinitionError, ParameterType, PathAccess, RiskLevel, ToolParameter, ToolSpec};

    fn spec() -> ToolSpec {
        ToolSpec::new("read_file", "Read a file", Category::READ_ONLY, RiskLevel::Low)
    }

    #[test]
    fn defaults_are_those_of_the_documents() {
        let minimal = json!({"name": "t", "description": "d", "category": "read_only",
            "risk_level": "low", "allowed_modes": ["NORMAL"], "parameters": [{"name": "a", "type": "string"}]});
        let definition = serde_json::from_value::<ToolSpec>(minimal).unwrap().check().unwrap();
        assert_eq!(definition.timeout().as_secs(), 30);
        assert!(!definition.requires_approval() && !definition.requires_sandbox());
        assert_eq!(definition.rate_limit_per_hour(), None);
        assert!(definition.parameters()[0].required);
    }

    #[test]
    fn unknown_words_are_refused() {
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
        refuses(twice, DefinitionError::TwiceNamed("a".into()));
        refuses(
            |s| s.parameters = vec![ToolParameter::new("a", ParameterType::Integer, "").or(json!("x"))],
            DefinitionError::Default { name: "a".into(), kind: "integer" },
        );
    }

    #[test]
    fn a_parameter_list_is_a_closed_schema() {
        let mut spec = spec();
        let path = ToolParameter {
            format: Some("path".into()),
            ..ToolParameter::new("path", ParameterType::String, "where")
        };
        spec.parameters = vec![path, ToolParameter::new("max", ParameterType::Integer, "").or(json!(10))];
        let definition = spec.check().unwrap();
        assert_eq!(definition.input_schema()["required"], json!(["path"]));
        assert_eq!(definition.input_schema()["additionalProperties"], json!(false));
        assert_eq!(definition.path_arguments()[0].access, PathAccess::Read);
    }

    #[test]
    fn the_hash_follows_the_content() {
        let first = spec().check().unwrap();
        assert_eq!(first.hash(), spec().check().unwrap().hash());
        let mut changed = spec();
        changed.description.push('!');
        assert_ne!(first.hash(), changed.check().unwrap().hash());
    }
}
