//! The command that starts a server: words between blanks, and no shell. A file that a word names is pinned like the
//! program: `node server.js` is as much the script as it is node.

use std::io;
use std::path::{Path, PathBuf};

use tool::{Failure, FailureKind, canonical};

/// A command and the files it names, as they were when its manifest was read.
#[derive(Debug)]
pub(crate) struct ServerCommand {
    program: String,
    arguments: Vec<String>,
    files: Vec<(PathBuf, String)>,
}

impl ServerCommand {
    /// Splits a command at its blanks. Reads the files that it names by a whole path.
    pub(crate) fn read(command: &str) -> Result<Self, String> {
        let mut words = command.split_whitespace().map(str::to_owned);
        let program = words.next().ok_or("`server_command` is empty")?;
        let arguments: Vec<String> = words.collect();
        let named = arguments.iter().map(PathBuf::from).filter(|path| path.is_absolute() && path.is_file());
        let files = named.map(|path| match digest(&path) {
            Ok(digest) => Ok((path, digest)),
            Err(error) => Err(format!("`{}` cannot be read: {error}", path.display())),
        });
        let files = files.collect::<Result<Vec<_>, String>>()?;
        Ok(ServerCommand { program, arguments, files })
    }

    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    pub(crate) fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// One word for the files.
    pub(crate) fn pinned(&self) -> String {
        self.files.iter().map(|(_, digest)| digest.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// Whether they are what they were. Reads them again.
    pub(crate) fn hold(&self) -> Result<(), Failure> {
        match self.files.iter().find(|(path, known)| !digest(path).is_ok_and(|now| now == *known)) {
            None => Ok(()),
            Some((path, _)) => {
                let message = format!("`{}` is not the file that was accepted", path.display());
                let hint = "it has changed since; look at it, then `sinew reload --accept`";
                Err(Failure::new(FailureKind::Conflict, message).hint(hint))
            }
        }
    }
}

fn digest(path: &Path) -> io::Result<String> {
    Ok(canonical::sha256_hex(&std::fs::read(path)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_between_blanks_and_nothing_else_has_a_meaning() {
        let command = ServerCommand::read("  npx -y  @a/b $(x) ; 'y z' > f\n").unwrap();
        assert_eq!(command.program(), "npx");
        assert_eq!(command.arguments(), ["-y", "@a/b", "$(x)", ";", "'y", "z'", ">", "f"]);
        assert!(ServerCommand::read(" \n").is_err());
    }

    #[test]
    fn a_file_that_a_word_names_is_held() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "one").unwrap();
        let command = ServerCommand::read(&format!("node {}", file.path().display())).unwrap();
        assert!(command.hold().is_ok());
        std::fs::write(file.path(), "two").unwrap();
        assert_eq!(command.hold().unwrap_err().kind, FailureKind::Conflict);
        std::fs::remove_file(file.path()).unwrap();
        assert!(command.hold().is_err());
    }
}
