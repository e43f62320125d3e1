//! What differs between the systems: where things live by default, and how long a socket's name may be.
//!
//! Both answers are values, so that each system's layout is tested on every other.

use std::path::{Path, PathBuf};

/// A system Sinew runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Platform {
    #[cfg_attr(target_os = "macos", allow(dead_code))] // the other system's layout is still tested
    Linux,
    #[cfg_attr(not(target_os = "macos"), allow(dead_code))] // the other system's layout is still tested
    MacOs,
}

/// The five folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Folders {
    pub(crate) config: PathBuf,
    pub(crate) tools: PathBuf,
    pub(crate) run: PathBuf,
    pub(crate) state: PathBuf,
    pub(crate) log: PathBuf,
}

impl Platform {
    #[cfg(target_os = "macos")]
    pub(crate) const CURRENT: Platform = Platform::MacOs;
    #[cfg(not(target_os = "macos"))]
    pub(crate) const CURRENT: Platform = Platform::Linux;

    /// The longest socket path in bytes: `sun_path` less its final NUL.
    pub(crate) fn longest_socket_path(self) -> usize {
        match self {
            Platform::Linux => 107,
            Platform::MacOs => 103,
        }
    }

    /// Whether a socket that hung up has closed both directions. macOS says the same of one that still reads.
    pub(crate) fn hang_up_is_final(self) -> bool {
        match self {
            Platform::Linux => true,
            Platform::MacOs => false,
        }
    }

    /// The variables that `folders` asks for.
    pub(crate) fn variables(self) -> &'static [&'static str] {
        match self {
            Platform::Linux => &["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"],
            Platform::MacOs => &[],
        }
    }

    /// The folders of a user, where nothing else was said. `xdg` gives a variable's absolute folder.
    pub(crate) fn folders(self, user_home: &Path, xdg: impl Fn(&'static str) -> Option<PathBuf>) -> Folders {
        match self {
            Platform::Linux => {
                let config =
                    xdg("XDG_CONFIG_HOME").unwrap_or_else(|| user_home.join(".config")).join("sinew");
                let state =
                    xdg("XDG_STATE_HOME").unwrap_or_else(|| user_home.join(".local/state")).join("sinew");
                let run = xdg("XDG_RUNTIME_DIR").map_or_else(|| state.join("run"), |dir| dir.join("sinew"));
                Folders { tools: config.join("tools"), log: state.join("log"), config, run, state }
            }
            Platform::MacOs => Folders::below(&user_home.join("Library/Application Support/sinew")),
        }
    }
}

impl Folders {
    /// Everything below one folder.
    pub(crate) fn below(root: &Path) -> Self {
        Folders {
            config: root.join("config"),
            tools: root.join("tools"),
            run: root.join("run"),
            state: root.join("state"),
            log: root.join("log"),
        }
    }
}
