//! Rules of `.gitignore` and `.ignore` files, read through the handles of the directory walk. Files in
//! directories above the searched one are not read: the policy did not check anything above it.

use std::io::Read;
use std::path::{Path, PathBuf};

use file_access::{FileReader, OpenedPath, TreeEntry};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Largest ignore file that is applied; a larger one is skipped completely. A few hundred lines are common,
/// and thousands of wildcard patterns would use up the time and memory of a search.
const MAX_FILE_BYTES: u64 = 128 * 1024;
const MAX_PATTERNS: usize = 2_000;
const MAX_PATTERN_LENGTH: usize = 256;
/// Largest number of active patterns over all files from the root to the current directory.
const MAX_ACTIVE_PATTERNS: usize = 8_000;

/// Ignore files of one directory. The later one takes precedence.
const FILE_NAMES: [&str; 2] = [".gitignore", ".ignore"];

pub(super) struct IgnoreRules {
    /// Ignore files of the directories from the root to the current one, outermost first, without empty ones.
    active_files: Vec<(PathBuf, Gitignore)>,
    is_enabled: bool,
    /// Number of ignore files that were skipped.
    skipped_files: u64,
}

impl IgnoreRules {
    pub(super) fn for_directory(directory: &OpenedPath, include_ignored: bool) -> Self {
        let mut ignored =
            IgnoreRules { active_files: Vec::new(), is_enabled: !include_ignored, skipped_files: 0 };
        ignored.load_directory(Path::new(""), |name| directory.open_file_in(name));
        ignored
    }

    /// Returns the number of ignore files that were skipped as too large; the files they exclude were
    /// searched.
    pub(super) fn skipped_files(&self) -> u64 {
        self.skipped_files
    }

    /// Loads the ignore files of a directory.
    pub(super) fn enter_directory(&mut self, found: &TreeEntry<'_>) {
        self.drop_files_outside(found.relative.parent());
        self.load_directory(found.relative, |name| found.open_file_in(name));
    }

    pub(super) fn excludes(&mut self, found: &TreeEntry<'_>, is_folder: bool) -> bool {
        self.drop_files_outside(found.relative.parent());
        if self.is_enabled && is_folder && found.entry.name == ".git" {
            return true;
        }
        // The innermost file with a matching pattern decides.
        let mut matches =
            self.active_files.iter().rev().map(|(_, file)| file.matched(found.relative, is_folder));
        matches.find(|matched| !matched.is_none()).is_some_and(|matched| matches!(matched, Match::Ignore(_)))
    }

    /// Drops the ignore files of directories that the walk has left.
    fn drop_files_outside(&mut self, folder: Option<&Path>) {
        let folder = folder.unwrap_or(Path::new(""));
        while self.active_files.last().is_some_and(|(above, _)| !folder.starts_with(above)) {
            self.active_files.pop();
        }
    }

    fn load_directory(&mut self, folder: &Path, open: impl Fn(&str) -> std::io::Result<FileReader>) {
        if !self.is_enabled {
            return;
        }
        let mut builder = GitignoreBuilder::new(folder);
        let mut remaining = MAX_ACTIVE_PATTERNS
            .saturating_sub(self.active_files.iter().map(|(_, file)| pattern_count(file)).sum());
        for name in FILE_NAMES {
            let mut text = Vec::new();
            if open(name).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text)).is_err() {
                continue;
            }
            let text = String::from_utf8_lossy(&text);
            match parse_patterns(&text).filter(|patterns| patterns.len() <= remaining) {
                // As in git, a line that is not a valid pattern excludes nothing.
                Some(patterns) => patterns.iter().for_each(|line| {
                    remaining -= usize::from(builder.add_line(None, line).is_ok());
                }),
                None => self.skipped_files += 1,
            }
        }
        match builder.build() {
            Ok(file) if file.is_empty() => {}
            Ok(file) => self.active_files.push((folder.to_owned(), file)),
            Err(_) => self.skipped_files += 1,
        }
    }
}

/// Returns the lines of a file that may be patterns, or nothing if they are too many or too long.
fn parse_patterns(text: &str) -> Option<Vec<&str>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let patterns: Vec<&str> = lines.take(MAX_PATTERNS + 1).collect();
    let is_small = text.len() as u64 <= MAX_FILE_BYTES && patterns.len() <= MAX_PATTERNS;
    (is_small && patterns.iter().all(|line| line.len() <= MAX_PATTERN_LENGTH)).then_some(patterns)
}

fn pattern_count(file: &Gitignore) -> usize {
    usize::try_from(file.num_ignores() + file.num_whitelists()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oversized_ignore_file_is_skipped_completely() {
        let many = |number: usize| (0..number).map(|n| format!("a{n}\n")).collect::<String>();
        let check = |text: &str, expect: Option<usize>| {
            assert_eq!(parse_patterns(text).map(|patterns| patterns.len()), expect, "{} bytes", text.len());
        };
        check("# why\n\n*.o\n!keep.o\n", Some(2));
        check(&many(MAX_PATTERNS), Some(MAX_PATTERNS));
        check(&many(MAX_PATTERNS + 1), None);
        check(&"*a".repeat(MAX_PATTERN_LENGTH / 2), Some(1));
        check(&("*a".repeat(MAX_PATTERN_LENGTH / 2) + "b"), None);
        check(&"#".repeat(128 * 1024 + 1), None);
    }
}
