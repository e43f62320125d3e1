//! Which file a command's first word is. Looked up in folders that no confined process can write to, and pinned by
//! device and inode, so that what was found is what is started.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use sha2::{Digest, Sha256};
use tool::canonical;

use crate::error::SandboxError;
use crate::shelves::Shelves;

/// A program that was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    /// Its canonical path.
    pub path: PathBuf,
    /// The digest of its file.
    pub sha256: String,
}

/// A program that was found.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) executable: Executable,
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// Finds a program by its name on a search path, or by its path if that is not below a folder that confined processes
/// write to. `writable` are those folders.
pub(crate) fn find(name: &OsStr, search: &[PathBuf], writable: &[PathBuf]) -> Result<Program, SandboxError> {
    let path = Path::new(name);
    let is_plain = path.components().count() == 1 && !path.is_absolute();
    let candidates: Vec<PathBuf> = match (is_plain, path.is_absolute()) {
        (true, _) => search.iter().map(|folder| folder.join(path)).collect(),
        (false, true) => vec![path.to_owned()],
        (false, false) => return Err(SandboxError::UntrustedProgram(path.to_owned())),
    };
    let found = candidates.iter().find_map(|path| runnable(path));
    let Some((path, facts)) = found else {
        let folders = search.iter().map(|folder| folder.to_string_lossy()).collect::<Vec<_>>();
        let searched = if is_plain { folders.join(":") } else { "this machine".to_owned() };
        return Err(SandboxError::NoProgram { name: name.to_string_lossy().into_owned(), searched });
    };
    if writable.iter().any(|folder| path.starts_with(folder)) {
        return Err(SandboxError::UntrustedProgram(path));
    }
    let sha256 = digest(&path, &facts)
        .map_err(|cause| SandboxError::NotStarted { program: path.display().to_string(), cause })?;
    Ok(Program { executable: Executable { path, sha256 }, device: facts.dev(), inode: facts.ino() })
}

/// The program a name stands for now, of those of the system. Reads the whole file, for its digest.
pub fn find_program(name: &OsStr) -> Result<Executable, SandboxError> {
    of_system(name).map(|program| program.executable)
}

/// Finds a program of the system.
pub(crate) fn of_system(name: &OsStr) -> Result<Program, SandboxError> {
    find(name, &Shelves::default().search(), &[])
}

/// The program that runs now. If another has taken its name since, it is not started: the pinned file is another.
pub(crate) fn itself() -> Result<Program, SandboxError> {
    let problem = |cause| SandboxError::NotStarted { program: "sinew".to_owned(), cause };
    let path = std::env::current_exe().map_err(problem)?;
    let running = if cfg!(target_os = "linux") { Path::new("/proc/self/exe") } else { path.as_path() };
    let facts = running.metadata().map_err(problem)?;
    let sha256 = digest(running, &facts).map_err(problem)?;
    Ok(Program { executable: Executable { path, sha256 }, device: facts.dev(), inode: facts.ino() })
}

/// The canonical path of a file that anybody may execute.
fn runnable(path: &Path) -> Option<(PathBuf, Metadata)> {
    let path = path.canonicalize().ok()?;
    let facts = path.metadata().ok()?;
    (facts.is_file() && facts.permissions().mode() & 0o111 != 0).then_some((path, facts))
}

/// What a file was when its digest was taken.
#[derive(PartialEq, Eq, Hash)]
struct Seen {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// More programs than anybody uses at a time.
const REMEMBERED: usize = 256;

/// The digest of a file. Taken once for as long as the file stays as it is: some interpreters have 100 MB.
pub(crate) fn digest(path: &Path, facts: &Metadata) -> io::Result<String> {
    static KNOWN: LazyLock<Mutex<HashMap<Seen, String>>> = LazyLock::new(Mutex::default);
    let seen = Seen {
        device: facts.dev(),
        inode: facts.ino(),
        size: facts.size(),
        modified: (facts.mtime(), facts.mtime_nsec()),
        changed: (facts.ctime(), facts.ctime_nsec()),
    };
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(digest) = known().get(&seen) {
        return Ok(digest.clone());
    }
    let digest = digest_anew(File::open(path)?)?;
    let mut known = known();
    if known.len() >= REMEMBERED {
        known.clear();
    }
    known.insert(seen, digest.clone());
    Ok(digest)
}

/// The digest of what a file holds now. Whoever has it mapped changes it without a trace in its times.
pub(crate) fn digest_anew(mut file: File) -> io::Result<String> {
    let (mut hasher, mut part) = (Sha256::new(), vec![0; 256 * 1024]);
    loop {
        match file.read(&mut part)? {
            0 => return Ok(canonical::hex(&hasher.finalize())),
            read => hasher.update(part.get(..read).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_taken_from_the_search_path_alone() {
        let found = of_system(OsStr::new("sh")).unwrap();
        assert!(found.executable.path.is_absolute());
        assert_eq!(found.executable.sha256.len(), 64);
        assert_eq!(found.executable, of_system(OsStr::new("/bin/sh")).unwrap().executable);

        let search = Shelves::default().search();
        let untrusted = |name: &str, writable: &[PathBuf]| {
            matches!(find(OsStr::new(name), &search, writable), Err(SandboxError::UntrustedProgram(_)))
        };
        assert!(untrusted("./sh", &[]), "a relative path depends on where one stands");
        assert!(untrusted("bin/sh", &[]));
        let folder = found.executable.path.parent().unwrap().to_owned();
        assert!(untrusted("sh", &[folder]), "what a confined process can replace is not started by its name");
        for name in ["no-such-program-here", "/etc/passwd", "/etc", ".."] {
            assert!(matches!(of_system(OsStr::new(name)), Err(SandboxError::NoProgram { .. })), "{name}");
        }
    }
}
