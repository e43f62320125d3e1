//! The keys of servers on the network, by the names that manifests give them: where each is kept, and whose it is. The key
//! itself stands in no setting.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use document::{Document, DocumentError, Located};
use schemars::JsonSchema;
use serde::Deserialize;
use url::Host;

use super::web::whole_path;

/// A key: whose it is and where it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySetting {
    /// The one host that gets it, as addresses name it.
    pub host: String,
    /// The file with it.
    pub key_file: Option<PathBuf>,
    /// The variable with it.
    pub key_variable: Option<String>,
}

/// A key: whose it is and where it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyFile {
    /// The one host that gets it. A manifest that names the key for another one gets nothing.
    pub(crate) host: String,
    /// A file with it that nobody else can read (mode 0600).
    #[serde(default)]
    pub(crate) key_file: Option<String>,
    /// The variable with it.
    #[serde(default)]
    pub(crate) key_variable: Option<String>,
}

/// Other parts of the file that lines with a key in them may be written into.
const OTHERS: [&str; 2] = ["web", "otlp"];
/// What may be repeated of a line below `keys`.
const WORDS: [&str; 7] = ["keys", "host", "key", "key_file", "key_variable", "name", "url"];

/// The same error without what stands at its place, where that may be a key. By the text: what cannot be read has no tree.
pub(super) fn without_keys(document: &Document, error: DocumentError) -> DocumentError {
    let lines = usize::try_from(error.line).unwrap_or(usize::MAX);
    let is_key = |line: &&str| !line.starts_with([' ', '\t', '#', '-', '}', ']']) && !line.trim().is_empty();
    let section = document.text().lines().take(lines).filter(is_key).last().unwrap_or_default();
    let section = section.trim_start_matches(['"', '\'']);
    let begins =
        |name: &str| section.strip_prefix(name).is_some_and(|rest| rest.starts_with(['"', '\'', ':', ' ']));
    // One mapping in braces has everything on its lines.
    if begins("keys") || section.starts_with('{') {
        return error.without_source(&WORDS);
    }
    match OTHERS.iter().any(|name| begins(name)) {
        true => DocumentError { excerpt: String::new(), ..error },
        false => error,
    }
}

pub(super) fn check(
    document: &Document,
    file: &BTreeMap<String, Located<KeyFile>>,
    user_home: Option<&Path>,
) -> Result<BTreeMap<String, KeySetting>, DocumentError> {
    let one = |(name, entry): (&String, &Located<KeyFile>)| {
        let refuse = |reason: &str| {
            document.error_at(entry.line, entry.column, &format!("a key below `keys`: {reason}"))
        };
        let host = Host::parse(&entry.host).map_err(|_| {
            refuse("its host is none").suggest("the name of a host alone, such as mcp.example.com")
        })?;
        let key_file = entry.key_file.as_deref().map(|path| {
            // Not repeated: it may be the key itself.
            whole_path(path, user_home).map_err(|reason| refuse(&format!("its key file {reason}")))
        });
        let (key_file, key_variable) = (key_file.transpose()?, entry.key_variable.clone());
        Ok((name.clone(), KeySetting { host: host.to_string(), key_file, key_variable }))
    };
    file.iter().map(one).collect()
}
