//! API keys of servers, by the names that manifests use: where each key is stored and which host or manifest gets
//! it. The settings never contain a key itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use strict_yaml::{Document, DocumentError, Located};
use tool::definition::KeyRecipient;
use url::Host;

use super::web::expand_path;

/// API key: its receiver and its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySetting {
    /// Only receiver of the key.
    pub recipient: KeyRecipient,
    /// File that contains the key.
    pub key_file: Option<PathBuf>,
    /// Environment variable that contains the key.
    pub key_variable: Option<String>,
}

/// API key: its receiver and its location. A key has either `host` or `manifest`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyFile {
    /// Only host that gets the key. A manifest that uses the key for another host does not get it.
    #[serde(default)]
    pub(crate) host: Option<String>,
    /// Id of the only manifest whose started server gets the key, as a variable of the same name.
    #[serde(default)]
    pub(crate) manifest: Option<String>,
    /// File that contains the key and that other users cannot read (mode 0600).
    #[serde(default)]
    pub(crate) key_file: Option<String>,
    /// Environment variable that contains the key.
    #[serde(default)]
    pub(crate) key_variable: Option<String>,
}

/// Other sections in which a user may have written a key.
const OTHER_SECTIONS_WITH_KEYS: [&str; 2] = ["web", "otlp"];
/// Words that an error about the `keys` section may quote.
const QUOTABLE_WORDS: [&str; 8] =
    ["keys", "host", "manifest", "key", "key_file", "key_variable", "name", "url"];

/// Removes the quoted source from an error if it may contain a key. Works on the text, because a file with a
/// syntax error has no parsed tree.
pub(super) fn redact_keys(document: &Document, error: DocumentError) -> DocumentError {
    let lines = usize::try_from(error.line).unwrap_or(usize::MAX);
    let is_key = |line: &&str| !line.starts_with([' ', '\t', '#', '-', '}', ']']) && !line.trim().is_empty();
    let section = document.text().lines().take(lines).filter(is_key).last().unwrap_or_default();
    let section = section.trim_start_matches(['"', '\'']);
    let begins =
        |name: &str| section.strip_prefix(name).is_some_and(|rest| rest.starts_with(['"', '\'', ':', ' ']));
    // In a flow mapping, every line may belong to `keys`.
    if begins("keys") || section.starts_with('{') {
        return error.without_source(&QUOTABLE_WORDS);
    }
    match OTHER_SECTIONS_WITH_KEYS.iter().any(|name| begins(name)) {
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
        let recipient = match (&entry.host, &entry.manifest) {
            (Some(host), None) => {
                let host = Host::parse(host).map_err(|_| {
                    refuse("its host is not a host name")
                        .with_suggestion("a host name alone, such as mcp.example.com")
                })?;
                KeyRecipient::Host(host.to_string())
            }
            (None, Some(id)) => KeyRecipient::Manifest(id.clone()),
            (Some(_), Some(_)) | (None, None) => {
                return Err(refuse("it needs either `host` or `manifest`").with_suggestion(
                    "`host` for a server on the network, `manifest` with the id for a server that Sinew starts",
                ));
            }
        };
        let key_file = entry.key_file.as_deref().map(|path| {
            // The path is not quoted, because it may be the key itself.
            expand_path(path, user_home).map_err(|reason| refuse(&format!("its key file {reason}")))
        });
        let (key_file, key_variable) = (key_file.transpose()?, entry.key_variable.clone());
        Ok((name.clone(), KeySetting { recipient, key_file, key_variable }))
    };
    file.iter().map(one).collect()
}
