//! Files of the repository, read once. Checks work on this value and never read the disk, so that each can be
//! tested on a few lines of text.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// Root folder of the workspace.
pub(crate) struct Root(PathBuf);

impl Root {
    /// Finds the workspace: the parent of the folder that cargo names for this package.
    pub(crate) fn find() -> Result<Self> {
        let package = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = package.parent().context("the xtask folder has no parent")?;
        Ok(Root(root.to_owned()))
    }

    /// Path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Command with this folder as its working directory.
    pub(crate) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.0);
        command
    }

    /// Command that runs cargo in this folder: the same cargo that runs this task.
    ///
    /// Removes the variables that cargo set for this package: build scripts watch some of them and would
    /// compile their C code again each time they change.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let mut command = self.command(&cargo, arguments);
        let is_from_cargo = |name: &str| {
            ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"]
                .iter()
                .any(|start| name.starts_with(start))
                || ["CARGO_PRIMARY_PACKAGE", "OUT_DIR"].contains(&name)
        };
        for (name, _) in std::env::vars().filter(|(name, _)| is_from_cargo(name)) {
            command.env_remove(name);
        }
        command
    }

    /// Reads every text file that is in git or that `git add` would add.
    pub(crate) fn read_tree(&self) -> Result<Tree> {
        let mut list = self.command("git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let names = process::capture(&mut list).context("tidy reads the list of files from git")?;
        let mut files = Vec::new();
        for name in names.split('\0').filter(|name| !name.is_empty()) {
            // A file deleted but not yet committed is still listed; a picture is not text.
            if let Ok(text) = std::fs::read_to_string(self.0.join(name)) {
                files.push(File { path: name.to_owned(), text });
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        Ok(Tree { files })
    }
}

/// One text file; the path is relative to the root and uses `/`.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// Last part of the path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Last part of the path without its extension.
    pub(crate) fn stem(&self) -> &str {
        self.name().rsplit_once('.').map_or(self.name(), |(stem, _)| stem)
    }

    /// Lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().zip(1..).map(|(line, number)| (number, line))
    }
}

/// All files, in order of their paths.
pub(crate) struct Tree {
    files: Vec<File>,
}

impl Tree {
    /// Creates a tree of literal files.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File { path: (*path).to_owned(), text: (*text).to_owned() };
        Tree { files: files.iter().map(file).collect() }
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// Files whose path ends with `end`.
    pub(crate) fn ending(&self, end: &'static str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.path.ends_with(end))
    }

    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Returns true if a file or a folder has this path.
    pub(crate) fn holds(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        path.is_empty() || self.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    }
}
