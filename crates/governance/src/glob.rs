//! Compiled lists of path patterns, each pattern with its line in the policy file.
//!
//! `*` does not match `/`, and `dir/**` also matches `dir`. A forbidding list matches each pattern as written
//! and with the symbolic links in its literal prefix resolved, so that it applies to both names. Links are
//! resolved once, when the policy is loaded. An allowing list resolves only links owned by root (`/tmp` on
//! macOS, `/home` on some systems), because a link that the agent created must not widen it.

mod pattern_trie;
mod simple_component;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tool::RuleRef;

pub(crate) use self::pattern_trie::{PatternTrie, PatternTrieBuilder, TriePosition};
pub(crate) use self::simple_component::brace_alternatives;
use crate::normalized_path::{NormalizedPath, fold_case};
use crate::pattern::{PathPattern, PatternError};
use crate::policy_environment::{NameComparison, PathVariables};

/// Compiled list of path patterns.
#[derive(Clone, Debug)]
pub struct PathGlobs {
    /// Every form of each pattern, with the index of the pattern in the list.
    trie: PatternTrie,
    /// Patterns as written, in file order.
    patterns: Vec<ListedPattern>,
    /// Paths that are listed without wildcards or as `dir/**`, with links resolved.
    literal_paths: Vec<PathBuf>,
    case: CaseMatching,
}

/// Pattern as written, and its rule.
#[derive(Clone, Debug)]
pub struct ListedPattern {
    /// Text in the policy file.
    pub text: String,
    /// Pattern with its variables expanded.
    pub pattern: PathPattern,
    /// Location in the policy file.
    pub rule: RuleRef,
    /// Part of the pattern before its first wildcard, with links resolved as its list does. All matches are
    /// below it.
    pub literal_prefix: PathBuf,
}

impl ListedPattern {
    /// Returns the pattern with the links in its literal prefix resolved; `None` if that does not change it.
    pub fn with_links_resolved(&self) -> Option<PathPattern> {
        let (literal, rest) = self.pattern.literal_prefix();
        (self.literal_prefix != literal).then(|| self.pattern.with_base(&self.literal_prefix, rest))
    }
}

/// Case handling when names are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaseMatching {
    Exact,
    Folded,
}

/// Purpose of a list of patterns, which decides how widely each pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListPurpose {
    /// Matched narrowly.
    Allow,
    /// Matched widely.
    Forbid,
}

/// Builder of `PathGlobs`.
pub(crate) struct PathGlobsBuilder {
    purpose: ListPurpose,
    file_names: NameComparison,
    trie: PatternTrieBuilder,
    patterns: Vec<ListedPattern>,
    literal_paths: Vec<PathBuf>,
}

impl PathGlobsBuilder {
    pub(crate) fn new(purpose: ListPurpose, names: NameComparison) -> Self {
        PathGlobsBuilder {
            purpose,
            file_names: names,
            trie: PatternTrieBuilder::new(),
            patterns: Vec::new(),
            literal_paths: Vec::new(),
        }
    }

    /// Adds a pattern in every form that the purpose of the list requires.
    pub(crate) fn add(
        &mut self,
        text: &str,
        pattern: &PathPattern,
        rule: &RuleRef,
    ) -> Result<(), PatternError> {
        let (literal, rest) = pattern.literal_prefix();
        let resolved = match self.purpose {
            ListPurpose::Allow => resolve_links(&literal, is_owned_by_root),
            ListPurpose::Forbid => resolve_links(&literal, |_| true),
        };
        if matches!(rest, "" | "**") {
            self.literal_paths.push(resolved.clone());
        }
        let written = ListedPattern {
            text: text.to_owned(),
            pattern: pattern.clone(),
            rule: rule.clone(),
            literal_prefix: resolved,
        };
        let source = self.patterns.len();
        self.add_form(pattern, source)?;
        if let Some(leads) = written.with_links_resolved() {
            self.add_form(&leads, source)?;
        }
        self.patterns.push(written);
        Ok(())
    }

    fn add_form(&mut self, pattern: &PathPattern, source: usize) -> Result<(), PatternError> {
        let texts = match self.purpose {
            ListPurpose::Allow => pattern.texts_with_folder(),
            ListPurpose::Forbid => pattern.texts_with_descendants(),
        };
        for text in texts {
            let text = match self.case_matching() {
                CaseMatching::Exact => text,
                CaseMatching::Folded => fold_case(&text),
            };
            self.trie.add(&text, source)?;
        }
        Ok(())
    }

    /// Returns the case matching of the list. Allowing lists compare exactly. Forbidding lists ignore case if
    /// the file system does.
    fn case_matching(&self) -> CaseMatching {
        match (self.purpose, self.file_names) {
            (ListPurpose::Forbid, NameComparison::CaseInsensitive) => CaseMatching::Folded,
            (ListPurpose::Allow, _) | (ListPurpose::Forbid, NameComparison::CaseSensitive) => {
                CaseMatching::Exact
            }
        }
    }

    pub(crate) fn build(self) -> Result<PathGlobs, PatternError> {
        let case = self.case_matching();
        let tree = self.trie.build()?;
        Ok(PathGlobs { trie: tree, patterns: self.patterns, literal_paths: self.literal_paths, case })
    }
}

impl PathGlobs {
    /// Returns a list that matches nothing.
    pub(crate) fn empty() -> Self {
        PathGlobs {
            trie: PatternTrie::empty(),
            patterns: Vec::new(),
            literal_paths: Vec::new(),
            case: CaseMatching::Exact,
        }
    }

    /// Compiles one pattern as an allowing list does, for a question about names.
    pub fn of_pattern(text: &str, variables: &PathVariables) -> Result<PathGlobs, PatternError> {
        let pattern = PathPattern::parse(text, variables)?;
        let mut builder = PathGlobsBuilder::new(ListPurpose::Allow, NameComparison::CaseSensitive);
        builder.add(text, &pattern, &RuleRef { file: "question".into(), line: 0, id: "question".into() })?;
        builder.build()
    }

    pub(crate) fn trie(&self) -> &PatternTrie {
        &self.trie
    }

    /// Returns true if names are compared without case.
    pub(crate) fn is_folded(&self) -> bool {
        self.case == CaseMatching::Folded
    }

    /// Returns the list of the folders above the matched paths. A write that creates its folders may create
    /// these, because without them nothing that matches could exist.
    pub(crate) fn parent_folders(&self) -> Result<PathGlobs, PatternError> {
        let mut builder = PathGlobsBuilder::new(ListPurpose::Allow, NameComparison::CaseSensitive);
        for written in &self.patterns {
            for pattern in written.with_links_resolved().iter().chain([&written.pattern]) {
                for folder in pattern.parent_patterns() {
                    builder.add(&written.text, &folder, &written.rule)?;
                }
            }
        }
        builder.build()
    }

    /// Returns the folders that are listed as `dir/**`.
    pub(crate) fn whole_folders(&self) -> Vec<PathBuf> {
        let whole = self.patterns.iter().filter(|written| written.pattern.literal_prefix().1 == "**");
        whole.map(|written| written.literal_prefix.clone()).collect()
    }

    /// Returns the paths that are listed without wildcards or as `dir/**`, with links resolved.
    pub(crate) fn literal_paths(&self) -> &[PathBuf] {
        &self.literal_paths
    }

    /// Returns the rule of the first pattern in file order that matches.
    pub(crate) fn first_match(&self, name: &NormalizedPath) -> Option<&RuleRef> {
        self.find(name).map(|written| &written.rule)
    }

    /// Returns the first pattern in file order that matches.
    pub(crate) fn find(&self, name: &NormalizedPath) -> Option<&ListedPattern> {
        if self.patterns.is_empty() {
            return None;
        }
        let folded = match self.case {
            CaseMatching::Exact => None,
            CaseMatching::Folded => Some(name.case_folded()),
        };
        let name = folded.as_ref().unwrap_or(name).as_path();
        self.patterns.get(self.trie.first_match(name.as_os_str().as_bytes())?)
    }

    /// Returns true if a pattern matches the path; false for a path that is not canonical.
    pub fn matches(&self, path: &Path) -> bool {
        NormalizedPath::canonical(path).is_some_and(|name| self.find(&name).is_some())
    }

    /// Returns the patterns as written, in file order.
    pub fn patterns(&self) -> &[ListedPattern] {
        &self.patterns
    }

    /// Returns the patterns before the one that matched; all of them if none matched.
    pub(crate) fn patterns_before(
        &self,
        found: Option<&ListedPattern>,
    ) -> impl Iterator<Item = (&RuleRef, String)> {
        // Compared by identity, because the patterns on one line share their rule.
        let is_found =
            move |written: &&ListedPattern| found.is_some_and(|found| std::ptr::eq(found, *written));
        let skipped = self.patterns.iter().take_while(move |written| !is_found(written));
        skipped.map(|written| (&written.rule, written.text.clone()))
    }
}

/// Returns the path that an allowing pattern would lead to with every link resolved, if an ignored link makes
/// a difference.
pub(crate) fn ignored_link_target(pattern: &PathPattern) -> Option<PathBuf> {
    let (literal, _) = pattern.literal_prefix();
    let whole = resolve_links(&literal, |_| true);
    (whole != resolve_links(&literal, is_owned_by_root)).then_some(whole)
}

/// Resolves the links in a path that are owned by root, and no others.
pub(crate) fn resolve_root_links(path: &Path) -> PathBuf {
    resolve_links(path, is_owned_by_root)
}

fn is_owned_by_root(link: &Path) -> bool {
    fs::symlink_metadata(link).is_ok_and(|facts| facts.uid() == 0)
}

/// Resolves the links in the existing part of a path and keeps the rest as written. A link that `trusted`
/// rejects is not resolved.
fn resolve_links(path: &Path, is_trusted: impl Fn(&Path) -> bool) -> PathBuf {
    let mut real = PathBuf::from("/");
    let mut links_left = 40; // the kernel's own limit of links in one path
    let mut rest: Vec<_> = path.iter().skip(1).map(ToOwned::to_owned).collect();
    rest.reverse();
    while let Some(part) = rest.pop() {
        if part == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&part);
        match fs::read_link(&next) {
            Ok(target) if links_left > 0 && is_trusted(&next) => {
                links_left -= 1;
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
