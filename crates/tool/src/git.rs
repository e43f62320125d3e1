//! Git directories recognized by their entries, not by the name of the directory.
//!
//! Git takes any directory with `HEAD`, `objects` and `refs` for a bare repository, and one with `HEAD` and `commondir`
//! for a linked worktree, and runs the programs that its configuration names. This is the one definition of that layout:
//! file tools are refused by it before a change, and sandboxed runs are cleaned up by it afterwards. Nothing here does
//! I/O.

use std::ffi::OsStr;

/// Entries of a git directory that name programs, lead git to another directory or say what it does next, as a literal
/// for patterns. An interrupted rebase continues with the commands of a list.
#[macro_export]
macro_rules! git_acts_on {
    () => {
        "config,config.worktree,commondir,hooks,info,modules,worktrees,remotes,branches,rebase-merge"
    };
}

/// Relation of a change to a git directory, where it is one that no tool may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitEntry {
    /// The directory is a git directory, and the entry is one that git reads.
    Existing,
    /// With the entry, the directory would become a git directory.
    Completing,
}

impl GitEntry {
    /// Returns the word used in records.
    pub fn as_str(self) -> &'static str {
        match self {
            GitEntry::Existing => "existing",
            GitEntry::Completing => "completing",
        }
    }

    /// Reads the word used in records.
    pub fn from_word(word: &str) -> Option<Self> {
        [GitEntry::Existing, GitEntry::Completing].into_iter().find(|entry| entry.as_str() == word)
    }
}

/// Entries of one directory by which git recognizes a repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GitDirectory {
    head: bool,
    objects: bool,
    refs: bool,
    commondir: bool,
}

impl GitDirectory {
    /// Names of the entries that are looked for.
    pub const MARKERS: [&'static str; 4] = ["HEAD", "objects", "refs", "commondir"];

    /// Notes an entry of the directory. Letters are compared without case, as on a volume that ignores it.
    pub fn add(&mut self, name: &OsStr) {
        match folded(name).as_str() {
            "head" => self.head = true,
            "objects" => self.objects = true,
            "refs" => self.refs = true,
            "commondir" => self.commondir = true,
            _ => {}
        }
    }

    /// Returns true if git takes the directory for a repository. Kinds and contents of the entries do not count, because
    /// they can be changed after this check.
    pub fn is_complete(self) -> bool {
        self.head && (self.commondir || (self.objects && self.refs))
    }

    /// Returns the relation of a change of this entry to the directory, if no tool may make it.
    pub fn closes(self, name: &OsStr) -> Option<GitEntry> {
        let mut with_name = self;
        with_name.add(name);
        match self.is_complete() {
            true => is_git_entry(name).then_some(GitEntry::Existing),
            false => with_name.is_complete().then_some(GitEntry::Completing),
        }
    }
}

/// Returns true if a git directory is recognized by this entry.
pub fn is_git_marker(name: &OsStr) -> bool {
    is_one_of(&folded(name), GitDirectory::MARKERS.into_iter())
}

/// Returns true if git acts on this entry of a git directory.
pub fn is_acted_on_by_git(name: &OsStr) -> bool {
    is_one_of(&folded(name), git_acts_on!().split(','))
}

/// Returns true if the entry counts in a git directory. Paths without one need no look at the disk.
pub fn is_git_entry(name: &OsStr) -> bool {
    is_git_marker(name) || is_acted_on_by_git(name)
}

fn is_one_of(folded: &str, mut names: impl Iterator<Item = &'static str>) -> bool {
    names.any(|word| word.eq_ignore_ascii_case(folded))
}

/// Returns a name in the form that a case-insensitive volume compares. Upper case first: it spells out
/// ligatures and the long `ſ`. Normal forms are not converted: of the composed letters only the Kelvin sign
/// decomposes into an ASCII letter of the words above, and it has a lower case.
fn folded(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    let visible: String = name.chars().filter(|c| !is_ignored_in_names(*c)).collect();
    visible.to_uppercase().to_lowercase()
}

/// Returns true for characters that some file systems leave out when they compare names.
pub fn is_ignored_in_names(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(entries: &[&str], name: &str, expect: Option<GitEntry>) {
        let mut directory = GitDirectory::default();
        entries.iter().for_each(|entry| directory.add(OsStr::new(entry)));
        assert_eq!(directory.closes(OsStr::new(name)), expect, "{name} in {entries:?}");
    }

    #[test]
    fn the_last_entry_of_a_layout_is_closed_whichever_it_is() {
        let layout = ["HEAD", "objects", "refs"];
        for last in layout {
            let others: Vec<&str> = layout.into_iter().filter(|entry| *entry != last).collect();
            check(&others, last, Some(GitEntry::Completing));
            check(&[&others[..], &["config", "hooks"]].concat(), last, Some(GitEntry::Completing));
            check(&others[..1], last, None);
            check(&others, "config", None);
        }
        check(&["HEAD"], "commondir", Some(GitEntry::Completing));
        check(&["commondir"], "HEAD", Some(GitEntry::Completing));
        check(&["commondir", "objects"], "refs", None);
        check(&[], "HEAD", None);
    }

    #[test]
    fn entries_of_a_git_directory_are_closed_and_others_are_not() {
        let layout = ["HEAD", "objects", "refs"];
        for entry in git_acts_on!().split(',').chain(GitDirectory::MARKERS) {
            check(&layout, entry, Some(GitEntry::Existing));
            check(&["HEAD", "commondir"], entry, Some(GitEntry::Existing));
            check(&layout, &entry.to_uppercase(), Some(GitEntry::Existing));
        }
        for entry in ["README", "description", "configs", "main", "head.txt"] {
            check(&layout, entry, None);
        }
    }

    #[test]
    fn spellings_that_a_volume_takes_for_the_same_name_count() {
        for (entries, last) in [
            (["head", "Objects"], "REFS"),
            (["HEAD", "objects"], "ref\u{17f}"),
            (["HE\u{200b}AD", "objects"], "refs"),
        ] {
            check(&entries, last, Some(GitEntry::Completing));
        }
        let layout = ["HEAD", "objects", "refs"];
        for entry in ["Hoo\u{212a}s", "con\u{fb01}g", "in\u{200d}fo"] {
            check(&layout, entry, Some(GitEntry::Existing));
        }
    }

    #[test]
    fn words_of_records_are_read_back() {
        for entry in [GitEntry::Existing, GitEntry::Completing] {
            assert_eq!(GitEntry::from_word(entry.as_str()), Some(entry));
        }
        assert_eq!(GitEntry::from_word("none"), None);
    }
}
