//! Command that starts a server: words separated by whitespace, without a shell. Files that the words name
//! are pinned like the program: `node server.js` depends on the script as much as on node.

use std::path::{Path, PathBuf};

use tool::Failure;

use crate::file_pin::FilePin;

/// Command with the pins of the files it names, from when its manifest was read.
#[derive(Debug)]
pub(crate) struct ServerCommand {
    program: String,
    arguments: Vec<String>,
    files: Vec<(PathBuf, FilePin)>,
}

impl ServerCommand {
    /// Splits a command at whitespace and pins the files that it names by absolute path. A missing file is
    /// pinned as absent.
    pub(crate) fn parse(command: &str) -> Result<Self, String> {
        let mut words = command.split_whitespace().map(str::to_owned);
        let program = words.next().ok_or("`server_command` is empty")?;
        let arguments: Vec<String> = words.collect();
        let mut files = Vec::new();
        for path in arguments.iter().filter_map(|word| path_in_word(word)) {
            let pin = FilePin::of_file(path)
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

    /// Returns the pins of all files as text for the origin digest.
    pub(crate) fn pin_text(&self) -> String {
        self.files.iter().map(|(_, pin)| pin.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// Checks that the files still match their pins. Reads them again.
    pub(crate) fn check_files(&self) -> Result<(), Failure> {
        self.files.iter().try_for_each(|(path, pin)| pin.check_file(path))
    }
}

/// Returns the absolute path in a word, or in the value of an `--option=value` word.
fn path_in_word(word: &str) -> Option<&Path> {
    let value =
        word.strip_prefix('-').and_then(|option| option.split_once('=')).map_or(word, |(_, value)| value);
    Some(Path::new(value)).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use tool::FailureKind;

    use super::*;

    #[test]
    fn a_command_is_split_at_whitespace_only() {
        let command = ServerCommand::parse("  npx -y  @a/b $(x) ; 'y z' > f\n").unwrap();
        assert_eq!(command.program(), "npx");
        assert_eq!(command.arguments(), ["-y", "@a/b", "$(x)", ";", "'y", "z'", ">", "f"]);
        assert!(ServerCommand::parse(" \n").is_err());
    }

    #[test]
    fn a_file_named_by_a_word_is_pinned() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("server.js");
        for before in ["", "--require="] {
            let line = format!("node {before}{} {}", file.display(), folder.path().display());
            let _ = std::fs::remove_file(&file);
            let absent = ServerCommand::parse(&line).unwrap();
            assert!(absent.check_files().is_ok(), "the file is still absent");
            std::fs::write(&file, "one").unwrap();
            assert_eq!(
                absent.check_files().unwrap_err().kind,
                FailureKind::Conflict,
                "the file was created later"
            );
            let command = ServerCommand::parse(&line).unwrap();
            assert!(command.check_files().is_ok());
            assert_ne!(command.pin_text(), absent.pin_text());
            std::fs::write(&file, "two").unwrap();
            assert_eq!(command.check_files().unwrap_err().kind, FailureKind::Conflict);
            std::fs::remove_file(&file).unwrap();
            assert!(command.check_files().is_err());
        }
    }
}
