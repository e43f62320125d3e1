//! The command that starts a server: words between blanks, and no shell. A file that a word names is pinned like the
//! program: `node server.js` is as much the script as it is node.

use std::path::{Path, PathBuf};

use tool::Failure;

use crate::pinned::Pin;

/// A command and the files it names, as they were when its manifest was read.
#[derive(Debug)]
pub(crate) struct ServerCommand {
    program: String,
    arguments: Vec<String>,
    files: Vec<(PathBuf, Pin)>,
}

impl ServerCommand {
    /// Splits a command at its blanks. Reads the files that it names by a whole path; one that is not there yet is pinned
    /// as such.
    pub(crate) fn read(command: &str) -> Result<Self, String> {
        let mut words = command.split_whitespace().map(str::to_owned);
        let program = words.next().ok_or("`server_command` is empty")?;
        let arguments: Vec<String> = words.collect();
        let mut files = Vec::new();
        for path in arguments.iter().filter_map(|word| named_by(word)) {
            let pin = Pin::of_file(path)
                .map_err(|error| format!("`{}` cannot be read: {error}", path.display()))?;
            files.extend(pin.map(|pin| (path.to_owned(), pin)));
        }
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
        self.files.iter().map(|(_, pin)| pin.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// Whether they are what they were. Reads them again.
    pub(crate) fn hold(&self) -> Result<(), Failure> {
        self.files.iter().try_for_each(|(path, pin)| pin.holds_file(path))
    }
}

/// The whole path that a word is, or that it gives to an option.
fn named_by(word: &str) -> Option<&Path> {
    let value =
        word.strip_prefix('-').and_then(|option| option.split_once('=')).map_or(word, |(_, value)| value);
    Some(Path::new(value)).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use tool::FailureKind;

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
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("server.js");
        for before in ["", "--require="] {
            let line = format!("node {before}{} {}", file.display(), folder.path().display());
            let _ = std::fs::remove_file(&file);
            let absent = ServerCommand::read(&line).unwrap();
            assert!(absent.hold().is_ok(), "nothing is there, as before");
            std::fs::write(&file, "one").unwrap();
            assert_eq!(absent.hold().unwrap_err().kind, FailureKind::Conflict, "it came since");
            let command = ServerCommand::read(&line).unwrap();
            assert!(command.hold().is_ok());
            assert_ne!(command.pinned(), absent.pinned());
            std::fs::write(&file, "two").unwrap();
            assert_eq!(command.hold().unwrap_err().kind, FailureKind::Conflict);
            std::fs::remove_file(&file).unwrap();
            assert!(command.hold().is_err());
        }
    }
}
