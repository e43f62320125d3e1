//! Errors that keep the daemon from serving, each with a hint. Errors of a single request are in
//! `rpc/error.rs`, errors of the client in `client.rs`.

use std::path::{Path, PathBuf};

use strict_yaml::DocumentError;

/// Error that keeps the daemon from serving.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No environment variable locates the Sinew home.
    #[error("cannot locate the Sinew home folder: neither SINEW_HOME nor HOME is set")]
    NoHome,
    /// A variable that must hold an absolute path holds a relative one.
    #[error("{variable} is `{}`: it must be an absolute path", .value.display())]
    RelativeHome {
        /// Name of the variable.
        variable: &'static str,
        /// Its value.
        value: PathBuf,
    },
    /// The socket path exceeds the limit of the operating system.
    #[error("the socket path `{}` has {bytes} bytes; this system allows {limit}", .path.display())]
    LongSocketPath {
        /// Path of the socket.
        path: PathBuf,
        /// Length of the path in bytes.
        bytes: usize,
        /// Longest path the system allows.
        limit: usize,
    },
    /// A folder that must be private is accessible to others or owned by another user.
    #[error("the folder `{}` cannot be used: {reason}", .path.display())]
    UnsafeFolder {
        /// Path of the folder.
        path: PathBuf,
        /// Description of the problem.
        reason: String,
        /// Command that fixes it.
        remedy: String,
    },
    /// Another process holds the state lock.
    #[error("another sinew process{} holds `{}`", pid_suffix(*.pid), .path.display())]
    AlreadyRunning {
        /// Its process id, if it could be read.
        pid: Option<i32>,
        /// Path of the lock file.
        path: PathBuf,
    },
    /// The state was written by a newer version of Sinew.
    #[error("`{}` has version `{found}`, and this program knows versions up to {known}: a newer version of Sinew wrote this state", .path.display())]
    NewerState {
        /// Path of the version file.
        path: PathBuf,
        /// Version found.
        found: String,
        /// Newest version that this program knows.
        known: u32,
    },
    /// A process accepts connections on the socket although the lock was free.
    #[error("another process{} already listens on `{}`", pid_suffix(*.pid), .path.display())]
    SocketInUse {
        /// Its process id, if the kernel reports it.
        pid: Option<i32>,
        /// Path of the socket.
        path: PathBuf,
    },
    /// A file that is not a socket exists at the path of the socket.
    #[error("cannot bind `{}`: a file that is not a socket exists there", .path.display())]
    NotASocket {
        /// Path of the socket.
        path: PathBuf,
    },
    /// A service manager passed a socket that other users may connect to.
    #[error("the inherited socket `{}` has mode {mode:o}: other users may connect to it", .path.display())]
    InsecureSocket {
        /// Path of the socket.
        path: PathBuf,
        /// Permission bits of the socket file.
        mode: u32,
    },
    /// The settings file is invalid.
    #[error(transparent)]
    Settings(#[from] DocumentError),
    /// A system call failed.
    #[error("cannot {doing} `{}`: {cause}", .path.display())]
    Io {
        /// Action that failed.
        doing: &'static str,
        /// File it was applied to.
        path: PathBuf,
        /// Error of the system call.
        cause: std::io::Error,
    },
    /// The signal handlers could not be installed.
    #[error("cannot listen for signals: {0}")]
    Signals(std::io::Error),
}

impl ServeError {
    /// Wraps an I/O error with the action and the path.
    pub(crate) fn io(doing: &'static str, path: &Path, cause: std::io::Error) -> Self {
        ServeError::Io { doing, path: path.to_owned(), cause }
    }

    /// Returns a suggestion for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            ServeError::NoHome => Some("set SINEW_HOME to an absolute folder".to_owned()),
            ServeError::RelativeHome { variable, .. } => Some(format!("set {variable} to an absolute path")),
            ServeError::LongSocketPath { .. } => Some("set SINEW_HOME to a shorter folder".to_owned()),
            ServeError::UnsafeFolder { remedy, .. } => Some(remedy.clone()),
            ServeError::AlreadyRunning { .. } => Some(
                "`sinew status` shows the running daemon; stop it first, or set another SINEW_HOME"
                    .to_owned(),
            ),
            ServeError::NewerState { .. } => {
                Some("use the version of Sinew that wrote it, or set another SINEW_HOME".to_owned())
            }
            ServeError::SocketInUse { .. } => Some("stop that process, or set another SINEW_HOME".to_owned()),
            ServeError::NotASocket { path } => {
                Some(format!("check the file, then remove it: rm '{}'", path.display()))
            }
            ServeError::InsecureSocket { .. } => {
                Some("write the service's files again: `sinew service install`".to_owned())
            }
            // A settings error already contains its suggestion.
            ServeError::Settings(_) | ServeError::Io { .. } | ServeError::Signals(_) => None,
        }
    }
}

/// Formats a process id as ` (pid 12)`; empty if unknown.
pub(crate) fn pid_suffix(pid: Option<i32>) -> String {
    pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
}
