//! What a policy is read in: the variables its patterns may use, Sinew's own folders, and how this machine
//! compares file names. All of it is handed in, so that a test can be any machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Everything outside the files that decides what they mean.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// What `$HOME`, `~` and `$XDG_*` stand for.
    pub variables: Variables,
    /// What no tool may touch, whatever the files say.
    pub protected: Protected,
    /// How names are compared.
    pub names: FileNames,
}

/// The variables that patterns may use.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    values: BTreeMap<String, PathBuf>,
}

impl Variables {
    /// The variables of an environment: `HOME`, and the `XDG_*` folders with the defaults their standard gives.
    ///
    /// A value that is not an absolute path is left out, so that a pattern which uses it does not load.
    pub fn from_environment(environment: impl IntoIterator<Item = (String, String)>) -> Self {
        let known = |name: &str| name == "HOME" || name.starts_with("XDG_");
        let mut variables = Variables::default();
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

    /// Only a home folder.
    pub fn with_home(home: &Path) -> Self {
        Variables::from_environment([("HOME".to_owned(), home.display().to_string())])
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

/// Sinew's own folders: configuration, tool manifests, state, sockets, logs. Existing or not, no tool reaches them.
#[derive(Clone, Debug, Default)]
pub struct Protected {
    /// Absolute; each covers everything below it.
    pub folders: Vec<PathBuf>,
}

/// Whether two spellings of a name that differ in case or in their normal form (`é` in one character or two) are one
/// file. The one seam for it: a test is such a machine by saying so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileNames {
    /// They are two.
    CaseSensitive,
    /// They are one, as on a Mac: rules that forbid then match every spelling. What is allowed is compared exactly with
    /// the name the system gives the file, so that no spelling widens it.
    CaseInsensitive,
}

impl FileNames {
    /// As this system usually has it.
    pub fn of_this_system() -> Self {
        if cfg!(target_os = "macos") { FileNames::CaseInsensitive } else { FileNames::CaseSensitive }
    }
}
