//! `guardrails.yaml` as it is written. What its words mean is checked in `curated`.

use document::{Located, Table};
use schemars::JsonSchema;
use serde::Deserialize;
use tool::Arguments;

/// What calls must have, beyond or instead of a tool's own schema, and how a good one looks.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "guardrails.yaml")]
pub struct GuardrailsFile {
    /// The tools, by the name callers use. There need not be such a tool here.
    pub tools: Table<CuratedEntry>,
}

/// One tool.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CuratedEntry {
    /// Arguments that must be there. Absent, null and empty text are missing; 0, false, [] and {} are there.
    #[serde(default)]
    pub required: Vec<Located<String>>,
    /// Groups of arguments of which at least one must be there.
    #[serde(default)]
    pub required_any: Vec<Located<Vec<Located<String>>>>,
    /// The least number of characters a text must have, by argument.
    #[serde(default)]
    pub min_length: Table<Located<u32>>,
    /// The argument that holds calls of other tools, as a list of {tool_slug, arguments}.
    #[serde(default)]
    pub calls: Option<Located<String>>,
    /// Arguments of a call that works, shown when one did not.
    #[serde(default)]
    pub example: Option<Located<Arguments>>,
    /// What to use instead, for a name that is kept only to answer those who still use it.
    #[serde(default)]
    pub deprecated: Option<Located<String>>,
}
