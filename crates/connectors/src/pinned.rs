//! What stands behind a tool, by its digest: the manifest it was read from and the file that is run. A tool whose file is
//! another one than was accepted does not run.

use std::ffi::OsStr;

use sandbox::Executable;
use tool::{Failure, FailureKind, canonical};

/// A program as it was when its tool was registered.
#[derive(Clone, Debug)]
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

    /// One word for it.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Pin::File(digest) => digest,
            Pin::Absent => "absent",
        }
    }

    /// Whether this is the file that was accepted.
    pub(crate) fn holds(&self, found: &Executable) -> Result<(), Failure> {
        match self {
            Pin::File(digest) if *digest == found.sha256 => Ok(()),
            Pin::File(_) | Pin::Absent => {
                let message = format!("`{}` is not the file that was accepted", found.path.display());
                let hint = "it has changed since; look at it, then `sinew reload --accept`";
                Err(Failure::new(FailureKind::Conflict, message).hint(hint))
            }
        }
    }
}

/// The digest of everything that stands behind a tool.
pub(crate) fn origin(parts: &[&str]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| canonical::sha256_hex(part.as_bytes())).collect();
    canonical::sha256_hex(parts.join("\n").as_bytes())
}
