//! Why the daemon does not start, or stopped: one enum, each case with its way out. Errors of a single request
//! are not here (`rpc/error.rs`), nor those a client sees (`client.rs`).

use std::path::{Path, PathBuf};

use document::DocumentError;

/// Why the daemon cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Nothing says where to live.
    #[error("no place to live: neither SINEW_HOME nor HOME is set")]
    NoHome,
    /// A variable that must name an absolute folder does not.
    #[error("{variable} is `{}`: it must be an absolute path", .value.display())]
    RelativeHome {
        /// The variable.
        variable: &'static str,
        /// What it holds.
        value: PathBuf,
    },
    /// The operating system has a limit for socket names.
    #[error("the socket path `{}` has {bytes} bytes; this system allows {limit}", .path.display())]
    LongSocketPath {
        /// The path.
        path: PathBuf,
        /// Its length.
        bytes: usize,
        /// The longest that works.
        limit: usize,
    },
    /// A folder that must be private is not, or is not ours.
    #[error("the folder `{}` cannot be used: {reason}", .path.display())]
    UnsafeFolder {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// The command that puts it right.
        remedy: String,
    },
    /// Another process owns the state.
    #[error("another sinew process{} holds `{}`", of_pid(*.pid), .path.display())]
    AlreadyRunning {
        /// Who, where it could be read.
        pid: Option<i32>,
        /// The lock.
        path: PathBuf,
    },
    /// Something answers on the socket although the lock was free.
    #[error("a live process{} answers on `{}`", of_pid(*.pid), .path.display())]
    SocketInUse {
        /// Who, where the kernel says so.
        pid: Option<i32>,
        /// The socket.
        path: PathBuf,
    },
    /// Something that is no socket stands where the socket should be.
    #[error("`{}` is in the way: it is not a socket", .path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// A service manager handed over a socket that others may connect to.
    #[error("the socket `{}` was handed over with mode {mode:o}: others may connect to it", .path.display())]
    OpenSocket {
        /// The path.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The settings file does not say what it should.
    #[error(transparent)]
    Settings(#[from] DocumentError),
    /// The operating system refused something.
    #[error("cannot {doing} `{}`: {cause}", .path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What came back.
        cause: std::io::Error,
    },
    /// Signals cannot be received.
    #[error("cannot listen for signals: {0}")]
    Signals(std::io::Error),
}

impl ServeError {
    /// An operating system error, with what was tried on what.
    pub(crate) fn io(doing: &'static str, path: &Path, cause: std::io::Error) -> Self {
        ServeError::Io { doing, path: path.to_owned(), cause }
    }

    /// What to do about it.
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
            ServeError::SocketInUse { .. } => Some("stop that process, or set another SINEW_HOME".to_owned()),
            ServeError::NotASocket { path } => Some(format!("look at it, then: rm '{}'", path.display())),
            ServeError::OpenSocket { .. } => {
                Some("write the service's files again: `sinew service install`".to_owned())
            }
            // A document's error carries its own suggestion in its text.
            ServeError::Settings(_) | ServeError::Io { .. } | ServeError::Signals(_) => None,
        }
    }
}

/// ` (pid 12)`, or nothing.
pub(crate) fn of_pid(pid: Option<i32>) -> String {
    pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
}
