//! The command of a standing rule: the very words, or the first ones of a program that does nothing but look.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;

/// The label of the file that a command's program is.
const PROGRAM: &str = "program";

/// Programs that look and nothing else: whatever words follow, they start no program, write no file, change no machine and
/// load no code. Not on the list, though they mostly look: `awk`, `sed`, `find`, `xargs`, `env` (run their words), `git`
/// (`-c`, `--upload-pack`, `--output`, a pager), `sort` and `tree` (`-o`), `uniq` and `xxd` (a second name is written),
/// `diff` (`-l` starts `pr`), `file` (`-C` writes), `rg` (`--pre` runs), `less` (a shell), `date` and `hostname` (set it),
/// `tar`, `tee`, `dd`. A list of what is forbidden was tried: there was always one more wrapper.
const LOOKERS: [&str; 24] = [
    "basename",
    "cat",
    "cksum",
    "cmp",
    "comm",
    "cut",
    "df",
    "dirname",
    "du",
    "echo",
    "grep",
    "head",
    "ls",
    "md5sum",
    "nl",
    "od",
    "pwd",
    "readlink",
    "realpath",
    "sha1sum",
    "sha256sum",
    "stat",
    "tail",
    "wc",
];

/// The words of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Words {
    words: Vec<String>,
    /// Whether more words may follow.
    open: bool,
}

impl Words {
    /// These, and no others.
    pub(super) fn exactly(words: &[String]) -> Words {
        Words { words: words.to_vec(), open: false }
    }

    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// In words.
    pub(super) fn line(&self) -> String {
        let more = if self.open { " and any further words" } else { ", and no further words" };
        format!("  the command is {}{more}", json!(self.words))
    }

    /// Whether a command is covered.
    pub(super) fn begin(&self, words: &[String]) -> bool {
        match self.open {
            // A rule that is on record from before the list was shortened holds no longer.
            true => self.words.first().is_some_and(|name| looks(name)) && words.starts_with(&self.words),
            false => words == self.words,
        }
    }

    /// The same with any words behind these, where the program only looks: by its name, and by that of the file which the
    /// tool foretells is behind it.
    pub(super) fn opened(&self, value: &str, facts: &[(String, String)]) -> Result<Words, String> {
        let words: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
        if words == self.words {
            return Ok(self.clone());
        }
        if !self.words.starts_with(&words) || words.is_empty() {
            return Err(format!("`{value}` does not begin the very command it is made for"));
        }
        let name = words.first().map(String::as_str).unwrap_or_default();
        let found = facts.iter().find(|(label, _)| label == PROGRAM).map(|(_, text)| text.as_str());
        let file = found.and_then(|text| text.rsplit_once(" (sha256 ")).map(|(path, _)| path);
        if !looks(name) || !file.is_some_and(looks) {
            return Err(format!(
                "`{name}` may run or write what its further words say: approve the whole command, or none of it \
                 (any further words are possible for {})",
                LOOKERS.join(", ")
            ));
        }
        if let Some(option) = words.iter().skip(1).find(|word| word.starts_with('-')) {
            return Err(format!("`{option}` is an option: what follows it could mean anything"));
        }
        Ok(Words { words, open: true })
    }
}

/// Whether a program only looks, by the last part of its path.
fn looks(program: &str) -> bool {
    let name = Path::new(program).file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| LOOKERS.contains(&name))
}
