//! Search for paths: one path for each position that names can have in the path lists of a policy.

use std::collections::{HashSet, VecDeque};
use std::path::Path;

use governance::Workspaces;
use governance::dry_run::ProgramAccess;
use governance::rules::{EffectivePolicy, PathGlobs, PatternError};
use governance::rules::{NameLists, NameRelevance};

use super::Incomplete;
use super::component_names::representatives;

/// Most positions of one search.
const MAX_POSITIONS: usize = 100_000;

/// Paths that represent all paths for some tools.
pub(super) struct NameSearch<'p> {
    lists: NameLists<'p>,
    /// Number of the list with the paths in question.
    question: usize,
}

impl<'p> NameSearch<'p> {
    /// Creates a search for paths in question, as the tools are judged. `forbidding` is the relevance of the lists of
    /// forbidden paths.
    pub(super) fn new(
        tools: &[&EffectivePolicy<'p>],
        workspaces: &[&Workspaces],
        question: &'p PathGlobs,
        forbidding: NameRelevance,
    ) -> Result<Self, Incomplete> {
        let mut lists = NameLists::default();
        let question = lists.add(question, NameRelevance::Sought);
        tools.iter().try_for_each(|tool| lists.add_tool(tool, forbidding)).map_err(incomplete)?;
        workspaces.iter().try_for_each(|list| lists.add_workspaces(list)).map_err(incomplete)?;
        Ok(NameSearch { lists, question })
    }

    /// Adds the folders of programs.
    pub(super) fn with_program_folders(mut self, programs: &[&ProgramAccess]) -> Result<Self, Incomplete> {
        for folder in programs.iter().flat_map(|program| program.folders()) {
            self.lists.add_folder(folder, NameRelevance::Sought).map_err(incomplete)?;
        }
        Ok(self)
    }

    /// Returns one path in question for each position. Shorter paths come first.
    pub(super) fn paths(&self) -> Result<Vec<String>, Incomplete> {
        let components = representatives(self.lists.patterns())?;
        let start = self.lists.start();
        let (mut seen, mut found) = (HashSet::from([start.clone()]), Vec::new());
        let mut queue = VecDeque::from([(start, String::new())]);
        while let Some((position, path)) = queue.pop_front() {
            if self.lists.matches(&position, self.question) {
                found.push(if path.is_empty() { "/".to_owned() } else { path.clone() });
            }
            for component in &components {
                let next = self.lists.enter(&position, component);
                if self.lists.may_match_below(&next, self.question) && seen.insert(next.clone()) {
                    if seen.len() > MAX_POSITIONS {
                        return Err(Incomplete("the path lists have too many combinations".to_owned()));
                    }
                    queue.push_back((next, format!("{path}/{component}")));
                }
            }
        }
        Ok(found)
    }

    /// Returns the first path in question that a program may access.
    pub(super) fn find(&self, is_match: impl Fn(&Path) -> bool) -> Result<Option<String>, Incomplete> {
        Ok(self.paths()?.into_iter().find(|path| is_match(Path::new(path))))
    }
}

pub(super) fn incomplete(error: PatternError) -> Incomplete {
    Incomplete(error.message)
}
