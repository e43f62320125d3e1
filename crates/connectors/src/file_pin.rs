//! Pins of programs and files by digest. A tool whose program differs from the accepted one does not run.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use sandbox::Executable;
use tool::{Failure, FailureKind, canonical};

/// Size limit of a pinned file.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Digest of a program or file when its tool was registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FilePin {
    /// SHA-256 digest.
    Digest(String),
    /// The file did not exist. If it is created later, the configuration must be reloaded.
    Absent,
}

impl FilePin {
    /// Pins a program by path or by name on the search path. Reads the whole file.
    pub(crate) fn of_program(program: &OsStr) -> Self {
        sandbox::find_program(program).map_or(FilePin::Absent, |found| FilePin::Digest(found.sha256))
    }

    /// Pins a file by path. Reads the whole file. Returns `None` if the path is not a regular file.
    pub(crate) fn of_file(path: &Path) -> io::Result<Option<Self>> {
        let facts = match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(FilePin::Absent)),
            facts => facts?,
        };
        if !facts.is_file() {
            return Ok(None);
        }
        // Non-blocking: the file may have been replaced by a FIFO since the check.
        let mut options = OpenOptions::new();
        let file =
            options.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > MAX_FILE_BYTES {
            true => Err(io::Error::other(format!("it has more than {MAX_FILE_BYTES} bytes"))),
            false => Ok(Some(FilePin::Digest(canonical::sha256_hex(&bytes)))),
        }
    }

    /// Returns the digest, or `absent`.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            FilePin::Digest(digest) => digest,
            FilePin::Absent => "absent",
        }
    }

    /// Checks that a program is the accepted one.
    pub(crate) fn check_program(&self, found: &Executable) -> Result<(), Failure> {
        match self {
            FilePin::Digest(digest) if *digest == found.sha256 => Ok(()),
            FilePin::Digest(_) | FilePin::Absent => Err(changed_file_failure(&found.path)),
        }
    }

    /// Checks that a file is the accepted one. Reads it again.
    pub(crate) fn check_file(&self, path: &Path) -> Result<(), Failure> {
        match FilePin::of_file(path) {
            Ok(Some(now)) if now == *self => Ok(()),
            _ => Err(changed_file_failure(path)),
        }
    }
}

fn changed_file_failure(path: &Path) -> Failure {
    let message = format!("`{}` is not the file that was accepted", path.display());
    let hint = "it has changed; review it, then run `sinew reload --accept`";
    Failure::new(FailureKind::Conflict, message).with_hint(hint)
}

/// Cache of program pins during registration: many manifests name the same program.
#[derive(Default)]
pub(crate) struct ProgramPinCache(Mutex<HashMap<String, FilePin>>);

impl ProgramPinCache {
    pub(crate) fn pin(&self, program: &str) -> FilePin {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pin) = known().get(program) {
            return pin.clone();
        }
        // Outside the lock, because the file may be large.
        let pin = FilePin::of_program(program.as_ref());
        known().insert(program.to_owned(), pin.clone());
        pin
    }
}

/// Computes the origin digest of a tool from its parts.
pub(crate) fn origin_digest(parts: &[&str]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| canonical::sha256_hex(part.as_bytes())).collect();
    canonical::sha256_hex(parts.join("\n").as_bytes())
}
