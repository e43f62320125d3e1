//! What would have to change: the smallest change of one rule that would let a call past it.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{RuleRef, ToolDefinition};

use crate::floor::BUILT_IN_FLOOR;
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
    /// The same for whoever makes the change. `None` where no line of a file is the right answer.
    #[serde(skip)]
    pub edit: Option<Edit>,
}

/// A change of one key of one policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The file.
    pub file: PolicyFile,
    /// The key, from the outermost in.
    pub keys: Vec<String>,
    /// What is done to it.
    pub act: Act,
}

/// What is done to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Its list gets one more item, written so.
    Add(String),
    /// Its list loses the item that begins on this line and says this.
    Remove {
        /// The line, counted from 1.
        line: u64,
        /// What the item says, where the line has several.
        text: String,
    },
    /// It gets this value.
    Set(String),
}

/// The files of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyFile {
    /// `modes.yaml`.
    Modes,
    /// `tools.yaml`.
    Tools,
    /// `safety.yaml`.
    Safety,
}

impl PolicyFile {
    /// All of them.
    pub const ALL: [PolicyFile; 3] = [PolicyFile::Modes, PolicyFile::Tools, PolicyFile::Safety];

    /// Its name in the folder of the policy.
    pub fn name(self) -> &'static str {
        match self {
            PolicyFile::Modes => "modes.yaml",
            PolicyFile::Tools => "tools.yaml",
            PolicyFile::Safety => "safety.yaml",
        }
    }
}

/// What a rule was held against: as it is asked, and as a file writes it.
#[derive(Clone, Copy)]
pub(crate) struct Held<'a> {
    pub(crate) asked: &'a str,
    pub(crate) offered: &'a str,
}

impl Change {
    fn new(rule: &RuleRef, how: impl Into<String>, write: Option<String>) -> Change {
        Change { rule: rule.clone(), how: how.into(), write, edit: None }
    }

    fn by(self, edit: Option<Edit>) -> Change {
        Change { edit, ..self }
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

/// What would lift a denial. Nothing lifts the floor.
pub(crate) fn of_denial(definition: &ToolDefinition, grounds: &Grounds, held: Held<'_>) -> Vec<Change> {
    let Some(rule) = grounds.rule() else { return Vec::new() };
    let tool = definition.name().as_str();
    let (asked, offered) = (held.asked, held.offered.to_owned());
    let in_tools = |key: &str, value: &str| Some(format!("tools: {{{tool}: {{{key}: {value}}}}}"));
    let own =
        |key: &str, act: Act| Some(Edit { file: PolicyFile::Tools, keys: keys_in_tools(tool, key), act });
    let here = |act: Act| edit_at(rule, act);
    let gone = || here(Act::Remove { line: rule.line, text: held.offered.trim_matches('"').to_owned() });
    let change = match grounds.detail() {
        // The floor, the machine, or the call itself: no line of a file is in the way.
        "floor" | "no_canonical_name" | "no_sandbox" | "workspace_root" | "bad_url" | "scheme"
        | "userinfo" | "needs_a_shell" | "no_program" => return Vec::new(),
        _ if &*rule.file == BUILT_IN_FLOOR => return Vec::new(),
        "only_reduced_sandbox" => {
            Change::new(rule, "add to tools.yaml", in_tools("min_isolation", "reduced"))
                .by(own("min_isolation", Act::Set("reduced".to_owned())))
        }
        "not_judged" | "not_confinable" => {
            Change::new(rule, "take this out: it binds nothing of this tool", None)
        }
        "forbidden" => {
            Change::new(rule, format!("take {asked} out of this list, or change the mode"), None).by(gone())
        }
        "not_listed" | "category" => listed(definition, rule, held),
        "no_tasks" => Change::new(rule, "raise this above 0, or change the mode", None),
        "tool_per_hour" | "mode_per_minute" | "outbound_per_hour" => {
            Change::new(rule, "raise this number, or wait for the window to pass", None)
        }
        "forbidden_path" | "forbidden_command" | "blocked_domain" => {
            Change::new(rule, "take this pattern out or narrow it", None).by(gone())
        }
        "read_only_workspace" | "outside_workspaces" | "no_workspace" => {
            let folder = Path::new(asked).parent();
            let how = "a human adds the workspace";
            Change::new(rule, how, folder.map(|folder| add_workspace(definition, folder)))
        }
        "hardlink" => Change::new(rule, "add to tools.yaml", in_tools("hard_links", "allow"))
            .by(own("hard_links", Act::Set("allow".to_owned()))),
        "private_address" => {
            let write = Some("allow_private_addresses: true".to_owned());
            Change::new(rule, "set in safety.yaml, for every tool", write)
                .by(here(Act::Set("true".to_owned())))
        }
        "max_file_size" => Change::new(rule, "raise this number", None).by(here(Act::Set(offered))),
        _ => Change::new(rule, "change this rule", None),
    };
    vec![change]
}

/// The command that adds a folder, as a shell takes it: read-only for a tool that changes nothing there.
fn add_workspace(definition: &ToolDefinition, folder: &Path) -> String {
    let folder = folder.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,@%:=".contains(c);
    let word = match folder.chars().all(is_plain) {
        true => folder.into_owned(),
        false => format!("'{}'", folder.replace('\'', "'\\''")),
    };
    let changes = definition.path_arguments().iter().any(|argument| argument.access.changes());
    format!("sinew workspace add {word}{}", if changes { "" } else { " --read-only" })
}

/// A list that lacks an item, or is not there at all.
fn listed(definition: &ToolDefinition, rule: &RuleRef, held: Held<'_>) -> Change {
    let tool = definition.name().as_str();
    let add = Act::Add(held.offered.to_owned());
    if rule.line > 0 {
        return Change::new(rule, "add to this list", Some(held.offered.to_owned())).by(edit_at(rule, add));
    }
    let (key, value, act) = match rule.id.rsplit('.').next().unwrap_or_default() {
        // A list in the file takes the place of the definition's, so that it must name those modes too.
        "allowed_modes" => {
            let known = definition.allowed_modes().iter().map(|mode| mode.to_string());
            let modes = known.chain([held.asked.to_owned()]).collect::<Vec<_>>().join(", ");
            ("allowed_in_modes", format!("[{modes}]"), Act::Set(format!("[{modes}]")))
        }
        key => (key, format!("[{}]", held.offered), add),
    };
    let write = match PolicyFile::of(rule) {
        None => Some(format!("tools: {{{tool}: {{{key}: {value}}}}}")),
        Some(_) => Some(format!("{}: {value}", rule.id)),
    };
    let file = PolicyFile::of(rule).unwrap_or(PolicyFile::Tools);
    let edit = edit_at(rule, act.clone()).unwrap_or(Edit {
        file: PolicyFile::Tools,
        keys: keys_in_tools(tool, key),
        act,
    });
    Change::new(rule, format!("add to {}", file.name()), write).by(Some(edit))
}

impl PolicyFile {
    fn of(rule: &RuleRef) -> Option<PolicyFile> {
        PolicyFile::ALL.into_iter().find(|file| Path::new(&*rule.file).ends_with(file.name()))
    }
}

/// The key that a rule of a file stands under.
fn edit_at(rule: &RuleRef, act: Act) -> Option<Edit> {
    let file = PolicyFile::of(rule)?;
    let keys = match file {
        PolicyFile::Tools => {
            let (tool, key) = rule.id.rsplit_once('.')?;
            keys_in_tools(tool, key)
        }
        PolicyFile::Modes => ["modes"].into_iter().chain(rule.id.split('.')).map(str::to_owned).collect(),
        PolicyFile::Safety => rule.id.split('.').map(str::to_owned).collect(),
    };
    Some(Edit { file, keys, act })
}

pub(crate) fn keys_in_tools(tool: &str, key: &str) -> Vec<String> {
    ["tools", tool, key].map(str::to_owned).to_vec()
}

/// A word as it stands in a YAML list: a word that could mean something else there is quoted.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '.' | '-');
    let begins = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let means_else = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_word = !means_else.contains(&word.to_ascii_lowercase().as_str());
    if begins && is_word && word.chars().all(plain) {
        return word.to_owned();
    }
    serde_json::Value::from(word).to_string()
}
