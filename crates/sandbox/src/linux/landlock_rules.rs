//! Landlock rules: which files may be opened, and for what. They restrict reading, which mounts do not, and
//! they work where no mounts can be made. They do not restrict changes of mode, owner and times; only a
//! read-only mount does.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use governance::files::NetworkAccess;
use governance::policy_environment::SYSTEM_FOLDERS;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, PathFdError,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use rustix::fs::{FileType, fstat};

use crate::launch::spec::RunSpec;
use crate::launch::status::{SetupFailure, SetupStep};
use crate::layers::{self, SandboxLayer};
use crate::linux::mounts::TerminalAccess;
use crate::linux::raw_syscalls;
use crate::prepare::environment::SCRATCH_DIR;

/// Folders with information about the process itself and about the processors, readable for every program.
const INFORMATION_DIRS: &[&str] = &["/proc", "/sys/devices/system/cpu", "/sys/devices/system/node"];

/// Devices that lead to nothing outside the sandbox.
const SAFE_DEVICES: &[&str] = &["/dev/null", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Terminal devices of the run itself: the multiplexer, the list, and the session's terminal.
const OWN_TERMINALS: &[&str] = &["/dev/ptmx", "/dev/pts", "/dev/tty"];

/// Readable only: a writable mapping of it would be shared memory that the monitor cannot count.
const READ_ONLY_DEVICES: &[&str] = &["/dev/zero"];

/// Private scratch folders. Without its own mounts a run has none, because these paths belong to all users.
const SCRATCH_DIRS: &[&str] = &[SCRATCH_DIR, "/var/tmp", "/dev/shm"];

/// States if the scratch folders are private to the run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScratchAccess {
    Private,
    None,
}

/// Landlock ruleset of a run: what every program may open, plus what this one was granted.
pub(crate) struct LandlockRules {
    abi: ABI,
    rules: RulesetCreated,
}

impl LandlockRules {
    /// Creates the rules that hold for every program. Everything that this kernel can restrict is restricted;
    /// a kernel without Landlock is an error.
    pub(crate) fn new(
        network: NetworkAccess,
        terminals: TerminalAccess,
    ) -> Result<LandlockRules, SetupFailure> {
        let abi = abi()?;
        let mut rules = ruleset(abi, network).map_err(|error| landlock_error("create", &error))?;
        let read_access = AccessFs::ReadFile | AccessFs::ReadDir;
        let use_device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate;
        let use_terminal = read_access | AccessFs::WriteFile | AccessFs::IoctlDev;
        let own_terminals = match terminals {
            TerminalAccess::Own => OWN_TERMINALS,
            TerminalAccess::None => &[],
        };
        for (list, access) in [
            (SYSTEM_FOLDERS, AccessFs::from_read(abi)),
            (INFORMATION_DIRS, read_access),
            (READ_ONLY_DEVICES, read_access),
            (SAFE_DEVICES, use_device & AccessFs::from_all(abi)),
            (own_terminals, use_terminal & AccessFs::from_all(abi)),
        ] {
            for path in list {
                rules = allow(rules, abi, Path::new(path), access)?;
            }
        }
        Ok(LandlockRules { abi, rules })
    }

    /// Adds what this run was granted, and restricts this process and its descendants permanently.
    pub(crate) fn restrict(
        self,
        spec: &RunSpec,
        program: &OwnedFd,
        scratch: ScratchAccess,
    ) -> Result<(), SetupFailure> {
        let LandlockRules { abi, mut rules } = self;
        let (read, all) = (AccessFs::from_read(abi), AccessFs::from_all(abi));
        if scratch == ScratchAccess::Private {
            for path in SCRATCH_DIRS {
                rules = allow(rules, abi, Path::new(path), all)?;
            }
        }
        // Allowed even outside the system folders: the program was checked and is pinned by its inode.
        rules = rules
            .add_rule(PathBeneath::new(program, read & AccessFs::from_file(abi)))
            .map_err(|error| landlock_error("program", &error))?;
        for (list, access) in [(&spec.readable, read), (&spec.writable, all)] {
            for path in list.iter().map(PathBuf::as_path) {
                rules = allow(rules, abi, path, access)?;
            }
        }
        restrict(rules)
    }
}

/// Forbids this process to open any file. It may still signal other processes, because these rules set no
/// signal scope.
pub(crate) fn deny_all_files() -> Result<(), SetupFailure> {
    let abi = abi()?;
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))
        .and_then(Ruleset::create)
        .map_err(|error| landlock_error("create", &error))?;
    restrict(rules)
}

fn abi() -> Result<ABI, SetupFailure> {
    match ABI::from(raw_syscalls::landlock_version()) {
        ABI::Unsupported => Err(errno_error("create", libc::EOPNOTSUPP)),
        abi => Ok(abi),
    }
}

pub(crate) fn restrict(rules: RulesetCreated) -> Result<(), SetupFailure> {
    // The library would set `no_new_privs` itself. Here that is a separate step, and without it this one
    // fails.
    let rules = rules.no_new_privs(false);
    let status = rules.restrict_self().map_err(|error| landlock_error("restrict", &error))?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced => {
            Err(errno_error("restrict", libc::EOPNOTSUPP))
        }
    }
}

fn ruleset(abi: ABI, network: NetworkAccess) -> Result<RulesetCreated, RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    if abi >= ABI::V4 && network == NetworkAccess::Off && layers::is_enabled(SandboxLayer::LandlockPorts) {
        rules = rules.handle_access(AccessNet::from_all(abi))?;
    }
    if abi >= ABI::V6 && layers::is_enabled(SandboxLayer::LandlockScopes) {
        rules = rules.scope(Scope::from_all(abi))?;
    }
    rules.create()
}

/// Allows a path, if it exists.
fn allow(
    rules: RulesetCreated,
    abi: ABI,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, SetupFailure> {
    let opened = match PathFd::new(path) {
        Ok(opened) => opened,
        Err(PathFdError::OpenCall { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Ok(rules);
        }
        Err(error) => return Err(landlock_error(&path.display().to_string(), &error)),
    };
    let is_folder =
        fstat(&opened).is_ok_and(|facts| FileType::from_raw_mode(facts.st_mode) == FileType::Directory);
    let access = if is_folder { access } else { access & AccessFs::from_file(abi) };
    rules
        .add_rule(PathBeneath::new(opened, access))
        .map_err(|error| landlock_error(&path.display().to_string(), &error))
}

pub(crate) fn landlock_error(what: &str, error: &dyn std::error::Error) -> SetupFailure {
    SetupFailure { step: SetupStep::Landlock, what: format!("{what}: {error}"), code: 0 }
}

fn errno_error(what: &str, code: i32) -> SetupFailure {
    SetupFailure { step: SetupStep::Landlock, what: what.to_owned(), code }
}
