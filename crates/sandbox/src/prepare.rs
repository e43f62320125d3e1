//! Command that is ready to run: its program is found, its folders are scanned, and its sandbox is
//! determined.

pub(crate) mod command;
pub(crate) mod environment;
pub(crate) mod fingerprint;
pub(crate) mod grants;
pub(crate) mod preview;
pub(crate) mod process_paths;
pub(crate) mod program;
pub(crate) mod program_dirs;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use governance::files::{Isolation, NetworkAccess};
use governance::{Permit, WorkspaceAccess};
use nix::unistd::AccessFlags;
use sha2::{Digest, Sha256};
use tool::canonical;
use tool::result::SandboxTier;

use crate::check;
use crate::cleanup::WorkspaceBaseline;
use crate::error::SandboxError;
use crate::launch::spec::{RunLimits, RunSpec};
use crate::prepare::command::{FolderAccess, SandboxCommand, WorkingDirectory};
use crate::prepare::fingerprint::SandboxFingerprint;
use crate::prepare::grants::Grants;
use crate::prepare::program::{Executable, PinnedProgram};
use crate::prepare::program_dirs::ProgramDirs;
use crate::scan::cancellation::{CancelFlag, WorkDeadline};

const MEBIBYTE: u64 = 1024 * 1024;

/// Largest file that a run may write where the policy sets no `max_file_size_mb`. Build products are smaller.
const DEFAULT_FILE_BYTES: u64 = 4096 * MEBIBYTE;
/// Open files limit of a login session on most systems.
const OPEN_FILES: u64 = 1024;
/// Open files limit with network access. The kernel limits the descriptors in flight between all processes of
/// a user to the sender's own open files limit. This lower value leaves some for the user's other programs,
/// which may open no more than a login session.
const OPEN_FILES_WITH_NETWORK: u64 = 512;
/// Time between the request to terminate and the kill.
const GRACE: Duration = Duration::from_millis(40);

/// A permitted command with everything a launcher needs. It can only be created from a permit.
#[derive(Debug)]
pub struct ConfinedCommand {
    pub(crate) spec: RunSpec,
    pub(crate) executable: Executable,
    pub(crate) required_tier: SandboxTier,
    pub(crate) output_bytes: usize,
    pub(crate) deadline: Instant,
    /// Start of the preparation.
    pub(crate) prepared_at: Instant,
    pub(crate) variables: Vec<(String, OsString)>,
    pub(crate) input: Option<Vec<u8>>,
    /// Owner of the output.
    pub(crate) owner: String,
    /// State of the granted folders before the run.
    pub(crate) baseline: WorkspaceBaseline,
    /// Granted folders, if there are any.
    pub(crate) grants: Option<Grants>,
}

impl ConfinedCommand {
    /// Finds the program and scans the granted folders, until the deadline of the command or its
    /// cancellation. Blocks on the disk.
    pub fn prepare(
        permit: &Permit,
        command: &SandboxCommand,
        awaited: &CancelFlag,
    ) -> Result<ConfinedCommand, SandboxError> {
        let prepared_at = Instant::now();
        let of = |access| {
            let granted = permit.sandbox_folders().iter().filter(move |folder| folder.access() == access);
            granted.map(|folder| folder.root().to_owned()).collect::<Vec<PathBuf>>()
        };
        let (mut writable, mut readable) = (of(WorkspaceAccess::ReadWrite), of(WorkspaceAccess::ReadOnly));
        refuse_nul(command)?;
        let program_dirs = ProgramDirs::of(permit)?;
        let program =
            program::find(&command.program, &program_dirs.search_path(), permit.writable_folders())?;
        if command.folder_access == FolderAccess::ReadOnly {
            readable.append(&mut writable);
        }
        let is_granted = |root: &PathBuf| readable.iter().any(|granted| root.starts_with(granted));
        let extra_program_dirs: Vec<PathBuf> =
            program_dirs.roots().iter().filter(|root| !is_granted(root)).cloned().collect();
        readable.extend(extra_program_dirs);
        let folder = working_folder(command, permit)?;
        let confinement = permit.confinement();
        let argv = [command.program.clone()].into_iter().chain(command.arguments.iter().cloned()).collect();
        let mut spec = RunSpec {
            network: confinement.network,
            arguments: argv,
            folder,
            writable: writable.clone(),
            readable: readable.clone(),
            limits: RunLimits {
                time: Duration::ZERO,
                grace: GRACE,
                memory_bytes: u64::from(confinement.effective_memory_mb()) * MEBIBYTE,
                processes: u64::from(confinement.effective_max_processes()),
                cpu_seconds: u64::from(confinement.cpu_seconds.unwrap_or(0)),
                file_bytes: permit.max_file_bytes().unwrap_or(DEFAULT_FILE_BYTES),
                open_files: open_files(confinement.network),
            },
            ..program.spec()
        };
        let grants = Grants { writable, readable, visibility: permit.visibility_filter() };
        let baseline = grants.scan(&mut spec, &WorkDeadline::cancelled_or_at(awaited, command.deadline))?;
        let required_tier = match confinement.min_isolation {
            Isolation::Full => SandboxTier::Full,
            Isolation::Reduced => SandboxTier::Reduced,
        };
        Ok(ConfinedCommand {
            spec,
            executable: program.executable,
            required_tier,
            output_bytes: command.output_bytes,
            deadline: command.deadline,
            prepared_at,
            variables: command.variables.iter().cloned().chain(program_dirs.path_variable()).collect(),
            input: command.input.clone(),
            owner: permit.call().party(),
            baseline,
            grants: Some(grants),
        })
    }

    /// Returns the program that was found.
    pub fn executable(&self) -> &Executable {
        &self.executable
    }

    /// Returns true if it may change files in its granted folders.
    pub fn can_write(&self) -> bool {
        !self.baseline.writable.is_empty()
    }

    /// Returns a fingerprint of the access that the sandbox allows; a process may be reused where it is
    /// equal. Blocks on the disk.
    pub fn fingerprint(&self) -> SandboxFingerprint {
        SandboxFingerprint::of(&self.spec)
    }

    /// Creates a no-op command without grants, to measure the cost of the sandbox alone.
    pub fn no_op() -> Result<ConfinedCommand, SandboxError> {
        check::ungranted_command(&["true"])
    }

    /// Creates a command that may read the system and nothing else, without network.
    pub(crate) fn without_grants(
        program: PinnedProgram,
        argv: Vec<OsString>,
        memory_bytes: u64,
        processes: u64,
        time: Duration,
    ) -> ConfinedCommand {
        let limits = RunLimits { memory_bytes, processes, open_files: 64, ..RunLimits::default() };
        let spec = RunSpec { arguments: argv, folder: "/".into(), limits, ..program.spec() };
        ConfinedCommand {
            spec,
            executable: program.executable,
            required_tier: SandboxTier::Reduced,
            output_bytes: 1024,
            deadline: Instant::now() + time,
            prepared_at: Instant::now(),
            variables: Vec::new(),
            input: None,
            owner: String::new(),
            baseline: WorkspaceBaseline::default(),
            grants: None,
        }
    }

    /// Scans the granted folders again. Blocks on the disk.
    pub(crate) fn rescan(mut self, awaited: &CancelFlag) -> Result<ConfinedCommand, SandboxError> {
        if let Some(grants) = &self.grants {
            let until = WorkDeadline::cancelled_or_at(awaited, self.deadline);
            self.baseline = grants.scan(&mut self.spec, &until)?;
        }
        Ok(self)
    }

    /// Fails if the command needs mounts that this tier does not have: without mounts, every path in a
    /// granted folder is as accessible as the folder.
    pub(crate) fn check_tier(&self, tier: SandboxTier) -> Result<(), SandboxError> {
        if tier == SandboxTier::Full {
            return Ok(());
        }
        let protected = self.spec.writable.iter().flat_map(|folder| {
            self.spec.protected.iter().filter(move |expected| expected.path.starts_with(folder))
        });
        let mut hidden = self.spec.hidden.iter().filter(|hidden| is_open_to_user(&hidden.path));
        match hidden.next().or_else(|| protected.into_iter().next()) {
            Some(expected) => Err(SandboxError::NeedsFullTier(expected.path.clone())),
            None => Ok(()),
        }
    }

    /// Returns the value of a variable that the command sets.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
    }

    /// Returns the run request for a launcher of this tier.
    pub(crate) fn request_bytes(&self, tier: SandboxTier) -> Vec<u8> {
        let (limits, variables) = (self.current_limits(), environment::with_overrides(tier, &self.variables));
        RunSpec { tier, limits, variables, ..self.spec.clone() }.to_frame()
    }

    /// Returns the limits with the time that is left now.
    pub(crate) fn current_limits(&self) -> RunLimits {
        RunLimits { time: self.time_left(), ..self.spec.limits }
    }

    /// Returns a digest of the access that the sandbox allows in this tier. Equal grants and limits give
    /// equal digests, independent of the program, its time limit and the inodes at the paths.
    pub(crate) fn sandbox_digest(&self, tier: SandboxTier) -> String {
        let limits = RunLimits { time: Duration::ZERO, ..self.spec.limits };
        let (argv, variables) = (vec!["".into()], Vec::new());
        let program = PathBuf::new();
        let mut spec = RunSpec {
            tier,
            limits,
            arguments: argv,
            variables,
            program,
            device: 0,
            inode: 0,
            ..self.spec.clone()
        };
        spec.hidden.iter_mut().chain(&mut spec.protected).for_each(|expected| expected.file = (0, 0));
        canonical::hex(&Sha256::digest(spec.to_frame()))
    }

    pub(crate) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

fn open_files(network: NetworkAccess) -> u64 {
    match network {
        NetworkAccess::Off => OPEN_FILES,
        NetworkAccess::Loopback | NetworkAccess::Full => OPEN_FILES_WITH_NETWORK,
    }
}

/// Returns the working folder of the program: a granted folder, or `/`.
pub(crate) fn working_folder(command: &SandboxCommand, permit: &Permit) -> Result<PathBuf, SandboxError> {
    let mut granted = permit.sandbox_folders().iter().map(|folder| folder.root());
    match &command.working_directory {
        WorkingDirectory::Granted(folder) if granted.any(|root| folder.starts_with(root)) => {
            Ok(folder.clone())
        }
        WorkingDirectory::Granted(folder) => Err(SandboxError::WorkingFolderNotGranted(folder.clone())),
        WorkingDirectory::FirstGranted => Ok(granted.next().unwrap_or(Path::new("/")).to_owned()),
        WorkingDirectory::Root => Ok("/".into()),
    }
}

pub(crate) fn refuse_nul(command: &SandboxCommand) -> Result<(), SandboxError> {
    let has_nul = |word: &OsStr| word.as_bytes().contains(&0);
    if has_nul(&command.program) {
        return Err(SandboxError::NulByte("the program"));
    }
    if command.arguments.iter().any(|word| has_nul(word)) {
        return Err(SandboxError::NulByte("an argument"));
    }
    let variable = |(name, value): &(String, OsString)| has_nul(name.as_ref()) || has_nul(value);
    match command.variables.iter().any(variable) {
        true => Err(SandboxError::NulByte("a variable")),
        false => Ok(()),
    }
}

/// Returns true unless the path is permanently closed to this user, such as `/etc/shadow`. The program runs
/// as the same user and gains no rights, so a path that another user owns and closed needs no mount to hide
/// it. The owner could change the mode, and a path that cannot be examined may be open: both count as open.
fn is_open_to_user(path: &Path) -> bool {
    let is_foreign = path.metadata().is_ok_and(|found| found.uid() != nix::unistd::geteuid().as_raw());
    let can = |access| nix::unistd::access(path, access).is_ok();
    !is_foreign || can(AccessFlags::R_OK) || can(AccessFlags::X_OK)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn own_file_without_permissions_counts_as_open() {
        let folder = tempfile::tempdir().unwrap();
        let (secret, closed) = (folder.path().join("secret"), folder.path().join("closed"));
        fs::write(&secret, "x").unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(0o000)).unwrap();
        assert!(is_open_to_user(&secret), "its owner can change the mode");
        fs::create_dir(&closed).unwrap();
        fs::write(closed.join("inner"), "x").unwrap();
        fs::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();
        assert!(is_open_to_user(&closed.join("inner")), "it cannot be examined");
        fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    }
}
