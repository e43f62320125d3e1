//! Why a program was not run, or not run to a known end.

use std::io;
use std::path::PathBuf;

use crate::status::{Problem, Step};

/// What went wrong before, around or after a confined program; never what the program itself did.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// No walls, so nothing ran.
    #[error("the sandbox could not be built: {step} `{what}`: {cause}")]
    NotBuilt {
        /// The step of the set-up that failed.
        step: String,
        /// What it was about.
        what: String,
        /// What the system said.
        cause: io::Error,
    },
    /// The walls stood, and the program did not start in them.
    #[error("`{program}` could not be started: {cause}")]
    NotStarted {
        /// The program.
        program: String,
        /// What the system said.
        cause: io::Error,
    },
    /// No folder of the fixed search path has it.
    #[error("there is no program `{name}` in {searched}")]
    NoProgram {
        /// As it was named.
        name: String,
        /// Where it was looked for.
        searched: String,
    },
    /// It is somewhere a confined process could have written it.
    #[error("`{0}` is not in a folder that programs are taken from")]
    UntrustedProgram(PathBuf),
    /// Policy has programs taken from a folder that calls write to, or that may not be read.
    #[error("programs cannot be taken from `{0}`: a call could have written them, or may not read it")]
    UntrustedFolder(PathBuf),
    /// A word names a file by the program's own view, which nobody else has.
    #[error("`{0}` leads through a process, so that it cannot be shown what it is; name the file itself")]
    OwnView(PathBuf),
    /// Its words name more than anybody can look at.
    #[error("the words of the command name more files than a yes can be bound to, such as `{0}`")]
    NamesTooMuch(PathBuf),
    /// A word, a name or a value cannot be handed to a program.
    #[error("{0} has a NUL byte, which no program can be given")]
    Nul(&'static str),
    /// Where it is to run is not a folder it was granted.
    #[error("the folder `{0}` is not one the call was granted")]
    Folder(PathBuf),
    /// What must be hidden or kept in a folder could not be found out.
    #[error("`{folder}` could not be looked through: {cause}")]
    Unlisted {
        /// The granted folder.
        folder: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The same, because there is too much of it.
    #[error("`{folder}` has more than {limit} entries, too many to look for what must be hidden")]
    TooLarge {
        /// The granted folder.
        folder: PathBuf,
        /// How many are looked at.
        limit: usize,
    },
    /// The same, because it took longer than the call has, or nobody waits for it any more.
    #[error("`{0}` could not be looked through in the time there was")]
    OutOfTime(PathBuf),
    /// There are more names to hide or to hold than walls are built for.
    #[error(
        "{count} or more names must be hidden or held in the granted folders, too many to build walls for; most are in \
         `{most_in}`: remove them, or take that folder out of the workspace"
    )]
    TooManyNames {
        /// How many were found.
        count: usize,
        /// Where most of them are.
        most_in: PathBuf,
    },
    /// The walls of this tier cannot hide or hold single names in a folder.
    #[error("`{0}` must be hidden or held, which needs the full tier of the sandbox")]
    NeedsFull(PathBuf),
    /// What must be known to clean up after a run could not be written down first.
    #[error("the run could not be noted, so it was not begun: {0}")]
    NotNoted(io::Error),
    /// It ran, and what it left behind was not all found. What was found is set aside.
    #[error("what the program left behind could not all be looked through: {0}")]
    LeftUnseen(Box<SandboxError>),
    /// It ran, and left so many names that something else acts on that they are not listed. They are set aside.
    #[error(
        "the program left {0} names that something else runs, too many to list; the log has each of them"
    )]
    LeftTooMany(usize),
    /// It ran, and left names that something else acts on, which could not be moved out of the way.
    #[error("the program left {} where something else runs it, and it could not be set aside", names(.0))]
    LeftInPlace(Vec<PathBuf>),
    /// The same of an earlier run.
    #[error(
        "an earlier run left `{}`, which could not be set aside: remove or rename it before anything else runs here",
        .0.display()
    )]
    StillThere(PathBuf),
    /// The launcher could not be started or did not answer as one.
    #[error("the launcher could not be used: {0}")]
    Launcher(io::Error),
    /// The launcher was gone before it said how the program ended. The program went with it.
    #[error("the launcher ended before it said how the program ended")]
    Lost,
}

/// Some names of a list, and how many more there are.
fn names(list: &[PathBuf]) -> String {
    const SHOWN: usize = 5;
    let shown = list.iter().take(SHOWN).map(|path| format!("{path:?}")).collect::<Vec<_>>().join(", ");
    match list.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

impl SandboxError {
    /// Whether something had another name than it was found under, or none, before the walls stood.
    pub(crate) fn is_moved(&self) -> bool {
        use nix::libc::{ELOOP, ENOENT, ENOTDIR, ESTALE};
        let SandboxError::NotBuilt { step, cause, .. } = self else { return false };
        let is_gone = |code| [ENOENT, ESTALE, ENOTDIR, ELOOP].contains(&code);
        step == Step::Mounts.as_str() && cause.raw_os_error().is_some_and(is_gone)
    }
}

impl From<Problem> for SandboxError {
    fn from(problem: Problem) -> Self {
        let cause = problem.cause();
        match problem.step {
            Step::Program => SandboxError::NotStarted { program: problem.what, cause },
            step => SandboxError::NotBuilt { step: step.as_str().to_owned(), what: problem.what, cause },
        }
    }
}
