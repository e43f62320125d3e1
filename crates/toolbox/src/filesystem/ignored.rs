//! What `.gitignore` and `.ignore` leave out, read through the handles of the walk. Those of folders above the one that is
//! searched are not looked for: nothing above it was judged.

use std::io::Read;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use resources::{Found, OpenedPath, Reader};

/// Of such a file no more is read.
const MOST_BYTES: u64 = 256 * 1024;

/// The later of two files of one folder wins.
const NAMES: [&str; 2] = [".gitignore", ".ignore"];

pub(super) struct Ignored {
    /// The files of the folders that lead to where the walk is, outermost first. Empty where nothing is left out.
    above: Vec<(PathBuf, Gitignore)>,
    is_on: bool,
}

impl Ignored {
    pub(super) fn starting_in(directory: &OpenedPath, include_ignored: bool) -> Self {
        let mut ignored = Ignored { above: Vec::new(), is_on: !include_ignored };
        ignored.add(Path::new(""), |name| directory.file_in(name));
        ignored
    }

    /// Goes into a folder.
    pub(super) fn enter(&mut self, found: &Found<'_>) {
        self.leave(found.relative.parent());
        self.add(found.relative, |name| found.file_in(name));
    }

    pub(super) fn leaves_out(&mut self, found: &Found<'_>, is_folder: bool) -> bool {
        self.leave(found.relative.parent());
        if self.is_on && is_folder && found.entry.name == ".git" {
            return true;
        }
        // The innermost that says anything decides.
        let said = self.above.iter().rev().map(|(_, file)| file.matched(found.relative, is_folder));
        said.into_iter().find(|said| !said.is_none()).is_some_and(|said| matches!(said, Match::Ignore(_)))
    }

    /// Forgets the files of folders that are behind.
    fn leave(&mut self, folder: Option<&Path>) {
        let folder = folder.unwrap_or(Path::new(""));
        while self.above.last().is_some_and(|(above, _)| !folder.starts_with(above)) {
            self.above.pop();
        }
    }

    fn add(&mut self, folder: &Path, open: impl Fn(&str) -> std::io::Result<Reader>) {
        if !self.is_on {
            return;
        }
        let mut builder = GitignoreBuilder::new(folder);
        for name in NAMES {
            let mut text = Vec::new();
            if open(name).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut text)).is_err() {
                continue;
            }
            for line in String::from_utf8_lossy(&text).lines() {
                // A line that is no pattern leaves nothing out, as for git.
                let _ = builder.add_line(None, line);
            }
        }
        if let Ok(file) = builder.build()
            && !file.is_empty()
        {
            self.above.push((folder.to_owned(), file));
        }
    }
}
