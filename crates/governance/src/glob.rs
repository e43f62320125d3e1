//! Path patterns compiled, each with the line it stands on.
//!
//! `*` never crosses `/`, and `dir/**` covers `dir` itself. A rule that forbids matches the pattern as it is
//! written and with the links in its plain part followed, so that it holds whichever of the two names a caller
//! uses; links are followed once, when the policy is read. A rule that allows follows only links that belong to
//! root (`/tmp` on a Mac, `/home` on some systems): one that the agent could have made must not widen it.

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

/// A list of patterns, compiled.
#[derive(Debug)]
pub(crate) struct PathGlobs {
    /// Every spelling, with the place of its pattern in the list.
    tree: Tree,
    /// The patterns as they are written, in the order of the file.
    written: Vec<Written>,
    /// What is listed by its plain name, with everything below it, and with the links in it followed.
    outright: Vec<PathBuf>,
    case: Case,
}

/// A pattern as it is written, and where.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) text: String,
    pub(crate) pattern: Pattern,
    pub(crate) rule: RuleRef,
    /// The folder or file below which everything lies that it matches, with the links in it followed as its list does.
    pub(crate) plain_part: PathBuf,
}

impl Written {
    /// The same with the links in its plain part followed, where that is another pattern.
    pub(crate) fn as_it_leads(&self) -> Option<Pattern> {
        let (literal, rest) = self.pattern.literal_part();
        (self.plain_part != literal).then(|| self.pattern.moved_to(&self.plain_part, rest))
    }
}

/// Whether names are compared with their case taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Kept,
    Folded,
}

/// What a list of patterns is for, which decides how widely each is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Read narrowly.
    Allow,
    /// Read widely.
    Forbid,
}

/// Collects patterns for one list.
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

    /// Adds a pattern in every spelling its purpose asks for.
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

    /// What is allowed is compared as it is written; what is forbidden, as widely as the system does.
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
    /// A list that matches nothing.
    pub(crate) fn none() -> Self {
        PathGlobs { tree: Tree::empty(), written: Vec::new(), outright: Vec::new(), case: Case::Kept }
    }

    /// The folders that are listed with everything in them.
    pub(crate) fn whole_folders(&self) -> Vec<PathBuf> {
        let whole = self.written.iter().filter(|written| written.pattern.literal_part().1 == "**");
        whole.map(|written| written.plain_part.clone()).collect()
    }

    /// What is listed by its plain name, with everything below it, and with the links in it followed.
    pub(crate) fn outright(&self) -> &[PathBuf] {
        &self.outright
    }

    /// The rule of the first pattern, in the order of the file, that matches.
    pub(crate) fn first_match(&self, name: &Name) -> Option<&RuleRef> {
        self.find(name).map(|written| &written.rule)
    }

    /// The first pattern, in the order of the file, that matches.
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

    /// The patterns as they are written, in the order of the file.
    pub(crate) fn written(&self) -> &[Written] {
        &self.written
    }

    /// Those that were looked at in vain before this one was found; all of them if none was.
    pub(crate) fn before(&self, found: Option<&Written>) -> impl Iterator<Item = (&RuleRef, String)> {
        // By its place in the list: the patterns of one line share their rule.
        let is_found = move |written: &&Written| found.is_some_and(|found| std::ptr::eq(found, *written));
        let skipped = self.written.iter().take_while(move |written| !is_found(written));
        skipped.map(|written| (&written.rule, written.text.clone()))
    }
}

/// Where an allowing pattern would lead if it followed every link, when that differs from where it does lead.
pub(crate) fn ignored_link(pattern: &Pattern) -> Option<PathBuf> {
    let (literal, _) = pattern.literal_part();
    let whole = follow(&literal, |_| true);
    (whole != follow(&literal, belongs_to_root)).then_some(whole)
}

/// The name of a path with root's links in it followed, and no others.
pub(crate) fn system_name(path: &Path) -> PathBuf {
    follow(path, belongs_to_root)
}

fn belongs_to_root(link: &Path) -> bool {
    fs::symlink_metadata(link).is_ok_and(|facts| facts.uid() == 0)
}

/// The name of the deepest existing part of a path with its links followed, and the rest as written. A link that
/// `trusted` does not accept is left as it is.
fn follow(path: &Path, trusted: impl Fn(&Path) -> bool) -> PathBuf {
    let mut real = PathBuf::from("/");
    let mut left = 40; // what the kernel follows before it gives up
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
