//! The two ways this crate fails: a path that could not be opened at all, and an operation through a handle.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use tool::{CallId, Failure, FailureKind, RefusalCode, visible_line};

use crate::obstacle::Obstacle;

/// A path that could not even be looked for.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Nothing was written.
    #[error("`{key}` is an empty path: name a file or directory, or `.` for the workspace")]
    Empty {
        /// The argument.
        key: String,
    },
    /// The text would be cut short by the operating system.
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
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// One name in it is too long.
    #[error("`{key}` has a name of {bytes} bytes that starts `{}`: at most {limit} are possible", visible_line(.start))]
    NameTooLong {
        /// The argument.
        key: String,
        /// How the name starts.
        start: String,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// There is no place for a relative path to start from.
    #[error("`{key}` cannot be resolved against `{}`, which is not an absolute directory", shown_path(.base))]
    RelativeBase {
        /// The argument.
        key: String,
        /// What was to be the start.
        base: PathBuf,
    },
    /// More paths than one call may hold open.
    #[error("the call names {count} paths: at most {limit} can be open at once, so split it")]
    TooMany {
        /// The argument that is one too many.
        key: String,
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The machine ran out of descriptors or memory.
    #[error("cannot open the path in `{key}`: {source}")]
    Exhausted {
        /// The argument.
        key: String,
        /// Of what.
        source: io::Error,
    },
}

impl OpenError {
    /// One stable word for the reason.
    pub fn detail(&self) -> &'static str {
        match self {
            OpenError::Empty { .. } => "empty",
            OpenError::Nul { .. } => "nul",
            OpenError::PathTooLong { .. } => "path_too_long",
            OpenError::NameTooLong { .. } => "name_too_long",
            OpenError::RelativeBase { .. } => "relative_base",
            OpenError::TooMany { .. } => "too_many_paths",
            OpenError::Exhausted { .. } => "exhausted",
        }
    }

    /// The argument that was being opened.
    pub fn key(&self) -> &str {
        match self {
            OpenError::Empty { key }
            | OpenError::Nul { key }
            | OpenError::PathTooLong { key, .. }
            | OpenError::NameTooLong { key, .. }
            | OpenError::RelativeBase { key, .. }
            | OpenError::TooMany { key, .. }
            | OpenError::Exhausted { key, .. } => key,
        }
    }

    /// What a call with such a path is refused for.
    pub fn refusal_code(&self) -> RefusalCode {
        match self {
            OpenError::Exhausted { .. } => RefusalCode::ResourceExhausted,
            OpenError::Empty { .. }
            | OpenError::Nul { .. }
            | OpenError::PathTooLong { .. }
            | OpenError::NameTooLong { .. }
            | OpenError::RelativeBase { .. }
            | OpenError::TooMany { .. } => RefusalCode::InvalidArguments,
        }
    }

    pub(crate) fn exhausted(key: &str, errno: Errno) -> Self {
        OpenError::Exhausted { key: key.to_owned(), source: errno.into() }
    }
}

/// An operation on an opened path that did not happen.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The path reached nothing.
    #[error("cannot use `{}`: {obstacle}", shown_path(.path))]
    NotThere {
        /// The canonical name.
        path: PathBuf,
        /// Why not.
        obstacle: Obstacle,
    },
    /// Something else is there.
    #[error("`{}` is a {found}, not a {wanted}", shown_path(.path))]
    WrongKind {
        /// The canonical name.
        path: PathBuf,
        /// What is there.
        found: &'static str,
        /// What the operation needs.
        wanted: &'static str,
    },
    /// The tool declared that it would only read.
    #[error("`{}` was opened for reading: the tool must declare write access to this argument", shown_path(.path))]
    NotForWriting {
        /// The canonical name.
        path: PathBuf,
    },
    /// Something is there where nothing was expected.
    #[error("`{}` already exists", shown_path(.path))]
    Exists {
        /// The canonical name.
        path: PathBuf,
    },
    /// The content is not the one that was expected.
    #[error("`{}` has changed: {found}", shown_path(.path))]
    Conflict {
        /// The canonical name.
        path: PathBuf,
        /// What was found instead of the expected content.
        found: String,
    },
    /// What was kept of it is not what went.
    #[error("`{}` stays gone: what was kept of it was changed after it was removed", shown_path(.path))]
    KeptChanged {
        /// The canonical name.
        path: PathBuf,
        /// Where it is kept.
        kept: PathBuf,
    },
    /// Something below it must stay, so all of it does.
    #[error("`{}` stays as it is: `{}` {why}", shown_path(.path), shown_path(.inner))]
    Blocked {
        /// The canonical name.
        path: PathBuf,
        /// What must stay.
        inner: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// What is there before the change is more than is kept, and nothing is changed that could not be taken back.
    #[error(
        "`{}` has {bytes} bytes, more than the {most} that are kept to undo changes{}", shown_path(.path),
        if *taken > 0 { format!(", of which changes of the last day take {taken}") } else { String::new() }
    )]
    TooLargeToKeep {
        /// The canonical name.
        path: PathBuf,
        /// How many there are, or were seen.
        bytes: u64,
        /// How many may be.
        most: u64,
        /// How many of those are taken, and not given up yet.
        taken: u64,
    },
    /// Nothing is kept of this call.
    #[error("nothing is kept of call {call}: it changed no file, was undone already, or is too long ago")]
    NothingKept {
        /// The call.
        call: CallId,
    },
    /// The operating system refused or failed.
    #[error("{doing} `{}`: {source}", shown_path(.path))]
    Io {
        /// What was being done, as in `reading`.
        doing: &'static str,
        /// The canonical name.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

impl AccessError {
    pub(crate) fn io(doing: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        AccessError::Io { doing, path: path.to_owned(), source: source.into() }
    }
}

impl From<AccessError> for Failure {
    fn from(error: AccessError) -> Failure {
        let message = error.to_string();
        match error {
            AccessError::NotThere { obstacle, .. } => match obstacle {
                Obstacle::Absent => Failure::new(FailureKind::NotFound, message)
                    .hint("list_directory shows what is there, search_files finds a file by its name"),
                Obstacle::NoFolder => Failure::new(FailureKind::NotFound, message).hint(
                    "list_directory shows what is there; to write there, set create_dirs of write_file or call create_directory, which make up to 32 folders at once",
                ),
                Obstacle::NotADirectory => Failure::new(FailureKind::WrongKind, message)
                    .hint("list_directory shows what is a directory"),
                Obstacle::Changed => Failure::new(FailureKind::Conflict, message).hint("try again"),
                Obstacle::DanglingLink | Obstacle::LinkLoop | Obstacle::MagicLink => {
                    Failure::new(FailureKind::Unreadable, message)
                        .hint("name the file itself, not a link to it")
                }
                Obstacle::NotPermitted => Failure::new(FailureKind::Unreadable, message)
                    .hint("its permissions keep this user out; a human can change them"),
                Obstacle::NameTooLong => Failure::new(FailureKind::Unreadable, message),
                Obstacle::System(_) => Failure::new(FailureKind::Io, message),
            },
            AccessError::WrongKind { found, wanted, .. } => {
                let failure = Failure::new(FailureKind::WrongKind, message);
                match (found, wanted) {
                    ("directory", "file") => failure.hint("list_directory lists a directory"),
                    ("file", "directory") => failure.hint("read_file reads a file"),
                    ("file" | "directory", _) => failure,
                    _ => failure.hint("only files and directories are touched; name one of those"),
                }
            }
            AccessError::NotForWriting { .. } => Failure::new(FailureKind::Crashed, message),
            AccessError::Exists { .. } => Failure::new(FailureKind::Conflict, message)
                .hint("read it first, then write with its sha256 or with permission to overwrite"),
            AccessError::Conflict { .. } => Failure::new(FailureKind::Conflict, message)
                .hint("read it again and base the change on what is there"),
            AccessError::KeptChanged { kept, .. } => {
                let hint = format!("look at `{}` yourself, and copy back what you know", shown_path(&kept));
                Failure::new(FailureKind::Conflict, message).hint(hint)
            }
            AccessError::Blocked { .. } => Failure::new(FailureKind::Conflict, message)
                .hint("nothing was removed; name what is to go one by one"),
            AccessError::TooLargeToKeep { .. } => Failure::new(FailureKind::TooLarge, message)
                .hint("nothing was changed; a human may raise undo.keep_bytes in sinew.yaml, or set it to 0 to keep nothing"),
            AccessError::NothingKept { .. } => Failure::new(FailureKind::NotFound, message)
                .hint("`sinew ledger query --tool write_file` shows calls by their ids"),
            AccessError::Io { doing, path, source } => {
                Failure::from_io(&format!("{doing} `{}`", shown_path(&path)), &source)
            }
        }
    }
}

fn shown_path(path: &Path) -> String {
    visible_line(&path.to_string_lossy())
}
