//! What a command would run, before it does: the file behind its program's name, where it would run, and the files that
//! its words name. For a person who is asked about it; the run itself finds and pins its program anew.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use governance::Permit;

use crate::command::Command;
use crate::confined::{refuse_nul, working_folder};
use crate::environment;
use crate::error::SandboxError;
use crate::program::{self, Executable};
use crate::shelves::Shelves;
use crate::view;

/// Larger files are no scripts, and all of them would take longer to read than a person waits.
const LARGEST_FILE: u64 = 64 * 1024 * 1024;
const MOST_BYTES: u64 = 256 * 1024 * 1024;
/// More files than a person reads the names of.
const MOST_FILES: usize = 512;
/// More names than a command has that a person can be shown.
const MOST_NAMES: usize = 64 * 1024;
/// No kernel follows a longer one.
const LONGEST_NAME: usize = 4096;

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
        let shelves = Shelves::of(permit)?;
        let program = program::find(&command.program, &shelves.search(), permit.written_to())?.executable;
        let folder = working_folder(command, permit)?;
        // A shell reads its words there too.
        let words = command.arguments.iter().map(|word| word.as_bytes()).chain(command.input.as_deref());
        let files =
            named(&folder, words, |path| folders.iter().any(|granted| path.starts_with(granted.root())))?;
        let variables = environment::names(&command.variables);
        Ok(Foresight { program, folder, files, variables })
    }
}

/// The files of the granted folders that words name.
fn named<'a>(
    folder: &Path,
    words: impl Iterator<Item = &'a [u8]>,
    is_granted: impl Fn(&Path) -> bool,
) -> Result<Vec<Executable>, SandboxError> {
    let mut looked_at = BTreeSet::new();
    let (mut known, mut files, mut bytes) = (BTreeSet::new(), Vec::new(), 0);
    for name in words.flat_map(names) {
        if !looked_at.insert(name) {
            continue;
        }
        let path = folder.join(OsStr::from_bytes(name));
        let too_many = looked_at.len() > MOST_NAMES || files.len() > MOST_FILES || bytes > MOST_BYTES;
        if too_many {
            return Err(SandboxError::NamesTooMuch(path));
        }
        if view::is_its_own(&path) {
            return Err(SandboxError::OwnView(path));
        }
        let Ok(path) = path.canonicalize() else { continue };
        if is_granted(&path)
            && known.insert(path.clone())
            && let Some((file, size)) = digested(path)?
        {
            bytes += size;
            files.push(file);
        }
    }
    Ok(files)
}

/// The names that a program may find in a word: the word, what is glued to an option of one letter, what follows a sign
/// that programs join names with, and what a shell would make of it.
fn names(word: &[u8]) -> impl Iterator<Item = &[u8]> {
    let joins = |byte: &u8| b"=@:,".contains(byte);
    let splits =
        move |byte: &u8| byte.is_ascii_whitespace() || b";&|<>(){}'\"`$".contains(byte) || joins(byte);
    let rests =
        word.iter().enumerate().filter(move |(_, byte)| joins(byte)).filter_map(|(at, _)| word.get(at + 1..));
    let whole = [word].into_iter().chain(rests);
    let all = whole.chain(word.split(splits));
    let both = all.flat_map(|name| [Some(name), glued(name)].into_iter().flatten());
    both.filter(|name| (1..=LONGEST_NAME).contains(&name.len()))
}

/// What is glued to an option of one letter.
fn glued(name: &[u8]) -> Option<&[u8]> {
    match name {
        [b'-', _, rest @ ..] => Some(rest),
        _ => None,
    }
}

/// A regular file with its digest, read anew: a program that runs already may have it mapped. A folder has none; what a
/// program finds in one is not foreseen.
fn digested(path: PathBuf) -> Result<Option<(Executable, u64)>, SandboxError> {
    let unreadable = |cause| SandboxError::NotStarted { program: path.display().to_string(), cause };
    let facts = path.metadata().map_err(unreadable)?;
    if !facts.is_file() {
        return Ok(None);
    }
    if facts.len() > LARGEST_FILE {
        return Err(unreadable(std::io::Error::from(std::io::ErrorKind::FileTooLarge)));
    }
    let sha256 = File::open(&path).and_then(program::digest_anew).map_err(unreadable)?;
    Ok(Some((Executable { path, sha256 }, facts.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command's words, and which files they name.
    #[test]
    fn a_file_is_named_however_a_program_is_told_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["p.awk", "x.sh", "y.sh", "a b"] {
            std::fs::write(root.join(name), name).unwrap();
        }
        std::fs::create_dir(root.join("d")).unwrap();
        let check = |words: &[&str], expect: &[&str]| {
            let bytes = words.iter().map(|word| word.as_bytes());
            let found = named(&root, bytes, |path| path.starts_with(&root)).unwrap();
            let mut found: Vec<_> =
                found.iter().map(|file| file.path.file_name().unwrap().to_owned()).collect();
            found.sort();
            assert_eq!(found, expect, "{words:?}");
        };
        check(&["-fp.awk"], &["p.awk"]);
        check(&["-S", "sh x.sh"], &["x.sh"]);
        check(&["-c", ". ./x.sh"], &["x.sh"]);
        check(&["-c", "X=./y.sh;. $X && sh 'x.sh'"], &["x.sh", "y.sh"]);
        check(&["-c", "$(cat<x.sh)|sh"], &["x.sh"]);
        check(&["--file=x.sh", "@y.sh"], &["x.sh", "y.sh"]);
        check(&["-Wl,x.sh", "-o:y.sh"], &["x.sh", "y.sh"]);
        check(&["a b", "d", "nothing", "/etc/passwd", ""], &["a b"]);
        check(&["x.sh", "./x.sh", "d/../x.sh"], &["x.sh"]);
    }

    #[test]
    fn a_command_that_names_more_than_can_be_looked_at_is_not_foreseen() {
        let folder = tempfile::tempdir().unwrap();
        let words: String = (0..=MOST_NAMES).map(|n| format!("{n} ")).collect();
        let found = named(folder.path(), [words.as_bytes()].into_iter(), |_| true);
        assert!(matches!(found, Err(SandboxError::NamesTooMuch(_))), "{found:?}");
        let own = named(folder.path(), [b"-c".as_slice(), b"sh</proc/self/cwd/x"].into_iter(), |_| true);
        assert!(matches!(own, Err(SandboxError::OwnView(_))), "{own:?}");
    }
}
