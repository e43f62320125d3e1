//! Path patterns compiled, each with the line it stands on.
//!
//! `*` never crosses `/`, and `dir/**` covers `dir` itself. A rule that forbids matches the pattern as it is
//! written and with the links in its plain part followed, so that it holds whichever of the two names a caller
//! uses; links are followed once, when the policy is read. A rule that allows follows only links that belong to
//! root (`/tmp` on a Mac, `/home` on some systems): one that the agent could have made must not widen it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};
use tool::RuleRef;

use crate::name::{Name, fold};
use crate::pattern::{BadPattern, Pattern};
use crate::surroundings::FileNames;

/// A list of patterns, compiled.
#[derive(Debug)]
pub(crate) struct PathGlobs {
    set: GlobSet,
    /// The rule of each compiled glob, in the order of the set.
    rules: Vec<RuleRef>,
    case: Case,
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
    set: GlobSetBuilder,
    rules: Vec<RuleRef>,
}

impl PathGlobsBuilder {
    pub(crate) fn new(purpose: Purpose, names: FileNames) -> Self {
        PathGlobsBuilder { purpose, names, set: GlobSetBuilder::new(), rules: Vec::new() }
    }

    /// Adds a pattern in every spelling its purpose asks for.
    pub(crate) fn add(&mut self, pattern: &Pattern, rule: &RuleRef) -> Result<(), BadPattern> {
        let (literal, rest) = pattern.literal_part();
        let resolved = match self.purpose {
            Purpose::Allow => follow(&literal, belongs_to_root),
            Purpose::Forbid => follow(&literal, |_| true),
        };
        self.add_spelling(pattern, rule)?;
        if resolved != literal {
            self.add_spelling(&pattern.moved_to(&resolved, rest), rule)?;
        }
        Ok(())
    }

    fn add_spelling(&mut self, pattern: &Pattern, rule: &RuleRef) -> Result<(), BadPattern> {
        let texts = match self.purpose {
            Purpose::Allow => pattern.with_folder_itself(),
            Purpose::Forbid => pattern.with_everything_below(),
        };
        for text in texts {
            let text = match self.case() {
                Case::Kept => text,
                Case::Folded => fold(&text),
            };
            let built = GlobBuilder::new(&text).literal_separator(true).build();
            let glob = built.map_err(|error| BadPattern {
                message: format!("the pattern cannot be read: {}", error.kind()),
                suggestion: None,
            })?;
            self.set.add(glob);
            self.rules.push(rule.clone());
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
        let set = self.set.build().map_err(|error| BadPattern {
            message: format!("the patterns cannot be compiled together: {error}"),
            suggestion: Some("use fewer or simpler patterns".to_owned()),
        })?;
        Ok(PathGlobs { set, rules: self.rules, case })
    }
}

impl PathGlobs {
    /// The first rule, in the order of the file, that matches.
    pub(crate) fn first_match(&self, name: &Name) -> Option<&RuleRef> {
        if self.rules.is_empty() {
            return None;
        }
        let folded = match self.case {
            Case::Kept => None,
            Case::Folded => Some(name.folded()),
        };
        let candidate = Candidate::new(folded.as_ref().unwrap_or(name).as_path());
        let first = self.set.matches_candidate(&candidate).into_iter().min()?;
        self.rules.get(first)
    }
}

/// Where an allowing pattern would lead if it followed every link, when that differs from where it does lead.
pub(crate) fn ignored_link(pattern: &Pattern) -> Option<PathBuf> {
    let (literal, _) = pattern.literal_part();
    let whole = follow(&literal, |_| true);
    (whole != follow(&literal, belongs_to_root)).then_some(whole)
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
