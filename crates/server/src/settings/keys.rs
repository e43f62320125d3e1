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

pub(super) fn check(
    document: &Document,
    file: &BTreeMap<String, Located<KeyFile>>,
    user_home: Option<&Path>,
) -> Result<BTreeMap<String, KeySetting>, DocumentError> {
    let one = |(name, entry): (&String, &Located<KeyFile>)| {
        let refuse = |reason: &str| {
            document.error_at(entry.line, entry.column, &format!("the key `{name}`: {reason}"))
        };
        let host = Host::parse(&entry.host).map_err(|_| {
            refuse("its host is none").suggest("the name of a host alone, such as mcp.example.com")
        })?;
        let key_file = entry.key_file.as_deref().map(|path| {
            whole_path(path, user_home).map_err(|reason| refuse(&format!("the key file `{path}` {reason}")))
        });
        let (key_file, key_variable) = (key_file.transpose()?, entry.key_variable.clone());
        Ok((name.clone(), KeySetting { host: host.to_string(), key_file, key_variable }))
    };
    file.iter().map(one).collect()
}
