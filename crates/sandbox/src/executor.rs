//! Execution of a program on behalf of a tool: prepares it on the blocking pool and converts sandbox errors,
//! endings and resource usage into the types of a tool result. The output of the program is left to the tool.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use tool::result::Usage;
use tool::{Failure, FailureKind};

use crate::scan::cancellation::{CancelFlag, run_cancellable};
use crate::{
    CommandPreview, Executable, FolderAccess, ResourceUsage, RunEnd, RunReport, SandboxCommand, SandboxError,
    WorkingDirectory,
};

/// Prepares a run on the blocking pool, because it reads the disk. Dropping the future cancels it.
pub async fn prepare<T: Send + 'static>(
    work: impl FnOnce(&CancelFlag) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    match run_cancellable(work).await {
        Ok(prepared) => prepared,
        Err(_) => Err(Failure::new(FailureKind::Crashed, "preparing the sandbox failed")),
    }
}

impl SandboxCommand {
    /// Creates a command with the least access: read-only, outside of the granted folders, without input,
    /// variables and captured output.
    pub fn read_only(
        program: impl Into<OsString>,
        arguments: Vec<OsString>,
        deadline: Instant,
    ) -> SandboxCommand {
        SandboxCommand {
            program: program.into(),
            arguments,
            input: None,
            working_directory: WorkingDirectory::Root,
            deadline,
            output_bytes: 0,
            folder_access: FolderAccess::ReadOnly,
            variables: Vec::new(),
        }
    }
}

impl CommandPreview {
    /// Returns the preview as facts of an approval request.
    pub fn facts(&self) -> Vec<(String, String)> {
        let file = |file: &Executable| format!("{} (sha256 {})", file.path.display(), file.sha256);
        let mut facts = vec![
            ("program".to_owned(), file(&self.program)),
            ("runs in".to_owned(), self.folder.display().to_string()),
            ("sees".to_owned(), format!("the variables {}", self.variables.join(", "))),
        ];
        facts.extend(self.files.iter().map(|named| ("reads".to_owned(), file(named))));
        facts
    }
}

impl RunReport {
    /// Returns the resource usage for a tool result.
    pub fn usage(&self) -> Usage {
        self.usage.usage(self.setup_time)
    }
}

impl ResourceUsage {
    /// Returns the resource usage for a tool result, with the time that the set-up of the sandbox took.
    pub fn usage(&self, confining: Duration) -> Usage {
        Usage {
            cpu_ms: self.cpu.as_secs_f64() * 1000.0,
            max_rss_bytes: self.max_rss_bytes,
            confine_ms: confining.as_secs_f64() * 1000.0,
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
        }
    }
}

impl RunEnd {
    /// Returns the exit code as a shell reports it: 128 plus the signal number if a signal ended the program,
    /// and -1 if the sandbox stopped it.
    pub fn exit_code(self) -> i32 {
        match self {
            RunEnd::Exited(code) => code,
            RunEnd::Signalled(signal) => 128 + signal,
            _ => -1,
        }
    }

    /// Returns the failure of a program that did not end by itself. `subject` names the program.
    pub fn failure(self, subject: &str) -> Option<Failure> {
        let (kind, what, hint) = match self {
            RunEnd::Exited(_) | RunEnd::Signalled(_) => return None,
            RunEnd::TimedOut => (
                FailureKind::TimedOut,
                "timed out",
                "all its processes were killed; narrow the request, or raise timeout_seconds in tools.yaml",
            ),
            // Not reported as exhaustion of the machine: that would change the mode, and any program could
            // cause it.
            RunEnd::OutOfMemory => (
                FailureKind::TooLarge,
                "used too much memory",
                "memory_mb in tools.yaml sets the limit; the default is 2048",
            ),
            RunEnd::TooManyProcesses => (
                FailureKind::TooLarge,
                "started too many processes",
                "max_processes in tools.yaml sets the limit",
            ),
            RunEnd::Cancelled => (FailureKind::Cancelled, "was cancelled", "all its processes were killed"),
            RunEnd::Denied => (
                FailureKind::Unreadable,
                "was stopped by the sandbox",
                "the program made a system call that the sandbox denies",
            ),
            RunEnd::Killed => (
                FailureKind::Crashed,
                "was killed by another process",
                "the machine may be short of memory; try again later",
            ),
        };
        Some(Failure::new(kind, format!("{subject} {what}")).with_hint(hint))
    }
}

impl From<SandboxError> for Failure {
    fn from(error: SandboxError) -> Failure {
        let (kind, hint) = match &error {
            SandboxError::ProgramNotFound { .. } => {
                let hint = "install it in a system folder, or add its folder to `program_folders` of the tool in tools.yaml; \
                            `run_tests` and `run_linter` also find programs in the `.venv` of a project";
                (FailureKind::NotFound, hint)
            }
            SandboxError::StartFailed { .. } => {
                (FailureKind::Unreadable, "the sandbox was set up, but the program did not start")
            }
            SandboxError::UntrustedProgram(_) => (
                FailureKind::Unreadable,
                "programs must be in a system directory or in `program_folders` of tools.yaml; to run one of the \
                 workspace, pass it to its interpreter",
            ),
            SandboxError::WritableProgram(_) => (
                FailureKind::Unreadable,
                "remove the write permission of others: `chmod o-w` on the program and its folder",
            ),
            SandboxError::UntrustedProgramDir(_) => (
                FailureKind::Unreadable,
                "`program_folders` in tools.yaml and the workspaces must not overlap",
            ),
            SandboxError::WorkingFolderNotGranted(_) => {
                (FailureKind::NotFound, "use a directory inside a workspace")
            }
            SandboxError::ProcessPath(_) => {
                (FailureKind::WrongKind, "use the path of the file in the workspace")
            }
            SandboxError::TooManyNamedFiles(_) => {
                (FailureKind::TooLarge, "nothing was run; do it in smaller steps")
            }
            SandboxError::NulByte(_) => (FailureKind::WrongKind, "remove the NUL"),
            SandboxError::SetupFailed { .. } | SandboxError::Launcher(_) => {
                (FailureKind::Io, "nothing was run; run `sinew doctor` to see what is missing")
            }
            SandboxError::JournalFailed(_) => {
                (FailureKind::Io, "nothing was run; Sinew's state directory must be writable")
            }
            SandboxError::NeedsFullTier(_) => (
                FailureKind::Io,
                "nothing was run; enable user namespaces, or remove such names from the workspace",
            ),
            SandboxError::ScanFailed { .. }
            | SandboxError::TooLarge { .. }
            | SandboxError::TooManyPaths { .. } => {
                (FailureKind::TooLarge, "nothing was run; use a smaller workspace")
            }
            SandboxError::ScanTimedOut(_) => (
                FailureKind::TimedOut,
                "nothing was run; use a smaller workspace, or raise the timeout of the call",
            ),
            SandboxError::CleanupIncomplete(_) | SandboxError::TooManyLeftovers(_) => {
                (FailureKind::TooLarge, "it ran; review the files it created before other programs use them")
            }
            SandboxError::QuarantineFailed(_) => (
                FailureKind::Io,
                "it ran; remove the files it created before other programs use them and before the next run",
            ),
            SandboxError::LeftoverPresent(_) => {
                (FailureKind::Io, "nothing was run; the operator must remove the file")
            }
            SandboxError::LauncherLost => (FailureKind::Crashed, "the program may already have made changes"),
        };
        Failure::new(kind, error.to_string()).with_hint(hint)
    }
}
