//! Resolves the program of a command. It is searched in folders that no confined process can write to and
//! pinned by device and inode, so that the file that was found is the one that is started.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};
use tool::canonical;

use crate::error::SandboxError;
use crate::launch::spec::RunSpec;
use crate::prepare::program_dirs::ProgramDirs;

/// Program file with its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    /// Canonical path.
    pub path: PathBuf,
    /// SHA-256 digest of the file.
    pub sha256: String,
}

/// Program file with its device and inode.
#[derive(Clone, Debug)]
pub(crate) struct PinnedProgram {
    pub(crate) executable: Executable,
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl PinnedProgram {
    /// Returns a specification that runs this file, without any grants.
    pub(crate) fn spec(&self) -> RunSpec {
        let program = self.executable.path.clone();
        RunSpec { program, device: self.device, inode: self.inode, ..RunSpec::empty() }
    }
}

/// Finds a program by name on a search path, or by absolute path if that is not below one of the `writable`
/// folders, to which confined processes can write.
pub(crate) fn find(
    name: &OsStr,
    search: &[PathBuf],
    writable: &[PathBuf],
) -> Result<PinnedProgram, SandboxError> {
    let path = Path::new(name);
    let is_plain = path.components().count() == 1 && !path.is_absolute();
    let candidates: Vec<PathBuf> = match (is_plain, path.is_absolute()) {
        (true, _) => search.iter().map(|folder| folder.join(path)).collect(),
        (false, true) => vec![path.to_owned()],
        (false, false) => return Err(SandboxError::UntrustedProgram(path.to_owned())),
    };
    let found = candidates.iter().find_map(|path| resolve_executable(path));
    let Some((path, facts)) = found else {
        let folders = search.iter().map(|folder| folder.to_string_lossy()).collect::<Vec<_>>();
        let searched = if is_plain { folders.join(":") } else { "this machine".to_owned() };
        return Err(SandboxError::ProgramNotFound { name: name.to_string_lossy().into_owned(), searched });
    };
    if writable.iter().any(|folder| path.starts_with(folder)) {
        return Err(SandboxError::UntrustedProgram(path));
    }
    if is_writable_by_all(&path, &facts) {
        return Err(SandboxError::WritableProgram(path));
    }
    let sha256 = cached_digest(&path, &facts)
        .map_err(|cause| SandboxError::StartFailed { program: path.display().to_string(), cause })?;
    Ok(PinnedProgram { executable: Executable { path, sha256 }, device: facts.dev(), inode: facts.ino() })
}

/// Finds a program of the system by name. Reads the whole file for its digest, unless that is cached.
pub fn find_program(name: &OsStr) -> Result<Executable, SandboxError> {
    find_system_program(name).map(|program| program.executable)
}

/// Finds a program of the system.
pub(crate) fn find_system_program(name: &OsStr) -> Result<PinnedProgram, SandboxError> {
    find(name, &ProgramDirs::default().search_path(), &[])
}

/// Returns the running program. If another file has taken its path since, it will not start, because the
/// pinned inode differs.
pub(crate) fn current_program() -> Result<PinnedProgram, SandboxError> {
    let problem = |cause| SandboxError::StartFailed { program: "sinew".to_owned(), cause };
    let path = std::env::current_exe().map_err(problem)?;
    let running = if cfg!(target_os = "linux") { Path::new("/proc/self/exe") } else { path.as_path() };
    let facts = running.metadata().map_err(problem)?;
    let sha256 = cached_digest(running, &facts).map_err(problem)?;
    Ok(PinnedProgram { executable: Executable { path, sha256 }, device: facts.dev(), inode: facts.ino() })
}

/// Returns the canonical path of an executable regular file.
fn resolve_executable(path: &Path) -> Option<(PathBuf, Metadata)> {
    let path = path.canonicalize().ok()?;
    let facts = path.metadata().ok()?;
    (facts.is_file() && facts.permissions().mode() & 0o111 != 0).then_some((path, facts))
}

/// Returns true if every user can change a program, or replace it in its folder. The sticky bit keeps others from
/// replacing it.
fn is_writable_by_all(path: &Path, facts: &Metadata) -> bool {
    const OTHERS_WRITE: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    let folder = path.parent().and_then(|folder| folder.metadata().ok());
    let is_open = |folder: Metadata| folder.mode() & (OTHERS_WRITE | STICKY) == OTHERS_WRITE;
    facts.mode() & OTHERS_WRITE != 0 || folder.is_some_and(is_open)
}

/// Cache key of a digest: the state of a file when it was computed.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Largest number of cached digests, more than are in use at a time.
const MAX_CACHED_DIGESTS: usize = 256;

/// Returns the digest of a file. Cached while the file is unchanged, because some interpreters have 100 MB.
pub(crate) fn cached_digest(path: &Path, facts: &Metadata) -> io::Result<String> {
    static KNOWN: Mutex<BTreeMap<FileStamp, String>> = Mutex::new(BTreeMap::new());
    let seen = FileStamp {
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
    let digest = digest_file(File::open(path)?)?;
    let mut known = known();
    if known.len() >= MAX_CACHED_DIGESTS {
        known.clear();
    }
    known.insert(seen, digest.clone());
    Ok(digest)
}

/// Computes the digest of a file's current content. A process that has it mapped can change it without a
/// change of its times.
pub(crate) fn digest_file(mut file: File) -> io::Result<String> {
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
    fn programs_come_only_from_the_search_path() {
        let found = find_system_program(OsStr::new("sh")).unwrap();
        assert!(found.executable.path.is_absolute());
        assert_eq!(found.executable.sha256.len(), 64);
        assert_eq!(found.executable, find_system_program(OsStr::new("/bin/sh")).unwrap().executable);

        let search = ProgramDirs::default().search_path();
        let untrusted = |name: &str, writable: &[PathBuf]| {
            matches!(find(OsStr::new(name), &search, writable), Err(SandboxError::UntrustedProgram(_)))
        };
        assert!(untrusted("./sh", &[]), "a relative path depends on the working folder");
        assert!(untrusted("bin/sh", &[]));
        let folder = found.executable.path.parent().unwrap().to_owned();
        assert!(untrusted("sh", &[folder]), "a program that a confined process can replace is refused");
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().canonicalize().unwrap().join("program");
        std::fs::copy("/bin/true", &program).unwrap();
        for (file_mode, folder_mode, is_refused) in
            [(0o755, 0o755, false), (0o757, 0o755, true), (0o755, 0o777, true), (0o755, 0o1777, false)]
        {
            let set = |path: &Path, mode| {
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
            };
            set(&program, file_mode);
            set(folder.path(), folder_mode);
            let found = find(program.as_os_str(), &[], &[]);
            let is_writable = matches!(found, Err(SandboxError::WritableProgram(_)));
            assert_eq!(is_writable, is_refused, "{file_mode:o} {folder_mode:o}: {found:?}");
        }
        for name in ["no-such-program-here", "/etc/passwd", "/etc", ".."] {
            assert!(
                matches!(find_system_program(OsStr::new(name)), Err(SandboxError::ProgramNotFound { .. })),
                "{name}"
            );
        }
    }
}
