//! Version of the state folder. A newer state is refused, because an older program would misread or damage it. A state
//! without a version is the first one: its records are read with the names they had then.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::ServeError;

/// Version that this program writes.
const CURRENT: u32 = 1;
const FILE_NAME: &str = "version";

/// Checks that this program can read the state.
pub(crate) fn check(state: &Path) -> Result<(), ServeError> {
    let path = state.join(FILE_NAME);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ServeError::io("read", &path, error)),
    };
    let found = text.trim();
    match found.parse::<u32>() {
        Ok(version) if version <= CURRENT => Ok(()),
        _ => Err(ServeError::NewerState { path, found: found.chars().take(20).collect(), known: CURRENT }),
    }
}

/// Checks the state, and marks it with the version of this program.
pub(crate) fn claim(state: &Path) -> Result<(), ServeError> {
    check(state)?;
    let path = state.join(FILE_NAME);
    if fs::read_to_string(&path).is_ok_and(|text| text.trim() == CURRENT.to_string()) {
        return Ok(());
    }
    // Renamed into place, so that a crash leaves no empty file, which would be refused.
    let fresh = state.join(format!("{FILE_NAME}.new"));
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(nix::libc::O_NOFOLLOW);
    let written = options.open(&fresh).and_then(|mut file| {
        file.write_all(format!("{CURRENT}\n").as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, &path)
    });
    written.map_err(|error| ServeError::io("write", &path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_state_is_refused_and_older_is_marked() {
        let folder = tempfile::tempdir().unwrap();
        let (state, file) = (folder.path(), folder.path().join(FILE_NAME));
        check(state).expect("a state without a version is the first one");
        assert!(!file.exists(), "a reader writes nothing");
        claim(state).unwrap();
        claim(state).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "1\n");
        for newer in ["2", "999", "", "one", "-1", "4294967296"] {
            fs::write(&file, newer).unwrap();
            for refused in [check(state), claim(state)] {
                let message = refused.unwrap_err().to_string();
                assert!(message.contains("newer version of Sinew"), "{newer}: {message}");
            }
            assert_eq!(fs::read_to_string(&file).unwrap(), newer, "it is left as it is");
        }
    }
}
