//! Errors of a run: why a program was not run, or its end is not known.

use std::io;
use std::path::PathBuf;

use crate::launch::status::{SetupFailure, SetupStep};

/// Failure before, during or after a confined run; never a failure of the program itself.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The sandbox could not be built, so nothing ran.
    #[error("the sandbox could not be built: {step} `{what}`: {cause}")]
    SetupFailed {
        /// Set-up step that failed.
        step: String,
        /// Path or system call that the step was working on.
        what: String,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// The sandbox was built, but the program did not start in it.
    #[error("`{program}` could not be started: {cause}")]
    StartFailed {
        /// Path of the program.
        program: String,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// No folder of the search path contains the program.
    #[error("program `{name}` was not found in {searched}")]
    ProgramNotFound {
        /// Name as the command gives it.
        name: String,
        /// Folders that were searched.
        searched: String,
    },
    /// The program is in a folder that a confined process could write to, or is named by a relative path.
    #[error("`{0}` is not in a trusted program folder")]
    UntrustedProgram(PathBuf),
    /// Every user of the machine can change or replace the program.
    #[error("every user can change `{0}` or replace it in its folder")]
    WritableProgram(PathBuf),
    /// A policy takes programs from a folder that calls can write to, or that may not be read.
    #[error("programs cannot be taken from `{0}`: calls can write to that folder, or may not read it")]
    UntrustedProgramDir(PathBuf),
    /// An argument names a file through `/proc/PID`, which means something else to the daemon than to the
    /// program.
    #[error("`{0}` leads through a process in /proc, so the file cannot be determined; name it directly")]
    ProcessPath(PathBuf),
    /// The arguments name more files than a command preview covers.
    #[error("the arguments of the command name more files than an approval can cover, such as `{0}`")]
    TooManyNamedFiles(PathBuf),
    /// A part of the command contains a NUL byte.
    #[error("{0} contains a NUL byte, which cannot be passed to a program")]
    NulByte(&'static str),
    /// The working folder is not in a granted folder.
    #[error("the working folder `{0}` is not in a folder that the call was granted")]
    WorkingFolderNotGranted(PathBuf),
    /// A granted folder could not be scanned for paths to hide or protect.
    #[error("`{folder}` could not be scanned: {cause}")]
    ScanFailed {
        /// The granted folder.
        folder: PathBuf,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// A granted folder has too many entries to be scanned.
    #[error("`{folder}` has more than {limit} entries, too many to scan for files that must be hidden")]
    TooLarge {
        /// The granted folder.
        folder: PathBuf,
        /// Largest number of entries that are scanned.
        limit: usize,
    },
    /// The scan took longer than the call has, or the call was cancelled.
    #[error("`{0}` could not be scanned in the time available")]
    ScanTimedOut(PathBuf),
    /// There are more paths to hide or protect than the sandbox supports.
    #[error(
        "{count} or more files in the granted folders must be hidden or protected, too many for the sandbox; most are in \
         `{most_in}`: remove them, or take that folder out of the workspace"
    )]
    TooManyPaths {
        /// Number of paths that were found.
        count: usize,
        /// Folder that contains most of them.
        most_in: PathBuf,
    },
    /// This tier cannot hide or protect single paths in a granted folder.
    #[error("`{0}` must be hidden or protected, which needs the full tier of the sandbox")]
    NeedsFullTier(PathBuf),
    /// The record needed to clean up after the run could not be written before it.
    #[error("the run could not be recorded for its cleanup, so it was not started: {0}")]
    JournalFailed(io::Error),
    /// The program ran, but the scan for files it left behind is incomplete. The files that were found are
    /// quarantined.
    #[error("the files that the program left behind could not all be scanned: {0}")]
    CleanupIncomplete(Box<SandboxError>),
    /// The program ran and left more automatically executed files than are listed. All of them are
    /// quarantined.
    #[error(
        "the program left {0} files that other programs run by themselves, too many to list; see the log"
    )]
    TooManyLeftovers(usize),
    /// The program ran and left automatically executed files that could not be quarantined.
    #[error("the program left {}, which could not be quarantined and which other programs run", names(.0))]
    QuarantineFailed(Vec<PathBuf>),
    /// An earlier run left a file that could not be quarantined.
    #[error(
        "an earlier run left `{}`, which could not be quarantined: remove or rename it first",
        .0.display()
    )]
    LeftoverPresent(PathBuf),
    /// The launcher could not be started, or broke the protocol.
    #[error("the launcher could not be used: {0}")]
    Launcher(io::Error),
    /// The launcher ended before it reported how the program ended. The program ended with it.
    #[error("the launcher ended before it reported how the program ended")]
    LauncherLost,
}

/// Lists some paths, and the number of the remaining ones.
fn names(list: &[PathBuf]) -> String {
    const SHOWN: usize = 5;
    let shown = list.iter().take(SHOWN).map(|path| format!("{path:?}")).collect::<Vec<_>>().join(", ");
    match list.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

impl SandboxError {
    /// Returns true if a path was renamed, replaced or removed before the sandbox was built.
    pub(crate) fn is_path_moved(&self) -> bool {
        use nix::libc::{ELOOP, ENOENT, ENOTDIR, ESTALE};
        let SandboxError::SetupFailed { step, cause, .. } = self else { return false };
        let is_gone = |code| [ENOENT, ESTALE, ENOTDIR, ELOOP].contains(&code);
        step == SetupStep::Mounts.as_str() && cause.raw_os_error().is_some_and(is_gone)
    }
}

impl From<SetupFailure> for SandboxError {
    fn from(problem: SetupFailure) -> Self {
        let cause = problem.cause();
        match problem.step {
            SetupStep::Program => SandboxError::StartFailed { program: problem.what, cause },
            step => SandboxError::SetupFailed { step: step.as_str().to_owned(), what: problem.what, cause },
        }
    }
}
