//! Command to run: a program with its arguments, working folder and deadline. No shell is involved.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

/// Access of a program to the folders that its permit grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderAccess {
    /// The access that the permit grants.
    AsPermitted,
    /// Read-only, whatever the permit grants, for a program that has nothing to change there.
    ReadOnly,
}

/// Working folder of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkingDirectory {
    /// This folder, which must be in a granted one.
    Granted(PathBuf),
    /// The first granted folder, or `/` if there is none.
    FirstGranted,
    /// `/`. Interpreters load code from their working folder, and no caller of a tool can put files there.
    Root,
}

impl WorkingDirectory {
    /// Uses the folder that the caller requested, if it did.
    pub fn from_request(folder: Option<PathBuf>) -> Self {
        folder.map_or(WorkingDirectory::FirstGranted, WorkingDirectory::Granted)
    }
}

/// One program with its arguments.
#[derive(Clone, Debug)]
pub struct SandboxCommand {
    /// Program, by name on the fixed search path or by absolute path.
    pub program: OsString,
    /// Arguments, passed unchanged.
    pub arguments: Vec<OsString>,
    /// Standard input; `None` means `/dev/null`.
    pub input: Option<Vec<u8>>,
    /// Working folder.
    pub working_directory: WorkingDirectory,
    /// Time at which it is ended.
    pub deadline: Instant,
    /// Number of bytes captured of each output stream.
    pub output_bytes: usize,
    /// Access to the granted folders.
    pub folder_access: FolderAccess,
    /// Variables that extend or override the fixed environment. They come from the tool, never from its
    /// caller.
    pub variables: Vec<(String, OsString)>,
}
