//! Lock on the state folder: an advisory `flock` on a file that is never removed, so that two starting
//! processes cannot each lock a file of their own.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::error::ServeError;
use crate::home::SinewHome;
use crate::state_version;

/// Attempts of a starting process: `StateLock::holder` takes the lock for a moment, which the retries
/// outlast.
const MAX_LOCK_ATTEMPTS: u32 = 10;
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Exclusive lock on the state folder. Released on drop, or by the kernel when the process dies.
#[derive(Debug)]
pub struct StateLock {
    _lock: Flock<File>,
}

/// Shared lock for reading the state folder. While it is held, no process owns the state, and any number may
/// read. Released like `StateLock`.
#[derive(Debug)]
pub struct SharedStateLock {
    _lock: Flock<File>,
}

/// Holder of the state lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockHolder {
    /// No process holds it.
    NoProcess,
    /// A process holds it; the pid is the one it wrote to the file, for display.
    Process {
        /// Its process id, if it could be read.
        pid: Option<i32>,
    },
}

impl StateLock {
    /// Acquires the lock; the error names the holder. The folder must have been prepared.
    pub fn acquire(home: &SinewHome) -> Result<Self, ServeError> {
        let path = home.lock_file();
        let held = acquire_lock(&path, FlockArg::LockExclusiveNonblock)?;
        state_version::claim(home.state_dir())?;
        Self::write_pid(held, &path)
    }

    /// Returns the current holder. It may change at any moment, so use it for display, never for a decision.
    pub fn holder(home: &SinewHome) -> LockHolder {
        let Ok(file) = File::open(home.lock_file()) else { return LockHolder::NoProcess };
        match Flock::lock(file, FlockArg::LockSharedNonblock) {
            Err((mut file, Errno::EWOULDBLOCK)) => LockHolder::Process { pid: read_pid(&mut file) },
            _ => LockHolder::NoProcess,
        }
    }

    fn write_pid(mut held: Flock<File>, path: &Path) -> Result<Self, ServeError> {
        let pid = format!("{}\n", std::process::id());
        let written = held.set_len(0).and_then(|()| held.write_all(pid.as_bytes()));
        written.map_err(|cause| ServeError::io("write", path, cause))?;
        Ok(StateLock { _lock: held })
    }
}

impl SharedStateLock {
    /// Acquires the shared lock; the error names the owner of the state. The folder must have been prepared.
    pub fn acquire(home: &SinewHome) -> Result<Self, ServeError> {
        let held = acquire_lock(&home.lock_file(), FlockArg::LockSharedNonblock)?;
        state_version::check(home.state_dir())?;
        Ok(SharedStateLock { _lock: held })
    }
}

fn acquire_lock(path: &Path, mode: FlockArg) -> Result<Flock<File>, ServeError> {
    for attempt in 1..=MAX_LOCK_ATTEMPTS {
        let file = open_lock_file(path).map_err(|cause| ServeError::io("open the lock", path, cause))?;
        match Flock::lock(file, mode) {
            Ok(held) => return Ok(held),
            Err((_, Errno::EWOULDBLOCK)) if attempt < MAX_LOCK_ATTEMPTS => {
                std::thread::sleep(LOCK_RETRY_INTERVAL)
            }
            Err((mut file, Errno::EWOULDBLOCK)) => {
                return Err(ServeError::AlreadyRunning { pid: read_pid(&mut file), path: path.to_owned() });
            }
            Err((_, errno)) => return Err(ServeError::io("lock", path, errno.into())),
        }
    }
    Err(ServeError::AlreadyRunning { pid: None, path: path.to_owned() })
}

fn open_lock_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    // Never through a symbolic link: the locked file must be the file with this name.
    let opened = options.custom_flags(nix::libc::O_NOFOLLOW).open(path);
    opened.map_err(|cause| match cause.raw_os_error() {
        Some(nix::libc::ELOOP) => std::io::Error::new(ErrorKind::InvalidInput, "it is a symbolic link"),
        _ => cause,
    })
}

fn read_pid(file: &mut File) -> Option<i32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn home() -> (tempfile::TempDir, SinewHome) {
        let folder = tempfile::tempdir().unwrap();
        let home = SinewHome::from_root(folder.path()).unwrap();
        home.prepare().unwrap();
        (folder, home)
    }

    #[test]
    fn second_process_learns_the_pid_of_the_holder() {
        let (_folder, home) = home();
        assert_eq!(StateLock::holder(&home), LockHolder::NoProcess);
        let first = StateLock::acquire(&home).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(StateLock::holder(&home), LockHolder::Process { pid: Some(own) });
        let message = StateLock::acquire(&home).unwrap_err().to_string();
        assert!(message.contains(&format!("(pid {own})")), "{message}");
        drop(first);
        assert_eq!(StateLock::holder(&home), LockHolder::NoProcess);
        StateLock::acquire(&home).unwrap();
        assert!(home.lock_file().exists(), "the file stays, or two starters could lock two files");
    }

    #[test]
    fn many_readers_share_an_unowned_state() {
        let (_folder, home) = home();
        let readers = [SharedStateLock::acquire(&home).unwrap(), SharedStateLock::acquire(&home).unwrap()];
        assert_eq!(StateLock::holder(&home), LockHolder::NoProcess, "a reader does not own the state");
        StateLock::acquire(&home).unwrap_err();
        drop(readers);
        let _owner = StateLock::acquire(&home).unwrap();
        SharedStateLock::acquire(&home).unwrap_err();
    }

    #[test]
    fn exactly_one_of_many_starters_gets_the_lock() {
        let (_folder, home) = home();
        let barrier = Barrier::new(8);
        let won: Vec<StateLock> = std::thread::scope(|scope| {
            let start = || {
                barrier.wait();
                StateLock::acquire(&home).ok()
            };
            let starters: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            starters.into_iter().filter_map(|starter| starter.join().unwrap()).collect()
        });
        assert_eq!(won.len(), 1);
    }

    #[test]
    fn symlinked_lock_file_is_refused() {
        let (folder, home) = home();
        let elsewhere = folder.path().join("elsewhere");
        std::fs::write(&elsewhere, "precious").unwrap();
        std::os::unix::fs::symlink(&elsewhere, home.lock_file()).unwrap();
        let message = StateLock::acquire(&home).unwrap_err().to_string();
        assert!(message.contains("symbolic link"), "{message}");
        assert_eq!(std::fs::read_to_string(elsewhere).unwrap(), "precious");
    }
}
