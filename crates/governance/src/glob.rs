//! Compiled lists of path patterns, each pattern with its line in the policy file.
//!
//! `*` does not match `/`, and `dir/**` also matches `dir`. A forbidding list matches each pattern as written
//! and with the symbolic links in its literal prefix resolved, so that it applies to both names. Links are
//! resolved once, when the policy is loaded. An allowing list resolves only links owned by root (`/tmp` on
//! macOS, `/home` on some systems), because a link that the agent created must not widen it.

mod part;
mod tree;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tool::RuleRef;

pub(crate) use self::part::alternatives;
pub(crate) use self::tree::{Tree, TreeBuilder};
use crate::name::{Name, fold};
use crate::pattern::{BadPattern, Pattern};
use crate::surroundings::FileNames;

/// Compiled list of path patterns.
#[derive(Debug)]
pub struct PathGlobs {
    /// Every form of each pattern, with the index of the pattern in the list.
    tree: Tree,
    /// Patterns as written, in file order.
    written: Vec<Written>,
    /// Paths that are listed without wildcards or as `dir/**`, with links resolved.
    outright: Vec<PathBuf>,
    case: Case,
}

/// Pattern as written, and its rule.
#[derive(Clone, Debug)]
pub struct Written {
    /// Text in the policy file.
    pub text: String,
    /// Pattern with its variables expanded.
    pub pattern: Pattern,
    /// Location in the policy file.
    pub rule: RuleRef,
    /// Part of the pattern before its first wildcard, with links resolved as its list does. All matches are
    /// below it.
    pub plain_part: PathBuf,
}

impl Written {
    /// Returns the pattern with the links in its literal prefix resolved; `None` if that does not change it.
    pub fn as_it_leads(&self) -> Option<Pattern> {
        let (literal, rest) = self.pattern.literal_part();
        (self.plain_part != literal).then(|| self.pattern.moved_to(&self.plain_part, rest))
    }
}

/// Case handling when names are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Kept,
    Folded,
}

/// Purpose of a list of patterns, which decides how widely each pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Matched narrowly.
    Allow,
    /// Matched widely.
    Forbid,
}

/// Builder of `PathGlobs`.
pub(crate) struct PathGlobsBuilder {
    purpose: Purpose,
    names: FileNames,
    tree: TreeBuilder,
    written: Vec<Written>,
    outright: Vec<PathBuf>,
}

impl PathGlobsBuilder {
    pub(crate) fn new(purpose: Purpose, names: FileNames) -> Self {
        PathGlobsBuilder {
            purpose,
            names,
            tree: TreeBuilder::new(),
            written: Vec::new(),
            outright: Vec::new(),
        }
    }

    /// Adds a pattern in every form that the purpose of the list requires.
    pub(crate) fn add(&mut self, text: &str, pattern: &Pattern, rule: &RuleRef) -> Result<(), BadPattern> {
        let (literal, rest) = pattern.literal_part();
        let resolved = match self.purpose {
            Purpose::Allow => follow(&literal, belongs_to_root),
            Purpose::Forbid => follow(&literal, |_| true),
        };
        if matches!(rest, "" | "**") {
            self.outright.push(resolved.clone());
        }
        let written = Written {
            text: text.to_owned(),
            pattern: pattern.clone(),
            rule: rule.clone(),
            plain_part: resolved,
        };
        let source = self.written.len();
        self.add_spelling(pattern, source)?;
        if let Some(leads) = written.as_it_leads() {
            self.add_spelling(&leads, source)?;
        }
        self.written.push(written);
        Ok(())
    }

    fn add_spelling(&mut self, pattern: &Pattern, source: usize) -> Result<(), BadPattern> {
        let texts = match self.purpose {
            Purpose::Allow => pattern.with_folder_itself(),
            Purpose::Forbid => pattern.with_everything_below(),
        };
        for text in texts {
            let text = match self.case() {
                Case::Kept => text,
                Case::Folded => fold(&text),
            };
            self.tree.add(&text, source)?;
        }
        Ok(())
    }

    /// Allowing lists compare exactly; forbidding lists ignore case if the file system does.
    fn case(&self) -> Case {
        match (self.purpose, self.names) {
            (Purpose::Forbid, FileNames::CaseInsensitive) => Case::Folded,
            (Purpose::Allow, _) | (Purpose::Forbid, FileNames::CaseSensitive) => Case::Kept,
        }
    }

    pub(crate) fn build(self) -> Result<PathGlobs, BadPattern> {
        let case = self.case();
        let tree = self.tree.build()?;
        Ok(PathGlobs { tree, written: self.written, outright: self.outright, case })
    }
}

impl PathGlobs {
    /// Returns a list that matches nothing.
    pub(crate) fn none() -> Self {
        PathGlobs { tree: Tree::empty(), written: Vec::new(), outright: Vec::new(), case: Case::Kept }
    }

    /// Returns the folders that are listed as `dir/**`.
    pub(crate) fn whole_folders(&self) -> Vec<PathBuf> {
        let whole = self.written.iter().filter(|written| written.pattern.literal_part().1 == "**");
        whole.map(|written| written.plain_part.clone()).collect()
    }

    /// Returns the paths that are listed without wildcards or as `dir/**`, with links resolved.
    pub(crate) fn outright(&self) -> &[PathBuf] {
        &self.outright
    }

    /// Returns the rule of the first pattern in file order that matches.
    pub(crate) fn first_match(&self, name: &Name) -> Option<&RuleRef> {
        self.find(name).map(|written| &written.rule)
    }

    /// Returns the first pattern in file order that matches.
    pub(crate) fn find(&self, name: &Name) -> Option<&Written> {
        if self.written.is_empty() {
            return None;
        }
        let folded = match self.case {
            Case::Kept => None,
            Case::Folded => Some(name.folded()),
        };
        let name = folded.as_ref().unwrap_or(name).as_path();
        self.written.get(self.tree.first(name.as_os_str().as_bytes())?)
    }

    /// Returns true if a pattern matches the path; false for a path that is not canonical.
    pub fn matches(&self, path: &Path) -> bool {
        Name::canonical(path).is_some_and(|name| self.find(&name).is_some())
    }

    /// Returns the patterns as written, in file order.
    pub fn written(&self) -> &[Written] {
        &self.written
    }

    /// Returns the patterns before the one that matched; all of them if none matched.
    pub(crate) fn before(&self, found: Option<&Written>) -> impl Iterator<Item = (&RuleRef, String)> {
        // Compared by identity, because the patterns on one line share their rule.
        let is_found = move |written: &&Written| found.is_some_and(|found| std::ptr::eq(found, *written));
        let skipped = self.written.iter().take_while(move |written| !is_found(written));
        skipped.map(|written| (&written.rule, written.text.clone()))
    }
}

/// Returns the path that an allowing pattern would lead to with every link resolved, if an ignored link makes
/// a difference.
pub(crate) fn ignored_link(pattern: &Pattern) -> Option<PathBuf> {
    let (literal, _) = pattern.literal_part();
    let whole = follow(&literal, |_| true);
    (whole != follow(&literal, belongs_to_root)).then_some(whole)
}

/// Resolves the links in a path that are owned by root, and no others.
pub(crate) fn system_name(path: &Path) -> PathBuf {
    follow(path, belongs_to_root)
}

fn belongs_to_root(link: &Path) -> bool {
    fs::symlink_metadata(link).is_ok_and(|facts| facts.uid() == 0)
}

/// Resolves the links in the existing part of a path and keeps the rest as written. A link that `trusted`
/// rejects is not resolved.
fn follow(path: &Path, trusted: impl Fn(&Path) -> bool) -> PathBuf {
    let mut real = PathBuf::from("/");
    let mut left = 40; // the kernel's own limit of links in one path
    let mut rest: Vec<_> = path.iter().skip(1).map(ToOwned::to_owned).collect();
    rest.reverse();
    while let Some(part) = rest.pop() {
        if part == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&part);
        match fs::read_link(&next) {
            Ok(target) if left > 0 && trusted(&next) => {
                left -= 1;
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                rest.extend(target.iter().filter(|p| *p != "/" && *p != ".").map(ToOwned::to_owned).rev());
            }
            _ => real = next,
        }
    }
    real
}

#[cfg(test)]
mod tests;
