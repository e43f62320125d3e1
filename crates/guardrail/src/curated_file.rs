//! Raw types of `guardrails.yaml`. The meaning of the entries is checked in `curated`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use strict_yaml::{Located, LocatedMap};

/// Required arguments of calls, in addition to or in place of a tool's own schema, with examples.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "guardrails.yaml")]
#[schemars(transform = strict_yaml::layered::allow_list_changes)]
pub struct GuardrailsFile {
    /// Base of this file: `built_in` (the default), or `none` to replace the built-in file.
    #[serde(default)]
    pub extends: Option<String>,
    /// Tools, by the name callers use. A tool of that name need not exist here.
    pub tools: LocatedMap<CuratedEntry>,
}

/// Requirements for one tool name.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = strict_yaml::layered::allow_list_changes)]
pub struct CuratedEntry {
    /// Required arguments. Absent, null and "" count as missing; 0, false, [] and {} count as present.
    #[serde(default)]
    pub required: Vec<Located<String>>,
    /// Groups of arguments of which at least one must be present.
    #[serde(default)]
    pub required_any: Vec<Located<Vec<Located<String>>>>,
    /// Minimum number of characters of a text, by argument.
    #[serde(default)]
    pub min_length: LocatedMap<Located<u32>>,
    /// Argument that holds calls of other tools, as a list of {tool_slug, arguments}.
    pub calls: Option<Located<String>>,
    /// Arguments of a valid call, or a text that shows one. Included when a call is refused.
    pub example: Option<Located<Value>>,
    /// Replacement to suggest, for a deprecated name that callers may still use.
    pub deprecated: Option<Located<String>>,
    /// Tool of this daemon that does the same, for a name that only other hosts have.
    pub replacement: Option<Located<String>>,
}
