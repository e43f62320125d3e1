//! Preview of a command for an approval request: the program file, the working folder, and the files that the
//! arguments name. The run itself finds and pins its program again.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use governance::Permit;

use crate::error::SandboxError;
use crate::prepare::command::Command;
use crate::prepare::environment;
use crate::prepare::process_paths;
use crate::prepare::program::{self, Executable};
use crate::prepare::program_dirs::Shelves;
use crate::prepare::{refuse_nul, working_folder};

/// Largest file that is digested, and most bytes in all. Larger files are not scripts, and reading them would
/// delay the approval request.
const LARGEST_FILE: u64 = 64 * 1024 * 1024;
const MOST_BYTES: u64 = 256 * 1024 * 1024;
/// Most files, more than a person would read the names of.
const MOST_FILES: usize = 512;
/// Most candidate paths, more than the arguments of a reviewable command contain.
const MOST_NAMES: usize = 64 * 1024;
/// Longest candidate; the kernel accepts no longer path.
const LONGEST_NAME: usize = 4096;

/// Everything that a command would run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foresight {
    /// Program file.
    pub program: Executable,
    /// Working folder.
    pub folder: PathBuf,
    /// Files in the granted folders that the arguments name, such as scripts.
    pub files: Vec<Executable>,
    /// Names of the environment variables.
    pub variables: Vec<String>,
}

impl Foresight {
    /// Builds the preview. Blocks on the disk.
    pub fn of(permit: &Permit, command: &Command) -> Result<Foresight, SandboxError> {
        refuse_nul(command)?;
        let folders = permit.folders();
        let shelves = Shelves::of(permit)?;
        let program = program::find(&command.program, &shelves.search(), permit.written_to())?.executable;
        let folder = working_folder(command, permit)?;
        // A shell reads commands from standard input too.
        let words = command.arguments.iter().map(|word| word.as_bytes()).chain(command.input.as_deref());
        let files =
            named(&folder, words, |path| folders.iter().any(|granted| path.starts_with(granted.root())))?;
        let variables = environment::names(&command.variables);
        Ok(Foresight { program, folder, files, variables })
    }
}

/// Returns the files in the granted folders that the arguments name.
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
        if process_paths::is_its_own(&path) {
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

/// Returns the paths that a program may find in an argument: the whole argument, the value attached to a
/// one-letter option, the text after a separator such as `=`, and the words that a shell would split it into.
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

/// Returns the value attached to a one-letter option.
fn glued(name: &[u8]) -> Option<&[u8]> {
    match name {
        [b'-', _, rest @ ..] => Some(rest),
        _ => None,
    }
}

/// Returns a regular file with its digest, computed again because a running program may have it mapped;
/// `None` for anything else. Files that a program would find inside a named folder are not part of the
/// preview.
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

    /// Each case lists arguments and the files they name.
    #[test]
    fn files_are_found_in_every_form_of_argument() {
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
    fn command_that_names_too_much_gets_no_preview() {
        let folder = tempfile::tempdir().unwrap();
        let words: String = (0..=MOST_NAMES).map(|n| format!("{n} ")).collect();
        let found = named(folder.path(), [words.as_bytes()].into_iter(), |_| true);
        assert!(matches!(found, Err(SandboxError::NamesTooMuch(_))), "{found:?}");
        let own = named(folder.path(), [b"-c".as_slice(), b"sh</proc/self/cwd/x"].into_iter(), |_| true);
        assert!(matches!(own, Err(SandboxError::OwnView(_))), "{own:?}");
    }
}
