//! Environment in which a policy is loaded: path variables, Sinew's own folders, and how this machine
//! compares file names. The caller passes all of it in, so that a test can describe any machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use crate::confinement::SYSTEM_FOLDERS;

/// Everything outside the policy files that affects their meaning.
#[derive(Clone, Debug)]
pub struct PolicyEnvironment {
    /// Values of `$HOME`, `~` and `$XDG_*`.
    pub variables: PathVariables,
    /// Folders that no tool may access, regardless of the policy files.
    pub protected: ProtectedFolders,
    /// Comparison of file names.
    pub name_comparison: NameComparison,
}

/// Variables that patterns may use.
#[derive(Clone, Debug, Default)]
pub struct PathVariables {
    values: BTreeMap<String, PathBuf>,
}

impl PathVariables {
    /// Reads `HOME` and the `XDG_*` folders from an environment, with the defaults of the XDG specification.
    ///
    /// A value that is not an absolute path is ignored, so that a pattern which uses it does not load.
    pub fn from_environment(environment: impl IntoIterator<Item = (String, String)>) -> Self {
        let known = |name: &str| name == "HOME" || name.starts_with("XDG_");
        let mut variables = PathVariables::default();
        for (name, value) in environment.into_iter().filter(|(name, _)| known(name)) {
            variables.set(&name, Path::new(&value));
        }
        if let Some(home) = variables.values.get("HOME").cloned() {
            for (name, default) in XDG_DEFAULTS {
                if !variables.values.contains_key(name) {
                    variables.set(name, &home.join(default));
                }
            }
        }
        variables
    }

    /// Creates variables from a home folder only.
    pub fn with_home(home: &Path) -> Self {
        PathVariables::from_environment([("HOME".to_owned(), home.display().to_string())])
    }

    fn set(&mut self, name: &str, value: &Path) {
        if value.is_absolute() {
            self.values.insert(name.to_owned(), value.to_owned());
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Path> {
        self.values.get(name).map(PathBuf::as_path)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }
}

const XDG_DEFAULTS: [(&str, &str); 4] = [
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
    ("XDG_CACHE_HOME", ".cache"),
];

/// Sinew's own folders: configuration, tool manifests, state, sockets, logs. No tool may access them, whether
/// or not they exist.
#[derive(Clone, Debug, Default)]
pub struct ProtectedFolders {
    /// Absolute paths; each covers everything below it.
    pub folders: Vec<PathBuf>,
}

/// Comparison of file names that differ only in case or Unicode normal form (`é` in one character or two).
/// This is the only place that sets it, so a test can describe either kind of machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameComparison {
    /// They name two files.
    CaseSensitive,
    /// They name one file, as on macOS: forbidding rules match every spelling. Allowing rules are compared
    /// exactly with the canonical name, so that no spelling widens them.
    CaseInsensitive,
}

impl NameComparison {
    /// Returns the default of this operating system.
    pub fn for_this_system() -> Self {
        if cfg!(target_os = "macos") {
            NameComparison::CaseInsensitive
        } else {
            NameComparison::CaseSensitive
        }
    }
}
