//! Positions of a name in all path lists that decide about it.
//!
//! Two names at the same position are decided alike, and so are their continuations. A search over positions is
//! therefore complete, although there are infinitely many names. Nothing here decides on a call.

use std::path::Path;

use crate::built_in_denials;
use crate::effective_policy::EffectivePolicy;
use crate::glob::{PathGlobs, PatternTrie, PatternTrieBuilder, TriePosition};
use crate::normalized_path::fold_case;
use crate::pattern::{PathPattern, PatternError};
use crate::situation::{Workspace, Workspaces};

/// Path lists of a search.
#[derive(Default)]
pub struct NameLists<'p> {
    lists: Vec<NameList<'p>>,
    patterns: Vec<SearchedPattern>,
}

/// Position of a name in every list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListPosition(Vec<TriePosition>);

/// Pattern of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchedPattern {
    /// Absolute pattern with its variables expanded.
    pub text: String,
    /// True if it is compared without case.
    pub is_folded: bool,
    /// Purpose of a match in the search.
    pub relevance: NameRelevance,
}

/// Purpose of a match in a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRelevance {
    /// A match may help, as in an allowing list, or its effect is not known.
    Sought,
    /// A match can only deny.
    Avoided,
}

struct NameList<'p> {
    trie: TrieSource<'p>,
    is_folded: bool,
}

enum TrieSource<'p> {
    OfPolicy(&'p PatternTrie),
    OfSearch(PatternTrie),
}

impl NameList<'_> {
    fn trie(&self) -> &PatternTrie {
        match &self.trie {
            TrieSource::OfPolicy(trie) => trie,
            TrieSource::OfSearch(trie) => trie,
        }
    }
}

impl<'p> NameLists<'p> {
    /// Adds a list, and returns its number.
    pub fn add(&mut self, globs: &'p PathGlobs, relevance: NameRelevance) -> usize {
        let is_folded = globs.is_folded();
        for written in globs.patterns() {
            for pattern in written.with_links_resolved().iter().chain([&written.pattern]) {
                self.patterns.push(SearchedPattern { text: pattern.to_string(), is_folded, relevance });
            }
        }
        self.lists.push(NameList { trie: TrieSource::OfPolicy(globs.trie()), is_folded });
        self.lists.len() - 1
    }

    /// Adds every list that decides about a path of the tool: of the home, of projects, built-in ones and Sinew's
    /// own folders. `forbidding` is the relevance of the lists of forbidden paths.
    pub fn add_tool(
        &mut self,
        tool: &EffectivePolicy<'p>,
        forbidding: NameRelevance,
    ) -> Result<(), PatternError> {
        self.add(tool.forbidden_paths(), forbidding);
        if let Some(rules) = tool.rules {
            if let Some(list) = &rules.allowed_paths {
                self.add(&list.globs, NameRelevance::Sought);
            }
            self.add(&rules.unattended_paths, NameRelevance::Sought);
        }
        for project in tool.policy.projects.iter() {
            self.add_folder(project.root(), NameRelevance::Sought)?;
            let rules = project.effective_policy(tool);
            self.add(rules.forbidden_paths(), forbidding);
            let own = rules.rules.and_then(|rules| rules.allowed_paths.as_ref());
            for list in own.into_iter().chain(project.write_scope()) {
                self.add(&list.globs, NameRelevance::Sought);
            }
        }
        self.add_built_in_denials(tool)?;
        match tool.stricter() {
            Some(stricter) => self.add_tool(&stricter, forbidding),
            None => Ok(()),
        }
    }

    /// Adds the built-in denials and Sinew's own folders.
    fn add_built_in_denials(&mut self, tool: &EffectivePolicy<'p>) -> Result<(), PatternError> {
        let denials = &tool.policy.built_in_denials;
        for trie in denials.tries() {
            self.lists.push(NameList { trie: TrieSource::OfPolicy(trie), is_folded: true });
        }
        let patterns = built_in_denials::tool_patterns();
        self.patterns.extend(patterns.map(|text| SearchedPattern {
            text,
            is_folded: true,
            relevance: NameRelevance::Avoided,
        }));
        for folder in denials.own_folder_names() {
            self.add_folder_as(folder, NameRelevance::Avoided, true)?;
        }
        Ok(())
    }

    /// Adds the workspaces.
    pub fn add_workspaces(&mut self, workspaces: &Workspaces) -> Result<(), PatternError> {
        workspaces
            .iter()
            .map(Workspace::root)
            .try_for_each(|root| self.add_folder(root, NameRelevance::Sought))
    }

    /// Adds a folder with everything below it.
    pub fn add_folder(&mut self, folder: &Path, relevance: NameRelevance) -> Result<(), PatternError> {
        self.add_folder_as(folder, relevance, false)
    }

    fn add_folder_as(
        &mut self,
        folder: &Path,
        relevance: NameRelevance,
        is_folded: bool,
    ) -> Result<(), PatternError> {
        let text = PathPattern::literal(folder);
        let mut builder = PatternTrieBuilder::new();
        builder.add(&text, 0)?;
        builder.add(&format!("{}/**", text.trim_end_matches('/')), 0)?;
        self.lists.push(NameList { trie: TrieSource::OfSearch(builder.build()?), is_folded });
        self.patterns.push(SearchedPattern { text, is_folded, relevance });
        Ok(())
    }

    /// Returns the patterns of all lists.
    pub fn patterns(&self) -> &[SearchedPattern] {
        &self.patterns
    }

    /// Returns the position of the name `/`.
    pub fn start(&self) -> ListPosition {
        ListPosition(self.lists.iter().map(|list| list.trie().start()).collect())
    }

    /// Returns the position of a name with one more component.
    pub fn enter(&self, from: &ListPosition, component: &str) -> ListPosition {
        let folded = fold_case(component);
        let enter = |(list, position): (&NameList<'_>, &TriePosition)| {
            let component = if list.is_folded { &folded } else { component };
            list.trie().enter(position, component)
        };
        ListPosition(self.lists.iter().zip(&from.0).map(enter).collect())
    }

    /// Returns true if the list with this number matches the name.
    pub fn matches(&self, position: &ListPosition, list: usize) -> bool {
        self.lists.get(list).zip(position.0.get(list)).is_some_and(|(list, at)| list.trie().matches_at(at))
    }

    /// Returns true if the list with this number matches the name or may match a name below it.
    pub fn may_match_below(&self, position: &ListPosition, list: usize) -> bool {
        position.0.get(list).is_some_and(|position| !position.is_dead())
    }
}
