//! What a command would run, before it does: the file behind its program's name, where it would run, and the files that
//! its words name. For a person who is asked about it; the run itself finds and pins its program anew.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use governance::{Permit, WorkspaceAccess};

use crate::command::Command;
use crate::confined::{refuse_nul, working_folder};
use crate::environment;
use crate::error::SandboxError;
use crate::program::{self, Executable};
use crate::shelves::Shelves;
use crate::view;

/// A larger file is no script, and would take longer to read than a person waits.
const LARGEST_FILE: u64 = 64 * 1024 * 1024;

/// What a command would run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foresight {
    /// The program.
    pub program: Executable,
    /// Where.
    pub folder: PathBuf,
    /// The files of the granted folders that its words name, such as a script.
    pub files: Vec<Executable>,
    /// The names of the variables it would have.
    pub variables: Vec<String>,
}

impl Foresight {
    /// Looks at the disk, and may block on it.
    pub fn of(permit: &Permit, command: &Command) -> Result<Foresight, SandboxError> {
        refuse_nul(command)?;
        let folders = permit.folders();
        let writable = folders.iter().filter(|folder| folder.access() == WorkspaceAccess::ReadWrite);
        let writable: Vec<PathBuf> = writable.map(|folder| folder.root().to_owned()).collect();
        let shelves = Shelves::of(permit, &writable)?;
        let program = program::find(&command.program, &shelves.search(), &writable)?.executable;
        let folder = working_folder(command, permit)?;
        let mut files = Vec::new();
        for path in command.arguments.iter().flat_map(|word| words(&folder, word)) {
            if view::is_its_own(&path) {
                return Err(SandboxError::OwnView(path));
            }
            let Ok(path) = path.canonicalize() else { continue };
            let granted = folders.iter().any(|granted| path.starts_with(granted.root()));
            if granted && let Some(file) = digested(path)? {
                files.push(file);
            }
        }
        let variables = environment::names(&command.variables);
        Ok(Foresight { program, folder, files, variables })
    }
}

/// The paths a word can stand for: itself, and what follows the `=` of an option.
fn words(folder: &Path, word: &OsStr) -> impl Iterator<Item = PathBuf> {
    let value = word.as_bytes().splitn(2, |byte| *byte == b'=').nth(1).map(OsStr::from_bytes);
    let paths: Vec<PathBuf> =
        [Some(word), value].into_iter().flatten().map(|name| folder.join(name)).collect();
    paths.into_iter()
}

/// A regular file with its digest, read anew: a program that runs already may have it mapped. A folder has none; what a
/// program finds in one is not foreseen.
fn digested(path: PathBuf) -> Result<Option<Executable>, SandboxError> {
    let unreadable = |cause| SandboxError::NotStarted { program: path.display().to_string(), cause };
    let facts = path.metadata().map_err(unreadable)?;
    if !facts.is_file() {
        return Ok(None);
    }
    if facts.len() > LARGEST_FILE {
        return Err(unreadable(std::io::Error::from(std::io::ErrorKind::FileTooLarge)));
    }
    let sha256 = File::open(&path).and_then(program::digest_anew).map_err(unreadable)?;
    Ok(Some(Executable { path, sha256 }))
}
