//! Command of a standing rule: an exact command, or the first words of a command whose program is read-only.

use governance::rules::{READ_ONLY_PROGRAMS, is_read_only_program};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Label of the file of the program of a command.
const PROGRAM_LABEL: &str = "program";

/// Words of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RuleCommand {
    #[serde(rename = "words")]
    argv: Vec<String>,
    /// True if more words may follow.
    #[serde(rename = "open")]
    is_prefix: bool,
}

impl RuleCommand {
    /// Matches exactly these words.
    pub(super) fn exact(argv: &[String]) -> RuleCommand {
        RuleCommand { argv: argv.to_vec(), is_prefix: false }
    }

    pub(super) fn is_prefix(&self) -> bool {
        self.is_prefix
    }

    /// Text for the display of the rule.
    pub(super) fn to_line(&self) -> String {
        let more = if self.is_prefix { " and any further words" } else { ", and no further words" };
        format!("  the command is {}{more}", json!(self.argv))
    }

    /// Returns true if a command is covered.
    pub(super) fn covers(&self, argv: &[String]) -> bool {
        match self.is_prefix {
            // A recorded rule from before the list was shortened is no longer valid.
            true => {
                self.argv.first().is_some_and(|name| is_read_only_program(name))
                    && argv.starts_with(&self.argv)
            }
            false => argv == self.argv,
        }
    }

    /// Allows any further words, if the program is read-only by its name and by the name of its file in the
    /// preview of the tool.
    pub(super) fn widen(&self, value: &str, facts: &[(String, String)]) -> Result<RuleCommand, String> {
        let argv: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
        if argv == self.argv {
            return Ok(self.clone());
        }
        if !self.argv.starts_with(&argv) || argv.is_empty() {
            return Err(format!("`{value}` is not the beginning of the command that is being approved"));
        }
        let name = argv.first().map(String::as_str).unwrap_or_default();
        let found = facts.iter().find(|(label, _)| label == PROGRAM_LABEL).map(|(_, text)| text.as_str());
        let file = found.and_then(|text| text.rsplit_once(" (sha256 ")).map(|(path, _)| path);
        if !is_read_only_program(name) || !file.is_some_and(is_read_only_program) {
            return Err(format!(
                "`{name}` may run or write what its further words say: approve the exact command instead \
                 (further words can be allowed for {})",
                READ_ONLY_PROGRAMS.join(", ")
            ));
        }
        if let Some(option) = argv.iter().skip(1).find(|word| word.starts_with('-')) {
            return Err(format!("`{option}` is an option: the words that follow could be its value"));
        }
        Ok(RuleCommand { argv, is_prefix: true })
    }
}
