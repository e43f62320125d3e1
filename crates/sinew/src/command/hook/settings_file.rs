//! A host's settings file: read strictly, written whole, through its links and with its own permissions.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tool::strict_json;

use crate::exit::Problem;

/// A settings file is a page or two.
const LARGEST: u64 = 4 * 1024 * 1024;

/// A settings file as it was read.
pub(super) struct SettingsFile {
    /// Where it really is: a link stays a link.
    path: PathBuf,
    /// Nothing where there is no file.
    text: Option<String>,
}

impl SettingsFile {
    /// Reads it, or notes that it is not there.
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

    /// Its text; that of an empty object where there is no file.
    pub(super) fn text(&self) -> &str {
        self.text.as_deref().unwrap_or("{}\n")
    }

    /// Puts a new text in its place. Whoever changed the file meanwhile is not overwritten.
    pub(super) fn write(&self, text: &str) -> Result<(), Problem> {
        check(&self.path, text)?;
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
        if text_of(&self.path)? != self.text {
            let problem = Problem::configuration(format!("{} was changed just now", self.path.display()));
            return Err(problem.hint("try again"));
        }
        let mode = fs::metadata(&self.path).map_or(0o644, |facts| facts.permissions().mode() & 0o7777);
        replace(&self.path, text, mode).map_err(|error| cannot_write(&self.path, &error))
    }
}

/// The file that a name leads to, whether it is there yet or not.
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
        Err(error) => return Err(unusable(format!("cannot be looked at: {error}"))),
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
    Err(problem.hint("mend the file first; nothing was changed"))
}

/// Nobody ever sees half of it.
fn replace(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}.new", std::process::id()));
    let write = || {
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(mode).open(&draft)?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&draft);
    })
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Problem {
    Problem::configuration(format!("{} cannot be written: {error}", path.display()))
}
