//! The sections of schema 2.0 as they are written: functions, the oddities of an interface, mistakes, examples. Raw.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Functions in JavaScript. Each runs alone, confined, with nothing but its argument.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecutableKnowledge {
    /// Functions that others refer to.
    #[serde(default)]
    pub(crate) helpers: Vec<HelperFile>,
    /// Functions that change what goes in or comes out.
    #[serde(default)]
    pub(crate) processors: Vec<ProcessorFile>,
    /// Functions that refuse a call before it runs.
    #[serde(default)]
    pub(crate) validators: Vec<ValidatorFile>,
}

/// The one language.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Language {
    Javascript,
}

/// The one runtime, by the name the schema's document has for it.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Runtime {
    IsolatedVm,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "language and runtime have one value each; the file must state them")]
pub(crate) struct HelperFile {
    /// kebab-case, unique.
    #[schemars(length(min = 1))]
    pub(crate) id: String,
    /// `javascript`.
    pub(crate) language: Language,
    /// `isolated_vm`.
    pub(crate) runtime: Runtime,
    /// A function and `module.exports`, or a function that is called at once.
    #[schemars(length(min = 1))]
    pub(crate) function: String,
    /// What it is for.
    #[serde(default)]
    pub(crate) description: Option<String>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "language and runtime have one value each; the file must state them")]
pub(crate) struct ProcessorFile {
    /// kebab-case, unique.
    #[schemars(length(min = 1))]
    pub(crate) id: String,
    /// `javascript`.
    pub(crate) language: Language,
    /// `isolated_vm`.
    #[serde(default)]
    pub(crate) runtime: Option<Runtime>,
    /// A function and `module.exports`, or a function that is called at once.
    #[schemars(length(min = 1))]
    pub(crate) function: String,
    /// What it is for.
    #[serde(default)]
    pub(crate) description: Option<String>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "language and runtime have one value each; the file must state them")]
pub(crate) struct ValidatorFile {
    /// kebab-case, unique.
    #[schemars(length(min = 1))]
    pub(crate) id: String,
    /// The command whose calls it sees.
    #[schemars(length(min = 1))]
    pub(crate) validates: String,
    /// `javascript`.
    pub(crate) language: Language,
    /// `isolated_vm`.
    #[serde(default)]
    pub(crate) runtime: Option<Runtime>,
    /// What needs no function.
    #[serde(default)]
    pub(crate) checks: Vec<Check>,
    /// Must answer `{valid: boolean, errors: string[]}`.
    #[schemars(length(min = 1))]
    pub(crate) function: String,
    /// What it is for.
    #[serde(default)]
    pub(crate) description: Option<String>,
}

/// A check that needs no function: fields that must be there, or a form that text must have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Each must be there and not empty.
    #[serde(default)]
    pub required_fields: Vec<String>,
    /// The form of `field`, or of every argument that is named after the form where there is no `field`.
    #[serde(default)]
    pub format: Option<Format>,
    /// The argument that must have the form.
    #[serde(default)]
    pub field: Option<String>,
}

/// A form that text can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the words are those of JSON Schema")]
pub enum Format {
    Email,
    Uri,
    Date,
    Time,
    DateTime,
    Uuid,
    Ipv4,
    Ipv6,
    Hostname,
}

impl Format {
    /// The word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Email => "email",
            Format::Uri => "uri",
            Format::Date => "date",
            Format::Time => "time",
            Format::DateTime => "date-time",
            Format::Uuid => "uuid",
            Format::Ipv4 => "ipv4",
            Format::Ipv6 => "ipv6",
            Format::Hostname => "hostname",
        }
    }
}

/// What is odd about the interface behind a tool.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiComplexity {
    /// The forms an answer can have.
    #[serde(default)]
    pub payload_schemas: Vec<PayloadSchema>,
    /// Fields of their own kind, by name; or by group and name.
    #[serde(default)]
    pub field_mappings: Map<String, Value>,
    /// What surprises.
    #[serde(default)]
    pub api_quirks: Vec<Quirk>,
}

/// One form of an answer.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PayloadSchema {
    /// What it is called.
    #[serde(rename = "type")]
    #[schemars(length(min = 1))]
    pub kind: String,
    /// How to tell: the field that is there, such as `event field exists` or `webhook_id field`.
    #[schemars(length(min = 1))]
    pub detection: String,
    /// Where the data is, by dots.
    #[schemars(length(min = 1))]
    pub payload_path: String,
}

/// What surprises, and what helps.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quirk {
    /// What it is called.
    #[schemars(length(min = 1))]
    pub quirk: String,
    /// What happens.
    #[schemars(length(min = 1))]
    pub description: String,
    /// What it costs.
    #[serde(default)]
    pub impact: Option<String>,
    /// What helps.
    #[schemars(length(min = 1))]
    pub mitigation: String,
}

/// A mistake that is often made.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AntiPattern {
    /// What it is called.
    #[schemars(length(min = 1))]
    pub pattern: String,
    /// What is wrong.
    #[schemars(length(min = 1))]
    pub description: String,
    /// What kind of mistake it is.
    #[serde(default)]
    pub category: Option<MistakeKind>,
    /// How it is done wrong.
    #[schemars(length(min = 1))]
    pub wrong: String,
    /// How it is done.
    #[schemars(length(min = 1))]
    pub correct: String,
    /// Why.
    #[serde(default)]
    pub rationale: Option<String>,
}

/// What kind of mistake it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words are the document's")]
pub enum MistakeKind {
    ApiUsage,
    Validation,
    ErrorHandling,
    Performance,
    Security,
}

/// Examples by command. A list of anything in schema 1.0; its rules in 2.0 are checked on the tree.
pub(crate) type Examples = BTreeMap<String, Vec<Example>>;

/// A call and what becomes of it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Example {
    /// `success`, `failure_…` or `edge_case_…`.
    #[schemars(length(min = 1))]
    pub scenario: String,
    /// What it shows.
    #[serde(default)]
    pub description: Option<String>,
    /// The arguments.
    pub input: Map<String, Value>,
    /// The answer.
    #[serde(default)]
    pub output: Option<Value>,
    /// The error.
    #[serde(default)]
    pub error: Option<ExampleError>,
    /// What helps.
    #[serde(default)]
    pub mitigation: Option<String>,
}

/// How a call of an example fails.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ExampleError {
    /// A word for programs.
    #[serde(default)]
    pub code: Option<String>,
    /// A sentence.
    #[serde(default)]
    pub message: Option<String>,
}
