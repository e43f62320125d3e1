//! A command that may be run: its program found, its folders looked through, its walls decided.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use governance::{Isolation, Network, Permit, WorkspaceAccess};
use sha2::{Digest, Sha256};
use tool::{SandboxTier, canonical};

use crate::aftermath::Before;
use crate::awaited::{Awaited, Until};
use crate::check;
use crate::command::{Command, Grant, Workplace};
use crate::enclosure::Enclosure;
use crate::environment;
use crate::error::SandboxError;
use crate::grants::Grants;
use crate::program::{self, Executable, Program};
use crate::shelves::Shelves;
use crate::spec::{Limits, Spec};

const MEBIBYTE: u64 = 1024 * 1024;
/// As many as a login has on most systems.
const OPEN_FILES: u64 = 1024;
/// With a network. Of what is on its way between processes the kernel lets a user have as much as the one who sends may
/// open, all of the user's programs together: this leaves those some that may open no more than a login.
const OPEN_FILES_AND_SENT: u64 = 512;
/// Between the request to end and the end.
const GRACE: Duration = Duration::from_millis(40);

/// A permitted command with everything a launcher must know. Made from a permit and nothing less.
#[derive(Debug)]
pub struct Confined {
    pub(crate) spec: Spec,
    pub(crate) executable: Executable,
    pub(crate) least: SandboxTier,
    pub(crate) output_bytes: usize,
    pub(crate) deadline: Instant,
    /// When its preparation began.
    pub(crate) begun: Instant,
    pub(crate) variables: Vec<(String, OsString)>,
    pub(crate) input: Option<Vec<u8>>,
    /// Whose output it is.
    pub(crate) party: String,
    /// What was there before.
    pub(crate) before: Before,
    /// What is granted to it, if anything is.
    pub(crate) grants: Option<Grants>,
}

impl Confined {
    /// Finds the program and looks through the folders of the permit, as long as somebody waits for it and the command has
    /// time. Blocks on the disk.
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
            tier: SandboxTier::Full,
            network: asked.network,
            program: program.executable.path.clone(),
            device: program.device,
            inode: program.inode,
            words,
            variables: Vec::new(),
            folder,
            writable: writable.clone(),
            readable: readable.clone(),
            hidden: Vec::new(),
            kept: Vec::new(),
            pinned: Vec::new(),
            limits: Limits {
                time: Duration::ZERO,
                grace: GRACE,
                memory_bytes: u64::from(asked.memory_mebibytes()) * MEBIBYTE,
                processes: u64::from(asked.processes()),
                cpu_seconds: u64::from(asked.cpu_seconds.unwrap_or(0)),
                file_bytes: permit.max_file_bytes().unwrap_or(0),
                open_files: open_files(asked.network),
            },
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

    /// The program, as it was found.
    pub fn executable(&self) -> &Executable {
        &self.executable
    }

    /// Whether it may change something in the folders it was granted.
    pub fn can_change(&self) -> bool {
        !self.before.writable.is_empty()
    }

    /// What its walls let through: where that is the same, the same process may serve. Blocks on the disk.
    pub fn enclosure(&self) -> Enclosure {
        Enclosure::of(&self.spec)
    }

    /// A program that does nothing and is granted nothing: what the walls alone cost.
    pub fn nothing() -> Result<Confined, SandboxError> {
        check::command(&["true"])
    }

    /// A program that may read the system and nothing else, without network.
    pub(crate) fn granted_nothing(
        program: Program,
        words: Vec<OsString>,
        memory_bytes: u64,
        processes: u64,
        time: Duration,
    ) -> Confined {
        let limits = Limits {
            time: Duration::ZERO,
            grace: Duration::ZERO,
            memory_bytes,
            processes,
            cpu_seconds: 0,
            file_bytes: 0,
            open_files: 64,
        };
        let spec = Spec {
            tier: SandboxTier::Full,
            network: Network::Off,
            program: program.executable.path.clone(),
            device: program.device,
            inode: program.inode,
            words,
            variables: Vec::new(),
            folder: "/".into(),
            writable: Vec::new(),
            readable: Vec::new(),
            hidden: Vec::new(),
            kept: Vec::new(),
            pinned: Vec::new(),
            limits,
        };
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

    /// Looks again at what it was granted. Blocks on the disk.
    pub(crate) fn looked_through_again(mut self, awaited: &Awaited) -> Result<Confined, SandboxError> {
        if let Some(grants) = &self.grants {
            let until = Until::given_up_or(awaited, self.deadline);
            self.before = grants.look(&mut self.spec, &until)?;
        }
        Ok(self)
    }

    /// Without mounts every name in a granted folder is as open as the folder is.
    pub(crate) fn refuse_what_needs_more_than(&self, tier: SandboxTier) -> Result<(), SandboxError> {
        let held = self
            .spec
            .writable
            .iter()
            .flat_map(|folder| self.spec.kept.iter().filter(move |held| held.path.starts_with(folder)));
        match self.spec.hidden.iter().chain(held).next() {
            Some(held) if tier != SandboxTier::Full => Err(SandboxError::NeedsFull(held.path.clone())),
            _ => Ok(()),
        }
    }

    /// The order for a launcher of this tier.
    pub(crate) fn order(&self, tier: SandboxTier) -> Vec<u8> {
        let (limits, variables) = (self.limits_now(), environment::with(tier, &self.variables));
        Spec { tier, limits, variables, ..self.spec.clone() }.framed()
    }

    /// Its limits, with the time that is left now.
    pub(crate) fn limits_now(&self) -> Limits {
        Limits { time: self.time_left(), ..self.spec.limits }
    }

    /// What the walls of this tier let through, as a digest: the same grants and limits have the same one, whatever runs
    /// in them, however long it may, and whichever files have the names.
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

/// Where the program runs: in a folder it was granted, or in `/`.
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
