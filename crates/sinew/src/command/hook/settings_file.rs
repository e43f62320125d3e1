//! Settings file of a host: parsed strictly, replaced atomically, following symbolic links and keeping
//! permissions.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tool::strict_json;

use crate::exit::CommandError;

/// Maximum size. Real settings files have a page or two.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Settings file with the content that was read.
pub(super) struct HostSettingsFile {
    /// Path behind symbolic links, so that writing replaces the target and not the link.
    path: PathBuf,
    /// Content, or `None` if the file does not exist.
    text: Option<String>,
    /// Content of the host's settings before the first one is set.
    empty: &'static str,
}

impl HostSettingsFile {
    /// Reads and checks the file, which may be missing.
    pub(super) fn read(path: &Path, empty: &'static str) -> Result<HostSettingsFile, CommandError> {
        let path = resolve_links(path)?;
        let text = read_text(&path)?;
        if let Some(text) = &text {
            check_json_object(&path, text)?;
        }
        Ok(HostSettingsFile { path, text, empty })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the content, or empty settings if the file does not exist.
    pub(super) fn text(&self) -> &str {
        self.text.as_deref().unwrap_or(self.empty)
    }

    /// Replaces the content, unless the file was changed since it was read.
    pub(super) fn write(&self, text: &str) -> Result<(), CommandError> {
        check_json_object(&self.path, text)?;
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
        if read_text(&self.path)? != self.text {
            let problem = CommandError::configuration(format!(
                "{} was changed while this command ran",
                self.path.display()
            ));
            return Err(problem.with_hint("run the command again"));
        }
        let mode = fs::metadata(&self.path).map_or(0o644, |facts| facts.permissions().mode() & 0o7777);
        replace_atomically(&self.path, text, mode).map_err(|error| cannot_write(&self.path, &error))
    }
}

impl HostSettingsFile {
    /// Removes the file, which install created, unless it was changed since it was read.
    pub(super) fn remove(&self) -> Result<(), CommandError> {
        if read_text(&self.path)? != self.text {
            return Err(CommandError::configuration(format!(
                "{} was changed while this command ran",
                self.path.display()
            ))
            .with_hint("run the command again"));
        }
        fs::remove_file(&self.path).map_err(|error| cannot_write(&self.path, &error))
    }
}

/// Resolves symbolic links. A path that does not exist yet is returned unchanged.
fn resolve_links(path: &Path) -> Result<PathBuf, CommandError> {
    match fs::canonicalize(path) {
        Ok(real) => Ok(real),
        Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
            Ok(path.to_owned())
        }
        Err(error) => Err(CommandError::configuration(format!("{} cannot be used: {error}", path.display()))),
    }
}

fn read_text(path: &Path) -> Result<Option<String>, CommandError> {
    let unusable = |why: String| CommandError::configuration(format!("{} {why}", path.display()));
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(format!("cannot be accessed: {error}"))),
        Ok(facts) if !facts.is_file() => return Err(unusable("is not a regular file".to_owned())),
        Ok(facts) if facts.len() > MAX_FILE_BYTES => {
            return Err(unusable(format!("is larger than {MAX_FILE_BYTES} bytes")));
        }
        Ok(_) => {}
    }
    fs::read_to_string(path).map(Some).map_err(|error| unusable(format!("cannot be read: {error}")))
}

fn check_json_object(path: &Path, text: &str) -> Result<(), CommandError> {
    let problem = match strict_json::parse(text) {
        Ok(Value::Object(_)) => return Ok(()),
        Ok(_) => CommandError::configuration(format!("{}: is not a JSON object", path.display())),
        Err(error) => {
            let (line, column) = (error.line, error.column);
            CommandError::configuration(format!("{}:{line}:{column}: {}", path.display(), error.message))
        }
    };
    Err(problem.with_hint("nothing was changed; fix the file and run the command again"))
}

/// Replaces a file atomically, so that no reader sees a partial file.
fn replace_atomically(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let mut draft = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new("/")))?;
    draft.write_all(text.as_bytes())?;
    draft.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    draft.as_file().sync_all()?;
    draft.persist(path)?;
    Ok(())
}

fn cannot_write(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::configuration(format!("{} cannot be written: {error}", path.display()))
}
