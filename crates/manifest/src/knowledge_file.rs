//! Raw file types for the sections of schema 2.0: functions, API description, anti-patterns, examples.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use tool::definition::TextFormat;

/// JavaScript functions. Each runs separately in a sandbox, with access to its argument only.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct ExecutableKnowledge {
    /// Functions that other sections refer to.
    #[serde(default)]
    pub(crate) helpers: Vec<HelperFile>,
    /// Functions that transform input or output.
    #[serde(default)]
    pub(crate) processors: Vec<ProcessorFile>,
    /// Functions that can refuse a call before it runs.
    #[serde(default)]
    pub(crate) validators: Vec<ValidatorFile>,
}

/// Language of functions; there is only one.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FunctionLanguage {
    Javascript,
}

/// Runtime of functions; there is only one, named as in the specification.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FunctionRuntime {
    IsolatedVm,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[allow(dead_code, reason = "language and runtime have one value each; the file must state them")]
pub(crate) struct HelperFile {
    /// Unique id in kebab-case.
    #[schemars(length(min = 1))]
    pub(crate) id: String,
    /// `javascript`.
    pub(crate) language: FunctionLanguage,
    /// `isolated_vm`.
    pub(crate) runtime: FunctionRuntime,
    /// A function assigned to `module.exports`, or an immediately invoked function.
    #[schemars(length(min = 1))]
    pub(crate) function: String,
    /// Purpose of the function.
    pub(crate) description: Option<String>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[allow(dead_code, reason = "language and runtime have one value each; the file must state them")]
pub(crate) struct ProcessorFile {
    /// Unique id in kebab-case.
    #[schemars(length(min = 1))]
    pub(crate) id: String,
    /// `javascript`.
    pub(crate) language: FunctionLanguage,
    /// `isolated_vm`.
    pub(crate) runtime: Option<FunctionRuntime>,
    /// A function assigned to `module.exports`, or an immediately invoked function.
    #[schemars(length(min = 1))]
    pub(crate) function: String,
    /// Purpose of the function.
    pub(crate) description: Option<String>,
}

/// Function that can refuse a call before it runs.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[allow(dead_code, reason = "language and runtime have one value each; the file must state them")]
pub struct ValidatorFile {
    /// Unique id in kebab-case.
    #[schemars(length(min = 1))]
    pub id: String,
    /// Command whose calls it validates.
    #[schemars(length(min = 1))]
    pub validates: String,
    /// `javascript`.
    pub(crate) language: FunctionLanguage,
    /// `isolated_vm`.
    pub(crate) runtime: Option<FunctionRuntime>,
    /// Checks that need no function.
    #[serde(default)]
    pub checks: Vec<DeclarativeCheck>,
    /// A function that returns `{valid: boolean, errors: string[]}`.
    #[schemars(length(min = 1))]
    pub function: String,
    /// Purpose of the function.
    pub(crate) description: Option<String>,
}

/// Check without a function: required fields, or the format of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct DeclarativeCheck {
    /// Fields that must be present and not empty.
    #[serde(default)]
    pub required_fields: Vec<String>,
    /// Format of `field`; without `field`, of every argument that is named after the format.
    pub format: Option<TextFormat>,
    /// Argument that must have the format.
    pub field: Option<String>,
}

/// Peculiarities of the API behind a tool.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct ApiComplexity {
    /// Forms that a response can have.
    #[serde(default, deserialize_with = "readable_items")]
    pub payload_schemas: Vec<PayloadSchema>,
    /// Fields with their own structure, by name, or by group and name.
    #[serde(default)]
    pub field_mappings: Map<String, Value>,
    /// Surprising behaviour.
    #[serde(default, deserialize_with = "readable_items")]
    pub api_quirks: Vec<ApiQuirk>,
}

/// One form of a response.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct PayloadSchema {
    /// Name of the form.
    #[serde(rename = "type")]
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Rule that detects the form, such as `event field exists` or `webhook_id field`.
    #[schemars(length(min = 1))]
    pub detection: String,
    /// Dotted path of the data.
    #[schemars(length(min = 1))]
    pub payload_path: String,
}

/// Surprising behaviour of an API, and how to deal with it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ApiQuirk {
    /// Name of the quirk.
    #[schemars(length(min = 1))]
    pub quirk: String,
    /// Description of the behaviour.
    #[schemars(length(min = 1))]
    pub description: String,
    /// Consequences.
    pub impact: Option<String>,
    /// Way to deal with it.
    #[schemars(length(min = 1))]
    pub mitigation: String,
}

/// Common mistake.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct AntiPattern {
    /// Name of the mistake.
    #[schemars(length(min = 1))]
    pub pattern: String,
    /// Description of the mistake.
    #[schemars(length(min = 1))]
    pub description: String,
    /// Kind of the mistake.
    pub category: Option<MistakeKind>,
    /// Wrong usage.
    #[schemars(length(min = 1))]
    pub wrong: String,
    /// Correct usage.
    #[schemars(length(min = 1))]
    pub correct: String,
    /// Reason.
    pub rationale: Option<String>,
}

/// Kind of a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words are those of the specification")]
pub enum MistakeKind {
    ApiUsage,
    Validation,
    ErrorHandling,
    Performance,
    Security,
}

/// Examples by command. In schema 1.0 the list may contain anything; rules for 2.0 are checked on the tree.
pub(crate) type ExamplesByCommand = BTreeMap<String, Vec<CommandExample>>;

/// Reads the items of a list that only informs, without those that are not complete. The schema check has
/// reported them.
pub(crate) fn readable_items<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    reader: D,
) -> Result<Vec<T>, D::Error> {
    let items = Vec::<Value>::deserialize(reader)?;
    Ok(items.into_iter().filter_map(|item| serde_json::from_value(item).ok()).collect())
}

/// Reads the complete examples of each command.
pub(crate) fn readable_examples<'de, D: Deserializer<'de>>(reader: D) -> Result<ExamplesByCommand, D::Error> {
    let lists = BTreeMap::<String, Value>::deserialize(reader)?;
    let read = |list: Value| readable_items(list).unwrap_or_default();
    Ok(lists.into_iter().map(|(command, list)| (command, read(list))).collect())
}

/// Example of a call and its outcome.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct CommandExample {
    /// `success`, `failure_…` or `edge_case_…`.
    #[schemars(length(min = 1))]
    pub scenario: String,
    /// Purpose of the example.
    pub description: Option<String>,
    /// Arguments of the call.
    pub input: Map<String, Value>,
    /// Output of a successful call.
    pub output: Option<Value>,
    /// Error of a failed call.
    pub error: Option<ExampleError>,
    /// Way to deal with the error.
    pub mitigation: Option<String>,
}

/// Error of an example call.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ExampleError {
    /// Error code for programs.
    pub code: Option<String>,
    /// Error message.
    pub message: Option<String>,
}
