//! Command that starts a server: words separated by whitespace, without a shell. Files that the words name
//! are pinned like the program: `node server.js` depends on the script as much as on node.

use std::path::{Path, PathBuf};

use tool::Failure;

use super::server_key::ServerVariables;
use crate::file_pin::FilePin;

/// Command with the pins of the files it names, from when its manifest was read.
#[derive(Debug)]
pub(crate) struct ServerCommand {
    program: String,
    arguments: Vec<String>,
    pub(crate) variables: ServerVariables,
    files: Vec<(PathBuf, FilePin)>,
}

impl ServerCommand {
    /// Splits a command at whitespace, adds the further arguments, and pins the files that it names by absolute
    /// path. A missing file is pinned as absent.
    pub(crate) fn parse(command: &str, further: &[String]) -> Result<Self, String> {
        let mut tokens = command.split_whitespace().map(str::to_owned);
        let program = tokens.next().ok_or("`server_command` is empty")?;
        let arguments: Vec<String> = tokens.chain(further.iter().cloned()).collect();
        let mut files = Vec::new();
        for path in arguments.iter().filter_map(|word| path_in_word(word)) {
            let pin = FilePin::of_file(path)
                .map_err(|error| format!("`{}` cannot be read: {error}", path.display()))?;
            files.extend(pin.map(|pin| (path.to_owned(), pin)));
        }
        Ok(ServerCommand { program, arguments, variables: ServerVariables::default(), files })
    }

    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    pub(crate) fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// Returns true if the program downloads the server before it starts it.
    pub(crate) fn downloads(&self) -> bool {
        let name = self.program.rsplit('/').next().unwrap_or(&self.program);
        ["npx", "bunx", "pnpx", "uvx", "uv", "pipx"].contains(&name)
    }

    /// Returns how to make the program available to the sandbox, for the error if it is missing.
    pub(crate) fn install_guide(&self, id: &str) -> String {
        let name = self.program.rsplit('/').next().unwrap_or(&self.program);
        let package = self.arguments.iter().find(|word| !word.starts_with('-'));
        let package = package.map_or("PACKAGE", String::as_str);
        let grant = |folder: &str| {
            format!(
                "add to config/governance/tools.yaml, for each tool of `{id}`: `program_folders: [{folder}]`"
            )
        };
        match name {
            "npx" | "bunx" | "pnpx" => format!(
                "`{name}` downloads the server, and the sandbox has no network. Run `npm install --prefix ~/servers \
                 {package}`, `sinew workspace add --read-only ~/servers` and `sinew manifest import {id} -- node \
                 ~/servers/node_modules/{package}/dist/index.js`, or {} and `network: full`",
                grant("/usr/local/bin")
            ),
            "uvx" | "uv" | "pipx" => format!(
                "`{name}` downloads the server, and the sandbox has no network. Run `pip install --target ~/servers \
                 {package}`, `sinew workspace add --read-only ~/servers` and `sinew manifest import {id} -- python3 -c \
                 \"import sys; sys.path.insert(0, '$HOME/servers'); from MODULE import main; main()\"`, or {} and \
                 `network: full`",
                grant("$HOME/.local/bin")
            ),
            _ if self.program.contains("node_modules/.bin") => "`node_modules/.bin` has links to scripts. Start the script itself: `server_command: node \
                 /ABSOLUTE/node_modules/PACKAGE/dist/index.js`, and run `sinew workspace add --read-only` for its folder".to_owned(),
            _ => format!(
                "install `{}`, the server of `{id}`, or {}",
                self.program,
                grant("/FOLDER/OF/THE/PROGRAM")
            ),
        }
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
        let command = ServerCommand::parse("  npx -y  @a/b $(x) ; 'y z' > f\n", &[]).unwrap();
        assert_eq!(command.program(), "npx");
        assert_eq!(command.arguments(), ["-y", "@a/b", "$(x)", ";", "'y", "z'", ">", "f"]);
        assert!(ServerCommand::parse(" \n", &[]).is_err());
    }

    #[test]
    fn further_arguments_are_words_of_their_own() {
        let command = ServerCommand::parse("python3 -c", &["import a; a.main()".to_owned()]).unwrap();
        assert_eq!(command.arguments(), ["-c", "import a; a.main()"]);
    }

    #[test]
    fn programs_that_download_are_explained() {
        for (line, words) in [
            ("npx -y @a/server", ["npm install", "@a/server", "program_folders", "network: full"]),
            ("uvx mcp-server-time", ["pip install", "mcp-server-time", "program_folders", "network: full"]),
            (
                "/x/node_modules/.bin/s",
                ["server_command: node", "node_modules", "workspace add", "--read-only"],
            ),
        ] {
            let guide = ServerCommand::parse(line, &[]).unwrap().install_guide("id");
            assert!(words.iter().all(|word| guide.contains(word)), "{guide}");
        }
    }

    #[test]
    fn a_file_named_by_a_word_is_pinned() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("server.js");
        for before in ["", "--require="] {
            let line = format!("node {before}{} {}", file.display(), folder.path().display());
            let _ = std::fs::remove_file(&file);
            let absent = ServerCommand::parse(&line, &[]).unwrap();
            assert!(absent.check_files().is_ok(), "the file is still absent");
            std::fs::write(&file, "one").unwrap();
            assert_eq!(
                absent.check_files().unwrap_err().kind,
                FailureKind::Conflict,
                "the file was created later"
            );
            let command = ServerCommand::parse(&line, &[]).unwrap();
            assert!(command.check_files().is_ok());
            assert_ne!(command.pin_text(), absent.pin_text());
            std::fs::write(&file, "two").unwrap();
            assert_eq!(command.check_files().unwrap_err().kind, FailureKind::Conflict);
            std::fs::remove_file(&file).unwrap();
            assert!(command.check_files().is_err());
        }
    }
}
