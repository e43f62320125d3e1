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

use governance::{Isolation, Network, Permit, WorkspaceAccess};
use nix::unistd::AccessFlags;
use sha2::{Digest, Sha256};
use tool::{SandboxTier, canonical};

use crate::check;
use crate::cleanup::Before;
use crate::error::SandboxError;
use crate::launch::spec::{Limits, Spec};
use crate::prepare::command::{Command, Grant, Workplace};
use crate::prepare::fingerprint::Enclosure;
use crate::prepare::grants::Grants;
use crate::prepare::program::{Executable, Program};
use crate::prepare::program_dirs::Shelves;
use crate::scan::cancellation::{Awaited, Until};

const MEBIBYTE: u64 = 1024 * 1024;
/// Open files limit of a login session on most systems.
const OPEN_FILES: u64 = 1024;
/// Open files limit with network access. The kernel limits the descriptors in flight between all processes of
/// a user to the sender's own open files limit. This lower value leaves some for the user's other programs,
/// which may open no more than a login session.
const OPEN_FILES_AND_SENT: u64 = 512;
/// Time between the request to terminate and the kill.
const GRACE: Duration = Duration::from_millis(40);

/// A permitted command with everything a launcher needs. It can only be created from a permit.
#[derive(Debug)]
pub struct Confined {
    pub(crate) spec: Spec,
    pub(crate) executable: Executable,
    pub(crate) least: SandboxTier,
    pub(crate) output_bytes: usize,
    pub(crate) deadline: Instant,
    /// Start of the preparation.
    pub(crate) begun: Instant,
    pub(crate) variables: Vec<(String, OsString)>,
    pub(crate) input: Option<Vec<u8>>,
    /// Owner of the output.
    pub(crate) party: String,
    /// State of the granted folders before the run.
    pub(crate) before: Before,
    /// Granted folders, if there are any.
    pub(crate) grants: Option<Grants>,
}

impl Confined {
    /// Finds the program and scans the granted folders, until the deadline of the command or its
    /// cancellation. Blocks on the disk.
    pub fn prepare(permit: &Permit, command: &Command, awaited: &Awaited) -> Result<Confined, SandboxError> {
        let begun = Instant::now();
        let of = |access| {
            let granted = permit.folders().iter().filter(move |folder| folder.access() == access);
            granted.map(|folder| folder.root().to_owned()).collect::<Vec<PathBuf>>()
        };
        let (mut writable, mut readable) = (of(WorkspaceAccess::ReadWrite), of(WorkspaceAccess::ReadOnly));
        refuse_nul(command)?;
        let shelves = Shelves::of(permit)?;
        let program = program::find(&command.program, &shelves.search(), permit.written_to())?;
        if command.grant == Grant::ReadOnly {
            readable.append(&mut writable);
        }
        let is_granted = |root: &PathBuf| readable.iter().any(|granted| root.starts_with(granted));
        let shelved: Vec<PathBuf> =
            shelves.roots().iter().filter(|root| !is_granted(root)).cloned().collect();
        readable.extend(shelved);
        let folder = working_folder(command, permit)?;
        let asked = permit.confinement();
        let words = [command.program.clone()].into_iter().chain(command.arguments.iter().cloned()).collect();
        let mut spec = Spec {
            network: asked.network,
            words,
            folder,
            writable: writable.clone(),
            readable: readable.clone(),
            limits: Limits {
                time: Duration::ZERO,
                grace: GRACE,
                memory_bytes: u64::from(asked.memory_mebibytes()) * MEBIBYTE,
                processes: u64::from(asked.processes()),
                cpu_seconds: u64::from(asked.cpu_seconds.unwrap_or(0)),
                file_bytes: permit.max_file_bytes().unwrap_or(0),
                open_files: open_files(asked.network),
            },
            ..program.spec()
        };
        let grants = Grants { writable, readable, sight: permit.sight() };
        let before = grants.look(&mut spec, &Until::given_up_or(awaited, command.deadline))?;
        let least = match asked.least {
            Isolation::Full => SandboxTier::Full,
            Isolation::Reduced => SandboxTier::Reduced,
        };
        Ok(Confined {
            spec,
            executable: program.executable,
            least,
            output_bytes: command.output_bytes,
            deadline: command.deadline,
            begun,
            variables: command.variables.iter().cloned().chain(shelves.variable()).collect(),
            input: command.input.clone(),
            party: permit.call().party(),
            before,
            grants: Some(grants),
        })
    }

    /// Returns the program that was found.
    pub fn executable(&self) -> &Executable {
        &self.executable
    }

    /// Returns true if it may change files in its granted folders.
    pub fn can_change(&self) -> bool {
        !self.before.writable.is_empty()
    }

    /// Returns a fingerprint of the access that the sandbox allows; a process may be reused where it is
    /// equal. Blocks on the disk.
    pub fn enclosure(&self) -> Enclosure {
        Enclosure::of(&self.spec)
    }

    /// Creates a no-op command without grants, to measure the cost of the sandbox alone.
    pub fn nothing() -> Result<Confined, SandboxError> {
        check::command(&["true"])
    }

    /// Creates a command that may read the system and nothing else, without network.
    pub(crate) fn granted_nothing(
        program: Program,
        words: Vec<OsString>,
        memory_bytes: u64,
        processes: u64,
        time: Duration,
    ) -> Confined {
        let limits = Limits { memory_bytes, processes, open_files: 64, ..Limits::default() };
        let spec = Spec { words, folder: "/".into(), limits, ..program.spec() };
        Confined {
            spec,
            executable: program.executable,
            least: SandboxTier::Reduced,
            output_bytes: 1024,
            deadline: Instant::now() + time,
            begun: Instant::now(),
            variables: Vec::new(),
            input: None,
            party: String::new(),
            before: Before::default(),
            grants: None,
        }
    }

    /// Scans the granted folders again. Blocks on the disk.
    pub(crate) fn looked_through_again(mut self, awaited: &Awaited) -> Result<Confined, SandboxError> {
        if let Some(grants) = &self.grants {
            let until = Until::given_up_or(awaited, self.deadline);
            self.before = grants.look(&mut self.spec, &until)?;
        }
        Ok(self)
    }

    /// Fails if the command needs mounts that this tier does not have: without mounts, every path in a
    /// granted folder is as accessible as the folder.
    pub(crate) fn refuse_what_needs_more_than(&self, tier: SandboxTier) -> Result<(), SandboxError> {
        if tier == SandboxTier::Full {
            return Ok(());
        }
        let held = self
            .spec
            .writable
            .iter()
            .flat_map(|folder| self.spec.kept.iter().filter(move |held| held.path.starts_with(folder)));
        let mut hidden = self.spec.hidden.iter().filter(|hidden| is_open_to_user(&hidden.path));
        match hidden.next().or_else(|| held.into_iter().next()) {
            Some(held) => Err(SandboxError::NeedsFull(held.path.clone())),
            None => Ok(()),
        }
    }

    /// Returns the run request for a launcher of this tier.
    pub(crate) fn order(&self, tier: SandboxTier) -> Vec<u8> {
        let (limits, variables) = (self.limits_now(), environment::with(tier, &self.variables));
        Spec { tier, limits, variables, ..self.spec.clone() }.framed()
    }

    /// Returns the limits with the time that is left now.
    pub(crate) fn limits_now(&self) -> Limits {
        Limits { time: self.time_left(), ..self.spec.limits }
    }

    /// Returns a digest of the access that the sandbox allows in this tier. Equal grants and limits give
    /// equal digests, independent of the program, its time limit and the inodes at the paths.
    pub(crate) fn walls_digest(&self, tier: SandboxTier) -> String {
        let limits = Limits { time: Duration::ZERO, ..self.spec.limits };
        let (words, variables) = (vec!["".into()], Vec::new());
        let program = PathBuf::new();
        let mut spec =
            Spec { tier, limits, words, variables, program, device: 0, inode: 0, ..self.spec.clone() };
        spec.hidden.iter_mut().chain(&mut spec.kept).for_each(|held| held.file = (0, 0));
        canonical::hex(&Sha256::digest(spec.framed()))
    }

    pub(crate) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

fn open_files(network: Network) -> u64 {
    match network {
        Network::Off => OPEN_FILES,
        Network::Loopback | Network::Full => OPEN_FILES_AND_SENT,
    }
}

/// Returns the working folder of the program: a granted folder, or `/`.
pub(crate) fn working_folder(command: &Command, permit: &Permit) -> Result<PathBuf, SandboxError> {
    let mut granted = permit.folders().iter().map(|folder| folder.root());
    match &command.workplace {
        Workplace::In(folder) if granted.any(|root| folder.starts_with(root)) => Ok(folder.clone()),
        Workplace::In(folder) => Err(SandboxError::Folder(folder.clone())),
        Workplace::FirstGranted => Ok(granted.next().unwrap_or(Path::new("/")).to_owned()),
        Workplace::Apart => Ok("/".into()),
    }
}

pub(crate) fn refuse_nul(command: &Command) -> Result<(), SandboxError> {
    let has_nul = |word: &OsStr| word.as_bytes().contains(&0);
    if has_nul(&command.program) {
        return Err(SandboxError::Nul("the program"));
    }
    if command.arguments.iter().any(|word| has_nul(word)) {
        return Err(SandboxError::Nul("an argument"));
    }
    let variable = |(name, value): &(String, OsString)| has_nul(name.as_ref()) || has_nul(value);
    match command.variables.iter().any(variable) {
        true => Err(SandboxError::Nul("a variable")),
        false => Ok(()),
    }
}

/// Returns true unless the path is closed to this user for good, such as `/etc/shadow`. The program runs as the same
/// user and gains no rights, so a path that another user owns and closed needs no mount to hide it. The owner could
/// change the mode, and a path that cannot be examined may be open: both count as open.
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
