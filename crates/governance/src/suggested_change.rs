//! Suggests the smallest change of one rule that would let a denied call pass that rule.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{RuleRef, ToolDefinition};

use crate::built_in_denials::BUILT_IN_FILE_NAME;
use crate::common_paths::COMMON;
use crate::denial_reason::DenialReason;
use crate::pattern::PathPattern;
use crate::situation::WorkspaceAccess;

/// Suggested change of the rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SuggestedChange {
    /// Rule to change. Line 0: it is in no file, and a line has to be added.
    pub rule: RuleRef,
    /// Description of the change.
    pub description: String,
    /// Text to write, if there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Machine-applicable form of the change. `None` where no line of a file can express it.
    #[serde(skip)]
    pub edit: Option<PolicyEdit>,
}

/// Change of one key in one policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyEdit {
    /// Policy file.
    pub file: PolicyFile,
    /// Path of the key, outermost first.
    pub keys: Vec<String>,
    /// Action on the key.
    pub action: EditAction,
}

/// Action on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditAction {
    /// Adds an item, given as YAML text, to the list.
    Add(String),
    /// Removes the list item with this text that begins on this line.
    Remove {
        /// Line number, 1-based.
        line: u64,
        /// Text of the item, which selects it where the line has several.
        text: String,
    },
    /// Sets the value.
    Set(String),
}

/// File of a policy.
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
    /// All policy files.
    pub const ALL: [PolicyFile; 3] = [PolicyFile::Modes, PolicyFile::Tools, PolicyFile::Safety];

    /// Returns the file name in the policy folder.
    pub fn name(self) -> &'static str {
        match self {
            PolicyFile::Modes => "modes.yaml",
            PolicyFile::Tools => "tools.yaml",
            PolicyFile::Safety => "safety.yaml",
        }
    }
}

/// Value that a rule was evaluated against, as text and as written in a policy file.
#[derive(Clone, Copy)]
pub(crate) struct RuleOperand<'a> {
    pub(crate) value: &'a str,
    pub(crate) yaml: &'a str,
}

impl SuggestedChange {
    fn new(rule: &RuleRef, description: impl Into<String>, text: Option<String>) -> SuggestedChange {
        SuggestedChange { rule: rule.clone(), description: description.into(), text, edit: None }
    }

    fn with_edit(self, edit: Option<PolicyEdit>) -> SuggestedChange {
        SuggestedChange { edit, ..self }
    }
}

/// Suggests how to drop a required approval.
pub(crate) fn for_approval(rule: &RuleRef) -> SuggestedChange {
    let how = match rule.line {
        0 => "the tool's definition requires approval, which no policy file can change".to_owned(),
        _ => "remove this, and no approval is required".to_owned(),
    };
    SuggestedChange::new(rule, how, None)
}

/// Suggests how to lift a denial. Nothing lifts a built-in denial.
pub(crate) fn for_denial(
    definition: &ToolDefinition,
    denial_reason: &DenialReason,
    held: RuleOperand<'_>,
) -> Vec<SuggestedChange> {
    let Some(rule) = denial_reason.rule() else { return Vec::new() };
    let tool = definition.name().as_str();
    let (asked, offered) = (held.value, held.yaml.to_owned());
    let in_tools = |key: &str, value: &str| Some(format!("tools: {{{tool}: {{{key}: {value}}}}}"));
    let own = |key: &str, action: EditAction| {
        Some(PolicyEdit { file: PolicyFile::Tools, keys: keys_in_tools(tool, key), action })
    };
    let here = |action: EditAction| edit_of_rule(rule, action);
    let remove_item =
        || here(EditAction::Remove { line: rule.line, text: held.yaml.trim_matches('"').to_owned() });
    let change = match denial_reason.detail() {
        // Caused by a built-in denial, the machine or the call itself, which no line of a policy file can
        // change.
        "built_in" | "no_canonical_name" | "no_sandbox" | "workspace_root" | "bad_url" | "scheme"
        | "userinfo" | "needs_a_shell" | "no_program" => return Vec::new(),
        _ if &*rule.file == BUILT_IN_FILE_NAME => return Vec::new(),
        "only_reduced_sandbox" => {
            SuggestedChange::new(rule, "add to tools.yaml", in_tools("min_isolation", "reduced"))
                .with_edit(own("min_isolation", EditAction::Set("reduced".to_owned())))
        }
        "not_judged" | "not_confinable" => {
            SuggestedChange::new(rule, "remove this: it does not apply to this tool", None)
        }
        "forbidden" => {
            SuggestedChange::new(rule, format!("remove {asked} from this list, or change the mode"), None)
                .with_edit(remove_item())
        }
        "not_listed" | "category" => add_to_list(definition, rule, held),
        "no_tasks" => SuggestedChange::new(rule, "raise this above 0, or change the mode", None),
        "tool_per_hour" | "mode_per_minute" | "outbound_per_hour" => {
            SuggestedChange::new(rule, "raise this number, or wait for the window to pass", None)
        }
        "forbidden_path" if !is_path_itself(definition, held) => {
            let how = format!("`{}` forbids more than {asked}, so it is not lifted for one call", held.yaml);
            match &*rule.id == COMMON {
                true => {
                    let write = in_tools("forbidden_paths_except", &format!("[{}]", quote_yaml(held.yaml)));
                    SuggestedChange::new(
                        rule,
                        format!("{how}; to lift all of it for this tool, write in tools.yaml"),
                        write,
                    )
                }
                false => SuggestedChange::new(rule, format!("{how}; replace it by narrower patterns"), None),
            }
        }
        "forbidden_path" if &*rule.id == COMMON => {
            let pattern = quote_yaml(held.yaml);
            let write = in_tools("forbidden_paths_except", &format!("[{pattern}]"));
            SuggestedChange::new(rule, "except it for this tool in tools.yaml", write)
                .with_edit(own("forbidden_paths_except", EditAction::Add(pattern)))
        }
        "forbidden_path" | "forbidden_command" | "blocked_domain" => {
            SuggestedChange::new(rule, "remove this pattern or narrow it", None).with_edit(remove_item())
        }
        "read_only_workspace" | "outside_workspaces" | "no_workspace" => {
            let asks_for_folder = FOLDER_TOOLS.contains(&tool);
            let asked = Path::new(asked);
            let folder = if asks_for_folder { Some(asked) } else { asked.parent() };
            let folder = folder.filter(|folder| !is_home_or_above(folder));
            let how = match folder {
                Some(_) => "the operator adds the workspace",
                None => "the operator adds a workspace: a folder inside of a home, not the home itself",
            };
            SuggestedChange::new(rule, how, folder.map(|folder| add_workspace_command(definition, folder)))
        }
        "hardlink" => SuggestedChange::new(rule, "add to tools.yaml", in_tools("hard_links", "allow"))
            .with_edit(own("hard_links", EditAction::Set("allow".to_owned()))),
        "private_address" => {
            let write = Some("allow_private_addresses: true".to_owned());
            SuggestedChange::new(rule, "set in safety.yaml, for every tool", write)
                .with_edit(here(EditAction::Set("true".to_owned())))
        }
        "max_file_size" => {
            SuggestedChange::new(rule, "raise this number", None).with_edit(here(EditAction::Set(offered)))
        }
        _ => SuggestedChange::new(rule, "change this rule", None),
    };
    vec![change]
}

/// Returns true if a forbidding pattern names the one file that the call asks for. A folder is forbidden with its
/// contents.
fn is_path_itself(definition: &ToolDefinition, held: RuleOperand<'_>) -> bool {
    let is_folder = FOLDER_TOOLS.contains(&definition.name().as_str());
    !is_folder && PathPattern::literal(Path::new(held.value)) == held.yaml
}

/// Tools whose path is a folder.
const FOLDER_TOOLS: [&str; 2] = ["list_directory", "search_files"];

/// Returns true for the home of a user, the folder of all homes, and the root.
fn is_home_or_above(folder: &Path) -> bool {
    let below = |homes: &str| folder.strip_prefix(homes).is_ok_and(|rest| rest.components().count() <= 1);
    let is_home_of_root = || folder == Path::new("/").join("root");
    folder.parent().is_none() || is_home_of_root() || below("/home") || below("/Users")
}

fn add_workspace_command(definition: &ToolDefinition, folder: &Path) -> String {
    let changes = definition.path_arguments().iter().any(|argument| argument.access.is_modifying());
    workspace_command(folder, if changes { WorkspaceAccess::ReadWrite } else { WorkspaceAccess::ReadOnly })
}

/// Returns the shell command that adds a workspace. A name with other characters than those of ordinary paths is
/// quoted: it may come from a repository.
pub fn workspace_command(folder: &Path, access: WorkspaceAccess) -> String {
    let option = match access {
        WorkspaceAccess::ReadOnly => " --read-only",
        WorkspaceAccess::ReadWrite => "",
    };
    format!("sinew workspace add {}{option}", shell_word(&folder.to_string_lossy()))
}

/// Quotes a text so that a shell reads it as one word.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,@%:=".contains(c);
    // A word that starts with `-` would be read as an option.
    match !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// Suggests adding an item to a list, or adding the list if it does not exist.
fn add_to_list(definition: &ToolDefinition, rule: &RuleRef, held: RuleOperand<'_>) -> SuggestedChange {
    let tool = definition.name().as_str();
    let add = EditAction::Add(held.yaml.to_owned());
    if rule.line > 0 {
        return SuggestedChange::new(rule, "add to this list", Some(held.yaml.to_owned()))
            .with_edit(edit_of_rule(rule, add));
    }
    let (key, value, action) = match rule.id.rsplit('.').next().unwrap_or_default() {
        // A list in the file replaces that of the definition, so it must repeat the modes of the definition.
        "allowed_modes" => {
            let known = definition.allowed_modes().iter().map(|mode| mode.to_string());
            let modes = known.chain([held.value.to_owned()]).collect::<Vec<_>>().join(", ");
            ("allowed_in_modes", format!("[{modes}]"), EditAction::Set(format!("[{modes}]")))
        }
        key => (key, format!("[{}]", held.yaml), add),
    };
    let write = match PolicyFile::of(rule) {
        None => Some(format!("tools: {{{tool}: {{{key}: {value}}}}}")),
        Some(_) => Some(format!("{}: {value}", rule.id)),
    };
    let file = PolicyFile::of(rule).unwrap_or(PolicyFile::Tools);
    let edit = edit_of_rule(rule, action.clone()).unwrap_or(PolicyEdit {
        file: PolicyFile::Tools,
        keys: keys_in_tools(tool, key),
        action,
    });
    SuggestedChange::new(rule, format!("add to {}", file.name()), write).with_edit(Some(edit))
}

impl PolicyFile {
    fn of(rule: &RuleRef) -> Option<PolicyFile> {
        PolicyFile::ALL.into_iter().find(|file| Path::new(&*rule.file).ends_with(file.name()))
    }
}

/// Returns the edit of the key that holds a rule.
fn edit_of_rule(rule: &RuleRef, action: EditAction) -> Option<PolicyEdit> {
    let file = PolicyFile::of(rule)?;
    let keys = match file {
        PolicyFile::Tools => {
            let (tool, key) = rule.id.rsplit_once('.')?;
            keys_in_tools(tool, key)
        }
        PolicyFile::Modes => ["modes"].into_iter().chain(rule.id.split('.')).map(str::to_owned).collect(),
        PolicyFile::Safety => rule.id.split('.').map(str::to_owned).collect(),
    };
    Some(PolicyEdit { file, keys, action })
}

pub(crate) fn keys_in_tools(tool: &str, key: &str) -> Vec<String> {
    ["tools", tool, key].map(str::to_owned).to_vec()
}

/// Quotes a word for a YAML list where it could otherwise be read as something else.
pub fn quote_yaml(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '.' | '-');
    let has_plain_start = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let reserved_words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_word = !reserved_words.contains(&word.to_ascii_lowercase().as_str());
    if has_plain_start && is_word && word.chars().all(plain) {
        return word.to_owned();
    }
    serde_json::Value::from(word).to_string()
}
