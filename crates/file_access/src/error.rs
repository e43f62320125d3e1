//! Errors of this crate: `OpenError` for a path that cannot be opened, `AccessError` for an operation through
//! a handle.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use tool::git::GitEntry;
use tool::text::escape_invisible_line;
use tool::{CallId, Failure, FailureKind, RefusalCode};

use crate::unresolved::UnresolvedReason;

/// Reason why a path could not be looked up at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The path is empty.
    #[error("`{key}` is an empty path: name a file or directory, or `.` for the workspace")]
    Empty {
        /// The argument.
        key: String,
    },
    /// The path contains a NUL byte, at which the operating system would cut it off.
    #[error("`{key}` contains a NUL character, which no file name can: remove it")]
    Nul {
        /// The argument.
        key: String,
    },
    /// The whole path is too long.
    #[error("`{key}` is a path of {bytes} bytes: at most {limit} are possible, the workspace included")]
    PathTooLong {
        /// The argument.
        key: String,
        /// Length of the path.
        bytes: usize,
        /// Maximum length.
        limit: usize,
    },
    /// One name in it is too long.
    #[error("`{key}` has a name of {bytes} bytes that starts `{}`: at most {limit} are possible", escape_invisible_line(.start))]
    NameTooLong {
        /// The argument.
        key: String,
        /// Beginning of the name.
        start: String,
        /// Length of the name.
        bytes: usize,
        /// Maximum length.
        limit: usize,
    },
    /// A relative path has no absolute base directory.
    #[error("`{key}` cannot be resolved against `{}`, which is not an absolute directory", display_path(.base))]
    RelativeBase {
        /// The argument.
        key: String,
        /// Base directory that was given.
        base: PathBuf,
    },
    /// The call names more paths than one call may have open.
    #[error("the call names {count} paths: at most {limit} can be open at once, so split it")]
    TooManyPaths {
        /// The first argument over the limit.
        key: String,
        /// Number of paths.
        count: usize,
        /// Maximum number.
        limit: usize,
    },
    /// The process or the system ran out of descriptors or memory.
    #[error("cannot open the path in `{key}`: {source}")]
    Exhausted {
        /// The argument.
        key: String,
        /// Error of the operating system.
        source: io::Error,
    },
}

impl OpenError {
    /// Returns the stable detail word of the reason.
    pub fn detail(&self) -> &'static str {
        match self {
            OpenError::Empty { .. } => "empty",
            OpenError::Nul { .. } => "nul",
            OpenError::PathTooLong { .. } => "path_too_long",
            OpenError::NameTooLong { .. } => "name_too_long",
            OpenError::RelativeBase { .. } => "relative_base",
            OpenError::TooManyPaths { .. } => "too_many_paths",
            OpenError::Exhausted { .. } => "exhausted",
        }
    }

    /// Returns the argument that was being opened.
    pub fn key(&self) -> &str {
        match self {
            OpenError::Empty { key }
            | OpenError::Nul { key }
            | OpenError::PathTooLong { key, .. }
            | OpenError::NameTooLong { key, .. }
            | OpenError::RelativeBase { key, .. }
            | OpenError::TooManyPaths { key, .. }
            | OpenError::Exhausted { key, .. } => key,
        }
    }

    /// Returns the refusal code of a call with such a path.
    pub fn refusal_code(&self) -> RefusalCode {
        match self {
            OpenError::Exhausted { .. } => RefusalCode::ResourceExhausted,
            OpenError::Empty { .. }
            | OpenError::Nul { .. }
            | OpenError::PathTooLong { .. }
            | OpenError::NameTooLong { .. }
            | OpenError::RelativeBase { .. }
            | OpenError::TooManyPaths { .. } => RefusalCode::InvalidArguments,
        }
    }

    pub(crate) fn exhausted(key: &str, errno: Errno) -> Self {
        OpenError::Exhausted { key: key.to_owned(), source: errno.into() }
    }
}

/// Reason why an operation on an opened path did not happen.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The path did not resolve to an object.
    #[error("cannot use `{}`: {reason}", display_path(.path))]
    Unresolved {
        /// The canonical name.
        path: PathBuf,
        /// Reason.
        reason: UnresolvedReason,
    },
    /// The object has another kind than the operation needs.
    #[error("`{}` is a {found}, not a {expected}", display_path(.path))]
    WrongKind {
        /// The canonical name.
        path: PathBuf,
        /// Kind of the object.
        found: &'static str,
        /// Kind that the operation needs.
        expected: &'static str,
    },
    /// The path was opened for reading because the tool declared only read access.
    #[error("`{}` was opened for reading: the tool must declare write access to this argument", display_path(.path))]
    NotOpenedForWriting {
        /// The canonical name.
        path: PathBuf,
    },
    /// Something exists where nothing was expected.
    #[error("`{}` already exists", display_path(.path))]
    Exists {
        /// The canonical name.
        path: PathBuf,
    },
    /// The content or object is not the expected one.
    #[error("`{}` has changed: {found}", display_path(.path))]
    Conflict {
        /// The canonical name.
        path: PathBuf,
        /// State that was found instead of the expected content.
        found: String,
    },
    /// The saved object is no longer what was removed.
    #[error("`{}` was not restored: its saved original was changed after it was removed", display_path(.path))]
    SavedObjectChanged {
        /// The canonical name.
        path: PathBuf,
        /// Path of the saved object.
        saved: PathBuf,
    },
    /// An entry below the folder must not be removed, so nothing is removed.
    #[error("`{}` was not removed: `{}` {reason}", display_path(.path), display_path(.inner))]
    Blocked {
        /// The canonical name.
        path: PathBuf,
        /// Entry that must stay.
        inner: PathBuf,
        /// Reason.
        reason: &'static str,
    },
    /// The change belongs to a git directory, or would make one.
    #[error("`{}` was not changed: {}", display_path(.path), git_reason(*.entry))]
    GitDirectory {
        /// The canonical name.
        path: PathBuf,
        /// Relation of the change to the git directory.
        entry: GitEntry,
    },
    /// The state before the change does not fit into the undo quota, so nothing is changed.
    #[error(
        "`{}` has {bytes} bytes, more than the {limit} bytes reserved for undo{}", display_path(.path),
        if *in_use > 0 { format!(", of which changes of the last day use {in_use}") } else { String::new() }
    )]
    TooLargeForUndo {
        /// The canonical name.
        path: PathBuf,
        /// Size of the state before the change, or the part of it that was read.
        bytes: u64,
        /// Undo quota.
        limit: u64,
        /// Part of the quota in use by changes that cannot be pruned yet.
        in_use: u64,
    },
    /// The undo store has no record of this call.
    #[error("no saved changes for call {call}: it changed no file, was already undone, or is too old")]
    NoSavedChanges {
        /// The call.
        call: CallId,
    },
    /// The operating system refused or failed.
    #[error("{operation} `{}`: {source}", display_path(.path))]
    Io {
        /// Operation, as in `reading`.
        operation: &'static str,
        /// The canonical name.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

impl AccessError {
    pub(crate) fn io(doing: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        AccessError::Io { operation: doing, path: path.to_owned(), source: source.into() }
    }
}

impl From<AccessError> for Failure {
    fn from(error: AccessError) -> Failure {
        let message = error.to_string();
        match error {
            AccessError::Unresolved { reason: obstacle, .. } => match obstacle {
                UnresolvedReason::Absent => Failure::new(FailureKind::NotFound, message)
                    .with_hint("use list_directory to see existing names, or search_files to find a file by name"),
                UnresolvedReason::ParentMissing => Failure::new(FailureKind::NotFound, message).with_hint(
                    "list_directory shows what is there; to write there, set create_dirs of write_file or call create_directory, which make up to 32 folders at once",
                ),
                UnresolvedReason::NotADirectory => Failure::new(FailureKind::WrongKind, message)
                    .with_hint("list_directory shows what is a directory"),
                UnresolvedReason::Changed => Failure::new(FailureKind::Conflict, message).with_hint("try again"),
                UnresolvedReason::DanglingLink | UnresolvedReason::LinkLoop | UnresolvedReason::MagicLink => {
                    Failure::new(FailureKind::Unreadable, message)
                        .with_hint("name the file itself, not a link to it")
                }
                UnresolvedReason::NotPermitted => Failure::new(FailureKind::Unreadable, message)
                    .with_hint("its permissions deny access to this user; the operator can change them"),
                UnresolvedReason::NameTooLong => Failure::new(FailureKind::Unreadable, message),
                UnresolvedReason::System(_) => Failure::new(FailureKind::Io, message),
            },
            AccessError::WrongKind { found, expected: wanted, .. } => {
                let failure = Failure::new(FailureKind::WrongKind, message);
                match (found, wanted) {
                    ("directory", "file") => failure.with_hint("use list_directory to list a directory"),
                    ("file", "directory") => failure.with_hint("read_file reads a file"),
                    ("file" | "directory", _) => failure,
                    _ => failure.with_hint("name a regular file or a directory"),
                }
            }
            AccessError::NotOpenedForWriting { .. } => Failure::new(FailureKind::Crashed, message),
            AccessError::Exists { .. } => Failure::new(FailureKind::Conflict, message)
                .with_hint("read it first, then write with its sha256 or with permission to overwrite"),
            AccessError::Conflict { .. } => Failure::new(FailureKind::Conflict, message)
                .with_hint("read it again and base the change on what is there"),
            AccessError::SavedObjectChanged { saved, .. } => {
                let hint = format!("inspect `{}` and copy back what is needed", display_path(&saved));
                Failure::new(FailureKind::Conflict, message).with_hint(hint)
            }
            AccessError::Blocked { .. } => Failure::new(FailureKind::Conflict, message)
                .with_hint("nothing was removed; remove the other entries one by one"),
            AccessError::GitDirectory { .. } => Failure::new(FailureKind::Conflict, message)
                .with_hint("git runs programs that a repository configures; create or change the repository with git, outside of Sinew"),
            AccessError::TooLargeForUndo { .. } => Failure::new(FailureKind::TooLarge, message)
                .with_hint("nothing was changed; the operator can raise undo.keep_bytes in sinew.yaml, or set it to 0 to disable undo"),
            AccessError::NoSavedChanges { .. } => Failure::new(FailureKind::NotFound, message)
                .with_hint("`sinew ledger query --tool write_file` shows calls by their ids"),
            AccessError::Io { operation, path, source } => {
                Failure::from_io(&format!("{operation} `{}`", display_path(&path)), &source)
            }
        }
    }
}

fn git_reason(entry: GitEntry) -> &'static str {
    match entry {
        GitEntry::Existing => "it is part of a git repository",
        GitEntry::Completing => "this entry would turn its directory into a git repository",
    }
}

fn display_path(path: &Path) -> String {
    escape_invisible_line(&path.to_string_lossy())
}
