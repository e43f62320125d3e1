//! Preview of a command for an approval request: the program file, the working folder, and the files that the
//! arguments name. The run itself finds and pins its program again.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use governance::Permit;

use crate::error::SandboxError;
use crate::prepare::command::SandboxCommand;
use crate::prepare::environment;
use crate::prepare::process_paths;
use crate::prepare::program::{self, Executable};
use crate::prepare::program_dirs::ProgramDirs;
use crate::prepare::{refuse_nul, working_folder};

/// Largest file that is digested, and most bytes in all. Larger files are not scripts, and reading them would
/// delay the approval request.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;
const MAX_TOTAL_BYTES: u64 = 256 * 1024 * 1024;
/// Most files, more than a person would read the names of.
const MAX_FILES: usize = 512;
/// Most candidate paths, more than the arguments of a reviewable command contain.
const MAX_CANDIDATES: usize = 64 * 1024;
/// Longest candidate; the kernel accepts no longer path.
const MAX_CANDIDATE_BYTES: usize = 4096;

/// Everything that a command would run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPreview {
    /// Program file.
    pub program: Executable,
    /// Working folder.
    pub folder: PathBuf,
    /// Files in the granted folders that the arguments name, such as scripts.
    pub files: Vec<Executable>,
    /// Names of the environment variables.
    pub variables: Vec<String>,
}

impl CommandPreview {
    /// Builds the preview. Blocks on the disk.
    pub fn of(permit: &Permit, command: &SandboxCommand) -> Result<CommandPreview, SandboxError> {
        refuse_nul(command)?;
        let folders = permit.sandbox_folders();
        let program_dirs = ProgramDirs::of(permit)?;
        let program =
            program::find(&command.program, &program_dirs.search_path(), permit.writable_folders())?
                .executable;
        let folder = working_folder(command, permit)?;
        // A shell reads commands from standard input too.
        let texts = command.arguments.iter().map(|word| word.as_bytes()).chain(command.input.as_deref());
        let files = named_files(&folder, texts, |path| {
            folders.iter().any(|granted| path.starts_with(granted.root()))
        })?;
        let variables = environment::names(&command.variables);
        Ok(CommandPreview { program, folder, files, variables })
    }
}

/// Returns the files in the granted folders that the arguments name.
fn named_files<'a>(
    folder: &Path,
    texts: impl Iterator<Item = &'a [u8]>,
    is_granted: impl Fn(&Path) -> bool,
) -> Result<Vec<Executable>, SandboxError> {
    let mut looked_at = BTreeSet::new();
    let (mut known, mut files, mut bytes) = (BTreeSet::new(), Vec::new(), 0);
    for name in texts.flat_map(path_candidates) {
        if !looked_at.insert(name) {
            continue;
        }
        let path = folder.join(OsStr::from_bytes(name));
        let too_many = looked_at.len() > MAX_CANDIDATES || files.len() > MAX_FILES || bytes > MAX_TOTAL_BYTES;
        if too_many {
            return Err(SandboxError::TooManyNamedFiles(path));
        }
        if process_paths::leads_through_process(&path) {
            return Err(SandboxError::ProcessPath(path));
        }
        let Ok(path) = path.canonicalize() else { continue };
        if is_granted(&path)
            && known.insert(path.clone())
            && let Some((file, size)) = with_digest(path)?
        {
            bytes += size;
            files.push(file);
        }
    }
    Ok(files)
}

/// Returns the paths that a program may find in an argument: the whole argument, the value attached to a
/// one-letter option, the text after a separator such as `=`, and the words that a shell would split it into.
fn path_candidates(word: &[u8]) -> impl Iterator<Item = &[u8]> {
    let joins = |byte: &u8| b"=@:,".contains(byte);
    let splits =
        move |byte: &u8| byte.is_ascii_whitespace() || b";&|<>(){}'\"`$".contains(byte) || joins(byte);
    let rests =
        word.iter().enumerate().filter(move |(_, byte)| joins(byte)).filter_map(|(at, _)| word.get(at + 1..));
    let whole = [word].into_iter().chain(rests);
    let all = whole.chain(word.split(splits));
    let both = all.flat_map(|name| [Some(name), option_value(name)].into_iter().flatten());
    both.filter(|name| (1..=MAX_CANDIDATE_BYTES).contains(&name.len()))
}

/// Returns the value attached to a one-letter option.
fn option_value(name: &[u8]) -> Option<&[u8]> {
    match name {
        [b'-', _, rest @ ..] => Some(rest),
        _ => None,
    }
}

/// Returns a regular file with its digest, computed again because a running program may have it mapped;
/// `None` for anything else. Files that a program would find inside a named folder are not part of the
/// preview.
fn with_digest(path: PathBuf) -> Result<Option<(Executable, u64)>, SandboxError> {
    let unreadable = |cause| SandboxError::StartFailed { program: path.display().to_string(), cause };
    let facts = path.metadata().map_err(unreadable)?;
    if !facts.is_file() {
        return Ok(None);
    }
    if facts.len() > MAX_FILE_BYTES {
        return Err(unreadable(std::io::Error::from(std::io::ErrorKind::FileTooLarge)));
    }
    let sha256 = File::open(&path).and_then(program::digest_file).map_err(unreadable)?;
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
            let found = named_files(&root, bytes, |path| path.starts_with(&root)).unwrap();
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
        let words: String = (0..=MAX_CANDIDATES).map(|n| format!("{n} ")).collect();
        let found = named_files(folder.path(), [words.as_bytes()].into_iter(), |_| true);
        assert!(matches!(found, Err(SandboxError::TooManyNamedFiles(_))), "{found:?}");
        let own =
            named_files(folder.path(), [b"-c".as_slice(), b"sh</proc/self/cwd/x"].into_iter(), |_| true);
        assert!(matches!(own, Err(SandboxError::ProcessPath(_))), "{own:?}");
    }
}
