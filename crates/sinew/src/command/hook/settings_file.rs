//! Settings file of a host: parsed strictly, replaced atomically, following symbolic links and keeping
//! permissions.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tool::strict_json;

use crate::exit::Problem;

/// Maximum size. Real settings files have a page or two.
const LARGEST: u64 = 4 * 1024 * 1024;

/// Settings file with the content that was read.
pub(super) struct SettingsFile {
    /// Path behind symbolic links, so that writing replaces the target and not the link.
    path: PathBuf,
    /// Content, or `None` if the file does not exist.
    text: Option<String>,
}

impl SettingsFile {
    /// Reads and checks the file, which may be missing.
    pub(super) fn read(path: &Path) -> Result<SettingsFile, Problem> {
        let path = behind_links(path)?;
        let text = text_of(&path)?;
        if let Some(text) = &text {
            check(&path, text)?;
        }
        Ok(SettingsFile { path, text })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the content, or an empty object if the file does not exist.
    pub(super) fn text(&self) -> &str {
        self.text.as_deref().unwrap_or("{}\n")
    }

    /// Replaces the content, unless the file was changed since it was read.
    pub(super) fn write(&self, text: &str) -> Result<(), Problem> {
        check(&self.path, text)?;
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
        if text_of(&self.path)? != self.text {
            let problem =
                Problem::configuration(format!("{} was changed while this command ran", self.path.display()));
            return Err(problem.hint("run the command again"));
        }
        let mode = fs::metadata(&self.path).map_or(0o644, |facts| facts.permissions().mode() & 0o7777);
        replace(&self.path, text, mode).map_err(|error| cannot_write(&self.path, &error))
    }
}

/// Resolves symbolic links. A path that does not exist yet is returned unchanged.
fn behind_links(path: &Path) -> Result<PathBuf, Problem> {
    match fs::canonicalize(path) {
        Ok(real) => Ok(real),
        Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
            Ok(path.to_owned())
        }
        Err(error) => Err(Problem::configuration(format!("{} cannot be used: {error}", path.display()))),
    }
}

fn text_of(path: &Path) -> Result<Option<String>, Problem> {
    let unusable = |why: String| Problem::configuration(format!("{} {why}", path.display()));
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(format!("cannot be accessed: {error}"))),
        Ok(facts) if !facts.is_file() => return Err(unusable("is not a regular file".to_owned())),
        Ok(facts) if facts.len() > LARGEST => {
            return Err(unusable(format!("is larger than {LARGEST} bytes")));
        }
        Ok(_) => {}
    }
    fs::read_to_string(path).map(Some).map_err(|error| unusable(format!("cannot be read: {error}")))
}

fn check(path: &Path, text: &str) -> Result<(), Problem> {
    let problem = match strict_json::parse(text) {
        Ok(Value::Object(_)) => return Ok(()),
        Ok(_) => Problem::configuration(format!("{}: is not a JSON object", path.display())),
        Err(error) => {
            let (line, column) = (error.line, error.column);
            Problem::configuration(format!("{}:{line}:{column}: {}", path.display(), error.message))
        }
    };
    Err(problem.hint("nothing was changed; fix the file and run the command again"))
}

/// Replaces a file atomically, so that no reader sees a partial file.
fn replace(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let mut draft = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new("/")))?;
    draft.write_all(text.as_bytes())?;
    draft.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    draft.as_file().sync_all()?;
    draft.persist(path)?;
    Ok(())
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Problem {
    Problem::configuration(format!("{} cannot be written: {error}", path.display()))
}
