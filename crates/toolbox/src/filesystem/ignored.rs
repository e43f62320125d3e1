//! Rules of `.gitignore` and `.ignore` files, read through the handles of the directory walk. Files in
//! directories above the searched one are not read: the policy did not check anything above it.

use std::io::Read;
use std::path::{Path, PathBuf};

use file_access::{Found, OpenedPath, Reader};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Largest ignore file that is applied; a larger one is skipped completely. A few hundred lines are common,
/// and thousands of wildcard patterns would use up the time and memory of a search.
const MOST_BYTES: u64 = 128 * 1024;
const MOST_PATTERNS: usize = 2_000;
const LONGEST_PATTERN: usize = 256;
/// Largest number of active patterns over all files from the root to the current directory.
const MOST_AT_ONCE: usize = 8_000;

/// Ignore files of one directory. The later one takes precedence.
const NAMES: [&str; 2] = [".gitignore", ".ignore"];

pub(super) struct Ignored {
    /// Ignore files of the directories from the root to the current one, outermost first, without empty ones.
    above: Vec<(PathBuf, Gitignore)>,
    is_on: bool,
    /// Number of ignore files that were skipped.
    unfollowed: u64,
}

impl Ignored {
    pub(super) fn starting_in(directory: &OpenedPath, include_ignored: bool) -> Self {
        let mut ignored = Ignored { above: Vec::new(), is_on: !include_ignored, unfollowed: 0 };
        ignored.add(Path::new(""), |name| directory.file_in(name));
        ignored
    }

    /// Returns the number of ignore files that were skipped as too large; the files they exclude were
    /// searched.
    pub(super) fn unfollowed(&self) -> u64 {
        self.unfollowed
    }

    /// Loads the ignore files of a directory.
    pub(super) fn enter(&mut self, found: &Found<'_>) {
        self.leave(found.relative.parent());
        self.add(found.relative, |name| found.file_in(name));
    }

    pub(super) fn leaves_out(&mut self, found: &Found<'_>, is_folder: bool) -> bool {
        self.leave(found.relative.parent());
        if self.is_on && is_folder && found.entry.name == ".git" {
            return true;
        }
        // The innermost file with a matching pattern decides.
        let said = self.above.iter().rev().map(|(_, file)| file.matched(found.relative, is_folder));
        said.into_iter().find(|said| !said.is_none()).is_some_and(|said| matches!(said, Match::Ignore(_)))
    }

    /// Drops the ignore files of directories that the walk has left.
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
        let mut left =
            MOST_AT_ONCE.saturating_sub(self.above.iter().map(|(_, file)| patterns_in(file)).sum());
        for name in NAMES {
            let mut text = Vec::new();
            if open(name).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut text)).is_err() {
                continue;
            }
            let text = String::from_utf8_lossy(&text);
            match patterns(&text).filter(|patterns| patterns.len() <= left) {
                // As in git, a line that is not a valid pattern excludes nothing.
                Some(patterns) => patterns.iter().for_each(|line| {
                    left -= usize::from(builder.add_line(None, line).is_ok());
                }),
                None => self.unfollowed += 1,
            }
        }
        match builder.build() {
            Ok(file) if file.is_empty() => {}
            Ok(file) => self.above.push((folder.to_owned(), file)),
            Err(_) => self.unfollowed += 1,
        }
    }
}

/// Returns the lines of a file that may be patterns, or nothing if they are too many or too long.
fn patterns(text: &str) -> Option<Vec<&str>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let patterns: Vec<&str> = lines.take(MOST_PATTERNS + 1).collect();
    let is_small = text.len() as u64 <= MOST_BYTES && patterns.len() <= MOST_PATTERNS;
    (is_small && patterns.iter().all(|line| line.len() <= LONGEST_PATTERN)).then_some(patterns)
}

fn patterns_in(file: &Gitignore) -> usize {
    usize::try_from(file.num_ignores() + file.num_whitelists()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oversized_ignore_file_is_skipped_completely() {
        let many = |number: usize| (0..number).map(|n| format!("a{n}\n")).collect::<String>();
        let check = |text: &str, expect: Option<usize>| {
            assert_eq!(patterns(text).map(|patterns| patterns.len()), expect, "{} bytes", text.len());
        };
        check("# why\n\n*.o\n!keep.o\n", Some(2));
        check(&many(MOST_PATTERNS), Some(MOST_PATTERNS));
        check(&many(MOST_PATTERNS + 1), None);
        check(&"*a".repeat(LONGEST_PATTERN / 2), Some(1));
        check(&("*a".repeat(LONGEST_PATTERN / 2) + "b"), None);
        check(&"#".repeat(128 * 1024 + 1), None);
    }
}
