//! Differences between platforms: default folders, socket path limits and hang-up detection.
//!
//! The platform is a value, not a `cfg`, so that the layout of each platform is tested on every other.

use std::path::{Path, PathBuf};

/// Supported platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Platform {
    #[cfg_attr(target_os = "macos", allow(dead_code))] // the layout is tested on every platform
    Linux,
    #[cfg_attr(not(target_os = "macos"), allow(dead_code))] // the layout is tested on every platform
    MacOs,
}

/// Folders of a Sinew installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HomeFolders {
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

    /// Longest socket path in bytes: the size of `sun_path` without the final NUL.
    pub(crate) fn max_socket_path_bytes(self) -> usize {
        match self {
            Platform::Linux => 107,
            Platform::MacOs => 103,
        }
    }

    /// Returns true if `POLLHUP` means that the peer closed both directions. macOS also reports it for a peer
    /// that still reads.
    pub(crate) fn hang_up_closes_both_directions(self) -> bool {
        match self {
            Platform::Linux => true,
            Platform::MacOs => false,
        }
    }

    /// Returns true if received data can still be read after the receiving side of a socket was shut down.
    pub(crate) fn shutdown_keeps_received_data(self) -> bool {
        match self {
            Platform::Linux => true,
            Platform::MacOs => false,
        }
    }

    /// Environment variables that `folders` reads.
    pub(crate) fn variables(self) -> &'static [&'static str] {
        match self {
            Platform::Linux => &["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"],
            Platform::MacOs => &[],
        }
    }

    /// Default folders of a user. `xdg` returns the absolute path in an XDG variable, if it is set.
    pub(crate) fn folders(
        self,
        user_home: &Path,
        xdg: impl Fn(&'static str) -> Option<PathBuf>,
    ) -> HomeFolders {
        match self {
            Platform::Linux => {
                let config =
                    xdg("XDG_CONFIG_HOME").unwrap_or_else(|| user_home.join(".config")).join("sinew");
                let state =
                    xdg("XDG_STATE_HOME").unwrap_or_else(|| user_home.join(".local/state")).join("sinew");
                let run = xdg("XDG_RUNTIME_DIR").map_or_else(|| state.join("run"), |dir| dir.join("sinew"));
                HomeFolders { tools: config.join("tools"), log: state.join("log"), config, run, state }
            }
            Platform::MacOs => HomeFolders::under_root(&user_home.join("Library/Application Support/sinew")),
        }
    }
}

impl HomeFolders {
    /// Places all folders below one root.
    pub(crate) fn under_root(root: &Path) -> Self {
        HomeFolders {
            config: root.join("config"),
            tools: root.join("tools"),
            run: root.join("run"),
            state: root.join("state"),
            log: root.join("log"),
        }
    }
}
