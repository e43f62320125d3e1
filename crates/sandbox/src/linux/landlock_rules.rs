//! Landlock rules: which files may be opened, and for what. They restrict reading, which mounts do not, and
//! they work where no mounts can be made. They do not restrict changes of mode, owner and times; only a
//! read-only mount does.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use governance::{Network, SYSTEM_FOLDERS};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, PathFdError,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use rustix::fs::{FileType, fstat};

use crate::launch::spec::Spec;
use crate::launch::status::{Problem, Step};
use crate::layers::{self, Guard};
use crate::linux::mounts::Terminals;
use crate::linux::raw_syscalls;
use crate::prepare::environment::SCRATCH;

/// Folders with information about the process itself and about the processors, readable for every program.
const FACTS: &[&str] = &["/proc", "/sys/devices/system/cpu", "/sys/devices/system/node"];

/// Devices that lead to nothing outside the sandbox.
const DEVICES: &[&str] = &["/dev/null", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Terminal devices of the run itself: the multiplexer, the list, and the session's terminal.
const OWN_TERMINALS: &[&str] = &["/dev/ptmx", "/dev/pts", "/dev/tty"];

/// Readable only: a writable mapping of it would be shared memory that the monitor cannot count.
const READ_DEVICES: &[&str] = &["/dev/zero"];

/// Private scratch folders. Without its own mounts a run has none, because these paths belong to all users.
const PRIVATE: &[&str] = &[SCRATCH, "/var/tmp", "/dev/shm"];

/// States if the scratch folders are private to the run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scratch {
    Private,
    None,
}

/// Landlock ruleset of a run: what every program may open, plus what this one was granted.
pub(crate) struct Rules {
    abi: ABI,
    rules: RulesetCreated,
}

impl Rules {
    /// Creates the rules that hold for every program. Everything that this kernel can restrict is restricted;
    /// a kernel without Landlock is an error.
    pub(crate) fn new(network: Network, terminals: Terminals) -> Result<Rules, Problem> {
        let abi = abi()?;
        let mut rules = ruleset(abi, network).map_err(|error| said("create", &error))?;
        let look = AccessFs::ReadFile | AccessFs::ReadDir;
        let use_device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate;
        let use_terminal = look | AccessFs::WriteFile | AccessFs::IoctlDev;
        let own_terminals = match terminals {
            Terminals::Own => OWN_TERMINALS,
            Terminals::None => &[],
        };
        for (list, access) in [
            (SYSTEM_FOLDERS, AccessFs::from_read(abi)),
            (FACTS, look),
            (READ_DEVICES, look),
            (DEVICES, use_device & AccessFs::from_all(abi)),
            (own_terminals, use_terminal & AccessFs::from_all(abi)),
        ] {
            for path in list {
                rules = allow(rules, abi, Path::new(path), access)?;
            }
        }
        Ok(Rules { abi, rules })
    }

    /// Adds what this run was granted, and restricts this process and its descendants permanently.
    pub(crate) fn restrict(self, spec: &Spec, program: &OwnedFd, scratch: Scratch) -> Result<(), Problem> {
        let Rules { abi, mut rules } = self;
        let (read, all) = (AccessFs::from_read(abi), AccessFs::from_all(abi));
        if scratch == Scratch::Private {
            for path in PRIVATE {
                rules = allow(rules, abi, Path::new(path), all)?;
            }
        }
        // Allowed even outside the system folders: the program was checked and is pinned by its inode.
        rules = rules
            .add_rule(PathBeneath::new(program, read & AccessFs::from_file(abi)))
            .map_err(|error| said("program", &error))?;
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
pub(crate) fn restrict_to_nothing() -> Result<(), Problem> {
    let abi = abi()?;
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))
        .and_then(Ruleset::create)
        .map_err(|error| said("create", &error))?;
    restrict(rules)
}

fn abi() -> Result<ABI, Problem> {
    match ABI::from(raw_syscalls::landlock_version()) {
        ABI::Unsupported => Err(failed("create", libc::EOPNOTSUPP)),
        abi => Ok(abi),
    }
}

pub(crate) fn restrict(rules: RulesetCreated) -> Result<(), Problem> {
    // The library would set `no_new_privs` itself. Here that is a separate step, and without it this one
    // fails.
    let rules = rules.no_new_privs(false);
    let status = rules.restrict_self().map_err(|error| said("restrict", &error))?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced => {
            Err(failed("restrict", libc::EOPNOTSUPP))
        }
    }
}

fn ruleset(abi: ABI, network: Network) -> Result<RulesetCreated, RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    if abi >= ABI::V4 && network == Network::Off && layers::stands(Guard::LandlockPorts) {
        rules = rules.handle_access(AccessNet::from_all(abi))?;
    }
    if abi >= ABI::V6 && layers::stands(Guard::LandlockScopes) {
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
) -> Result<RulesetCreated, Problem> {
    let opened = match PathFd::new(path) {
        Ok(opened) => opened,
        Err(PathFdError::OpenCall { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Ok(rules);
        }
        Err(error) => return Err(said(&path.display().to_string(), &error)),
    };
    let is_folder =
        fstat(&opened).is_ok_and(|facts| FileType::from_raw_mode(facts.st_mode) == FileType::Directory);
    let access = if is_folder { access } else { access & AccessFs::from_file(abi) };
    rules
        .add_rule(PathBeneath::new(opened, access))
        .map_err(|error| said(&path.display().to_string(), &error))
}

pub(crate) fn said(what: &str, error: &dyn std::error::Error) -> Problem {
    Problem { step: Step::Landlock, what: format!("{what}: {error}"), code: 0 }
}

fn failed(what: &str, code: i32) -> Problem {
    Problem { step: Step::Landlock, what: what.to_owned(), code }
}
