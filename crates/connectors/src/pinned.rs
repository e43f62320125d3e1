//! What stands behind a tool, by its digest: the manifest it was read from and the file that is run. A tool whose file is
//! another one than was accepted does not run.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use sandbox::Executable;
use tool::{Failure, FailureKind, canonical};

/// A file that a command names and that is larger than this is nothing that a person has looked at.
const LARGEST: u64 = 64 << 20;

/// A program or a file that it is told to run, as it was when its tool was registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pin {
    /// This file, by its digest.
    File(String),
    /// It was not there. Once it is, the configuration has to be read again.
    Absent,
}

impl Pin {
    /// A program by its name on the search path or its path. Reads the whole file.
    pub(crate) fn of(program: &OsStr) -> Self {
        sandbox::find_program(program).map_or(Pin::Absent, |found| Pin::File(found.sha256))
    }

    /// A file by its path, which reads the whole file. None for what is no file, such as a folder.
    pub(crate) fn of_file(path: &Path) -> io::Result<Option<Self>> {
        let facts = match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(Pin::Absent)),
            facts => facts?,
        };
        if !facts.is_file() {
            return Ok(None);
        }
        // A FIFO that has taken its place by now must not be waited for.
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

    /// One word for it.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Pin::File(digest) => digest,
            Pin::Absent => "absent",
        }
    }

    /// Whether this is the program that was accepted.
    pub(crate) fn holds(&self, found: &Executable) -> Result<(), Failure> {
        match self {
            Pin::File(digest) if *digest == found.sha256 => Ok(()),
            Pin::File(_) | Pin::Absent => Err(another(&found.path)),
        }
    }

    /// Whether this is the file that was accepted. Reads it again.
    pub(crate) fn holds_file(&self, path: &Path) -> Result<(), Failure> {
        match Pin::of_file(path) {
            Ok(Some(now)) if now == *self => Ok(()),
            _ => Err(another(path)),
        }
    }
}

fn another(path: &Path) -> Failure {
    let message = format!("`{}` is not the file that was accepted", path.display());
    let hint = "it has changed since; look at it, then `sinew reload --accept`";
    Failure::new(FailureKind::Conflict, message).hint(hint)
}

/// Programs that many manifests name, each looked for once while these are registered.
#[derive(Default)]
pub(crate) struct Programs(Mutex<HashMap<String, Pin>>);

impl Programs {
    pub(crate) fn pin(&self, program: &str) -> Pin {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pin) = known().get(program) {
            return pin.clone();
        }
        // Not behind the lock: it may be a large file.
        let pin = Pin::of(program.as_ref());
        known().insert(program.to_owned(), pin.clone());
        pin
    }
}

/// The digest of everything that stands behind a tool.
pub(crate) fn origin(parts: &[&str]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| canonical::sha256_hex(part.as_bytes())).collect();
    canonical::sha256_hex(parts.join("\n").as_bytes())
}
