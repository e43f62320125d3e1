//! Version of the state folder. A newer state is refused, because an older program would misread or damage it. An
//! older state is copied before it is migrated. A state without a version is the first one: its records are read with
//! the names they had then.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::error::ServeError;
use crate::home::SinewHome;

/// Version that this program writes.
const CURRENT: u32 = 1;
const FILE_NAME: &str = "version";

/// Returns the version of the state, if this program can read it.
pub(crate) fn check(state: &Path) -> Result<u32, ServeError> {
    let path = state.join(FILE_NAME);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(ServeError::io("read", &path, error)),
    };
    let found = text.trim();
    match found.parse::<u32>() {
        Ok(version) if version <= CURRENT => Ok(version),
        _ => Err(ServeError::NewerState { path, found: found.chars().take(20).collect(), known: CURRENT }),
    }
}

/// Checks that this program can read the state of a home, without a lock.
pub fn check_state(home: &SinewHome) -> Result<(), ServeError> {
    check(home.state_dir()).map(drop)
}

/// Migration of a state to the next version.
type Migration = fn(&Path) -> io::Result<()>;

/// Migrations, by the version that each begins with.
const MIGRATIONS: [Migration; CURRENT as usize] = [
    // Version 1 only adds the mark: names of version 0 are read as aliases.
    |_| Ok(()),
];

/// Checks the state, migrates an older one, and marks it with the version of this program.
pub(crate) fn claim(state: &Path) -> Result<(), ServeError> {
    let (path, found) = (state.join(FILE_NAME), check(state)?);
    if found == CURRENT {
        return Ok(());
    }
    migrate(state, found, &MIGRATIONS)?;
    write_version(state).map_err(|error| ServeError::io("write", &path, error))
}

/// Migrates a state step by step. A copy of the old state is complete before the first step.
fn migrate(state: &Path, found: u32, migrations: &[Migration]) -> Result<(), ServeError> {
    if has_content(state).map_err(|error| ServeError::io("read", state, error))? {
        let copy = state.join(format!("{COPY_PREFIX}{found}"));
        keep_copy(state, &copy)
            .map_err(|error| ServeError::io("keep a copy of the old state as", &copy, error))?;
        tracing::info!(from = found, to = CURRENT, copy = %copy.display(), "state_migrated");
    }
    for migration in migrations.iter().skip(usize::try_from(found).unwrap_or(usize::MAX)) {
        migration(state).map_err(|error| ServeError::io("migrate the state in", state, error))?;
    }
    Ok(())
}

fn write_version(state: &Path) -> io::Result<()> {
    // Renamed into place, so that a crash leaves no empty file, which would be refused.
    let fresh = state.join(format!("{FILE_NAME}.new"));
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(nix::libc::O_NOFOLLOW);
    let mut file = options.open(&fresh)?;
    file.write_all(format!("{CURRENT}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(&fresh, state.join(FILE_NAME))
}

/// Prefix of the copies of older states, in the state folder; the version follows.
const COPY_PREFIX: &str = "before-migration-";
/// Entries of the state folder that are no state: the log and the sockets are below it on Linux.
const NO_STATE: [&str; 5] = ["daemon.lock", "log", "run", FILE_NAME, "version.new"];

fn is_state(name: &std::ffi::OsStr) -> bool {
    let name = name.to_string_lossy();
    !NO_STATE.contains(&&*name) && !name.starts_with(COPY_PREFIX)
}

fn has_content(state: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(state)? {
        if is_state(&entry?.file_name()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Copies the state. An existing copy is complete, because it was renamed into place, and is kept: a migration that
/// was interrupted may have changed the state since.
fn keep_copy(state: &Path, copy: &Path) -> io::Result<()> {
    if copy.try_exists()? {
        return Ok(());
    }
    let partial = copy.with_extension("partial");
    match fs::remove_dir_all(&partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    create_private(&partial)?;
    let copied = fs::read_dir(state)?.try_for_each(|entry| {
        let entry = entry?;
        if is_state(&entry.file_name()) { copy_entry(&entry, &partial) } else { Ok(()) }
    });
    let kept =
        copied.and_then(|()| fs::File::open(&partial)?.sync_all()).and_then(|()| fs::rename(&partial, copy));
    if kept.is_err() {
        // The disk may be full; a partial copy is of no use.
        let _ = fs::remove_dir_all(&partial);
    }
    kept
}

/// Copies a file or folder. Sockets and links are no state.
fn copy_entry(entry: &fs::DirEntry, folder: &Path) -> io::Result<()> {
    let (kind, to) = (entry.file_type()?, folder.join(entry.file_name()));
    if kind.is_dir() {
        create_private(&to)?;
        return fs::read_dir(entry.path())?.try_for_each(|inner| copy_entry(&inner?, &to));
    }
    if kind.is_file() {
        fs::copy(entry.path(), &to)?;
        fs::File::open(&to)?.sync_all()?;
    }
    Ok(())
}

fn create_private(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(folder)
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
            for refused in [check(state).map(drop), claim(state)] {
                let message = refused.unwrap_err().to_string();
                assert!(message.contains("newer version of Sinew"), "{newer}: {message}");
            }
            assert_eq!(fs::read_to_string(&file).unwrap(), newer, "it is left as it is");
        }
    }

    #[test]
    fn older_state_is_copied_before_it_is_migrated() {
        let folder = tempfile::tempdir().unwrap();
        let (state, copy) = (folder.path(), folder.path().join("before-migration-0"));
        for name in ["ledger", "log", "run"] {
            fs::create_dir(state.join(name)).unwrap();
            fs::write(state.join(name).join("a"), name).unwrap();
        }
        let rewrite: Migration = |state| fs::write(state.join("ledger/a"), "migrated");
        let fails: Migration = |_| Err(io::Error::other("interrupted"));
        migrate(state, 0, &[rewrite, fails]).unwrap_err();
        assert_eq!(
            fs::read_to_string(copy.join("ledger/a")).unwrap(),
            "ledger",
            "the copy has the old content"
        );
        assert!(
            !copy.join("log").exists() && !copy.join("run").exists() && !copy.join("daemon.lock").exists()
        );
        // A second attempt does not replace the copy by a state that is partly migrated.
        migrate(state, 0, &[rewrite]).unwrap();
        assert_eq!(fs::read_to_string(copy.join("ledger/a")).unwrap(), "ledger");
        assert_eq!(fs::read_to_string(state.join("ledger/a")).unwrap(), "migrated");
        // Only the steps from the version that was found run.
        migrate(state, 1, &[fails]).unwrap();
        claim(state).unwrap();
        assert_eq!(fs::read_to_string(state.join(FILE_NAME)).unwrap(), "1\n");
    }

    #[test]
    fn a_state_that_cannot_be_copied_is_not_migrated() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        fs::write(state.join("ledger.key"), "key").unwrap();
        // A file is in the place of the partial copy.
        fs::write(state.join("before-migration-0.partial"), "").unwrap();
        let touched: Migration = |state| fs::write(state.join("ledger.key"), "migrated");
        let message = migrate(state, 0, &[touched]).unwrap_err().to_string();
        assert!(message.contains("before-migration-0"), "{message}");
        assert_eq!(fs::read_to_string(state.join("ledger.key")).unwrap(), "key");
        claim(state).unwrap_err();
        assert!(!state.join(FILE_NAME).exists(), "it is not marked");
    }

    #[test]
    fn a_new_state_needs_no_copy() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("daemon.lock"), "").unwrap();
        claim(folder.path()).unwrap();
        assert!(!folder.path().join("before-migration-0").exists());
    }
}
