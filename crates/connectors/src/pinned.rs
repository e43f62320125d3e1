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
const LARGEST: u64 = 64 << 20;

/// Digest of a program or file when its tool was registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pin {
    /// SHA-256 digest.
    File(String),
    /// The file did not exist. If it is created later, the configuration must be reloaded.
    Absent,
}

impl Pin {
    /// Pins a program by path or by name on the search path. Reads the whole file.
    pub(crate) fn of(program: &OsStr) -> Self {
        sandbox::find_program(program).map_or(Pin::Absent, |found| Pin::File(found.sha256))
    }

    /// Pins a file by path. Reads the whole file. Returns `None` if the path is not a regular file.
    pub(crate) fn of_file(path: &Path) -> io::Result<Option<Self>> {
        let facts = match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(Pin::Absent)),
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
        file.take(LARGEST + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > LARGEST {
            true => Err(io::Error::other(format!("it has more than {LARGEST} bytes"))),
            false => Ok(Some(Pin::File(canonical::sha256_hex(&bytes)))),
        }
    }

    /// Returns the digest, or `absent`.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Pin::File(digest) => digest,
            Pin::Absent => "absent",
        }
    }

    /// Checks that a program is the accepted one.
    pub(crate) fn holds(&self, found: &Executable) -> Result<(), Failure> {
        match self {
            Pin::File(digest) if *digest == found.sha256 => Ok(()),
            Pin::File(_) | Pin::Absent => Err(another(&found.path)),
        }
    }

    /// Checks that a file is the accepted one. Reads it again.
    pub(crate) fn holds_file(&self, path: &Path) -> Result<(), Failure> {
        match Pin::of_file(path) {
            Ok(Some(now)) if now == *self => Ok(()),
            _ => Err(another(path)),
        }
    }
}

fn another(path: &Path) -> Failure {
    let message = format!("`{}` is not the file that was accepted", path.display());
    let hint = "it has changed; review it, then run `sinew reload --accept`";
    Failure::new(FailureKind::Conflict, message).hint(hint)
}

/// Cache of program pins during registration: many manifests name the same program.
#[derive(Default)]
pub(crate) struct Programs(Mutex<HashMap<String, Pin>>);

impl Programs {
    pub(crate) fn pin(&self, program: &str) -> Pin {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pin) = known().get(program) {
            return pin.clone();
        }
        // Outside the lock, because the file may be large.
        let pin = Pin::of(program.as_ref());
        known().insert(program.to_owned(), pin.clone());
        pin
    }
}

/// Computes the origin digest of a tool from its parts.
pub(crate) fn origin(parts: &[&str]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| canonical::sha256_hex(part.as_bytes())).collect();
    canonical::sha256_hex(parts.join("\n").as_bytes())
}
