//! What would have to change: the smallest change of one rule that would let a call past it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::RuleRef;

use crate::grounds::Grounds;

/// One change of the rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The rule to change. Line 0: it stands in no file, and a line has to be added.
    pub rule: RuleRef,
    /// What to do there.
    pub how: String,
    /// What is to be written, where something is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<String>,
}

impl Change {
    fn new(rule: &RuleRef, how: impl Into<String>, write: Option<String>) -> Change {
        Change { rule: rule.clone(), how: how.into(), write }
    }
}

/// What would spare the question.
pub(crate) fn of_question(rule: &RuleRef) -> Change {
    let how = match rule.line {
        0 => "the tool's own definition asks; a human answers, no file can take the question away".to_owned(),
        _ => "take this out, and nobody is asked".to_owned(),
    };
    Change::new(rule, how, None)
}

/// What would lift a denial. `asked` is what the rule was held against. Nothing lifts the floor.
pub(crate) fn of_denial(tool: &str, grounds: &Grounds, asked: &str) -> Vec<Change> {
    let Some(rule) = grounds.rule() else { return Vec::new() };
    let in_tools = |key: &str, value: &str| Some(format!("tools: {{{tool}: {{{key}: {value}}}}}"));
    let listed = || match (rule.line, rule.id.rsplit('.').next().unwrap_or_default()) {
        (0, "allowed_modes") => Change::new(
            rule,
            "add to tools.yaml",
            in_tools("allowed_in_modes", &format!("[{}]", quoted(asked))),
        ),
        (0, key) => Change::new(rule, "add to tools.yaml", in_tools(key, &format!("[{}]", quoted(asked)))),
        _ => Change::new(rule, "add to this list", Some(quoted(asked))),
    };
    let change = match grounds.detail() {
        "floor" | "no_canonical_name" => return Vec::new(),
        "forbidden" => Change::new(rule, format!("take {asked} out of this list, or change the mode"), None),
        "not_listed" | "category" => listed(),
        "no_tasks" => Change::new(rule, "raise this above 0, or change the mode", None),
        "no_sandbox" if rule.line == 0 => {
            Change::new(rule, "add to tools.yaml", in_tools("requires_sandbox", "false"))
        }
        "no_sandbox" => Change::new(rule, "take this out: the tool then runs with the daemon's powers", None),
        "tool_per_hour" | "mode_per_minute" => {
            Change::new(rule, "raise this number, or wait for the window to pass", None)
        }
        "forbidden_path" | "forbidden_command" | "blocked_domain" => {
            Change::new(rule, "take this pattern out or narrow it", None)
        }
        "read_only_workspace" | "outside_workspaces" | "no_workspace" => {
            let folder = std::path::Path::new(asked).parent().map(|folder| folder.display().to_string());
            let how = "a human adds the workspace";
            Change::new(rule, how, folder.map(|folder| format!("sinew workspace add {folder}")))
        }
        "hardlink" => Change::new(rule, "add to tools.yaml", in_tools("hard_links", "allow")),
        "private_address" => Change::new(
            rule,
            "set in safety.yaml, for every tool",
            Some("allow_private_addresses: true".to_owned()),
        ),
        "max_file_size" => Change::new(rule, "raise this number", None),
        _ => Change::new(rule, "change this rule", None),
    };
    vec![change]
}

/// A word as it stands in a YAML list.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '.' | '-');
    if !word.is_empty() && word.chars().all(plain) && !word.starts_with('-') {
        return word.to_owned();
    }
    serde_json::Value::from(word).to_string()
}
