//! What `.gitignore` and `.ignore` leave out, read through the handles of the walk. Those of folders above the one that is
//! searched are not looked for: nothing above it was judged.

use std::io::Read;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use resources::{Found, OpenedPath, Reader};

/// A file with more than this is not followed, neither whole nor half. A few hundred lines are many; thousands of wild
/// ones take the time and the memory of a search.
const MOST_BYTES: u64 = 128 * 1024;
const MOST_PATTERNS: usize = 2_000;
const LONGEST_PATTERN: usize = 256;
/// In all the files that lead to where the walk is: folders can be nested.
const MOST_AT_ONCE: usize = 8_000;

/// The later of two files of one folder wins.
const NAMES: [&str; 2] = [".gitignore", ".ignore"];

pub(super) struct Ignored {
    /// The files of the folders that lead to where the walk is, outermost first. Empty where nothing is left out.
    above: Vec<(PathBuf, Gitignore)>,
    is_on: bool,
    /// How many files were not followed.
    unfollowed: u64,
}

impl Ignored {
    pub(super) fn starting_in(directory: &OpenedPath, include_ignored: bool) -> Self {
        let mut ignored = Ignored { above: Vec::new(), is_on: !include_ignored, unfollowed: 0 };
        ignored.add(Path::new(""), |name| directory.file_in(name));
        ignored
    }

    /// How many files have too much in them, so that what they leave out was looked at.
    pub(super) fn unfollowed(&self) -> u64 {
        self.unfollowed
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
        let mut left =
            MOST_AT_ONCE.saturating_sub(self.above.iter().map(|(_, file)| patterns_in(file)).sum());
        for name in NAMES {
            let mut text = Vec::new();
            if open(name).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut text)).is_err() {
                continue;
            }
            let text = String::from_utf8_lossy(&text);
            match patterns(&text).filter(|patterns| patterns.len() <= left) {
                // A line that is no pattern leaves nothing out, as for git.
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

/// The lines of a file that may be patterns; nothing if they are too many or too long.
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
    fn a_file_with_too_much_in_it_is_not_followed_by_half() {
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
