//! Representative calls of one tool: every combination of paths, commands and hosts that the rules can tell apart.

use std::collections::BTreeSet;

use governance::Workspaces;
use governance::policy_environment::PathVariables;
use governance::rules::NameRelevance;
use governance::rules::{EffectivePolicy, HostPattern, PathGlobs};
use tool::Arguments;
use tool::definition::{ExternalTargetKind, PathAccess};

use super::calls::ToolCalls;
use super::name_search::{NameSearch, incomplete};
use super::{Incomplete, commands, hosts};

/// Most calls of one search.
const MAX_CASES: usize = 200_000;

/// Source of representative calls, for one policy or for two that are compared.
pub(super) struct CaseSource<'s, 'p> {
    pub(super) calls: &'s ToolCalls,
    pub(super) tools: &'s [&'s EffectivePolicy<'p>],
    pub(super) workspaces: &'s [&'s Workspaces],
    /// Relevance of forbidden paths: in a comparison of two policies, one may deny what the other permits.
    pub(super) forbidding: NameRelevance,
}

/// Target that a question fixes.
pub(super) enum CaseTarget<'q> {
    /// None: every call.
    Anything,
    /// Paths of the arguments with one of these accesses.
    Paths(&'q [PathAccess], &'q PathGlobs),
    Command(&'q [String]),
    Host(&'q HostPattern),
}

impl CaseSource<'_, '_> {
    /// Returns the calls with a target.
    pub(super) fn cases(&self, target: &CaseTarget<'_>) -> Result<Vec<Arguments>, Incomplete> {
        let mut cases = Vec::new();
        match target {
            CaseTarget::Anything => {
                self.complete(self.calls.fixed(), None, &mut cases)?;
                self.add_optional_targets(&mut cases)?;
            }
            CaseTarget::Paths(accesses, globs) => {
                let paths = NameSearch::new(self.tools, self.workspaces, globs, self.forbidding)?.paths()?;
                let arguments = self.calls.definition.path_arguments().iter();
                for argument in arguments.filter(|argument| accesses.contains(&argument.access)) {
                    self.add_paths(&argument.key, &paths, &mut cases)?;
                }
            }
            CaseTarget::Command(words) => {
                let commands = commands::representatives(self.tools, words)?;
                for key in self.keys(ExternalTargetKind::Command) {
                    self.add_commands(key, &commands, &mut cases)?;
                }
            }
            CaseTarget::Host(pattern) => {
                let hosts = hosts::representatives(self.tools, pattern);
                for key in self.keys(ExternalTargetKind::Url) {
                    self.add_hosts(key, &hosts, &mut cases)?;
                }
            }
        }
        Ok(cases)
    }

    /// Adds calls with each argument that need not be given.
    fn add_optional_targets(&self, cases: &mut Vec<Arguments>) -> Result<(), Incomplete> {
        let any = any_path()?;
        let paths = || NameSearch::new(self.tools, self.workspaces, &any, self.forbidding)?.paths();
        let definition = &self.calls.definition;
        for argument in definition.path_arguments().iter().filter(|one| !self.calls.requires(&one.key)) {
            self.add_paths(&argument.key, &paths()?, cases)?;
        }
        for key in self.keys(ExternalTargetKind::Command).filter(|key| !self.calls.requires(key)) {
            self.add_commands(key, &commands::representatives(self.tools, &[])?, cases)?;
        }
        for key in self.keys(ExternalTargetKind::Url).filter(|key| !self.calls.requires(key)) {
            self.add_hosts(key, &hosts::representatives(self.tools, &HostPattern::Any), cases)?;
        }
        Ok(())
    }

    fn keys(&self, kind: ExternalTargetKind) -> impl Iterator<Item = &str> {
        let targets = self.calls.definition.external_target_arguments().iter();
        targets.filter(move |target| target.kind == kind).map(|target| target.key.as_str())
    }

    fn add_paths(&self, key: &str, paths: &[String], cases: &mut Vec<Arguments>) -> Result<(), Incomplete> {
        paths.iter().try_for_each(|path| {
            let mut arguments = self.calls.fixed();
            self.calls.set_path(&mut arguments, key, path);
            self.complete(arguments, Some(path), cases)
        })
    }

    fn add_commands(
        &self,
        key: &str,
        commands: &[Vec<String>],
        cases: &mut Vec<Arguments>,
    ) -> Result<(), Incomplete> {
        commands.iter().try_for_each(|words| {
            let mut arguments = self.calls.fixed();
            match self.calls.set_command(&mut arguments, key, words) {
                Some(()) => self.complete(arguments, None, cases),
                None => Ok(()),
            }
        })
    }

    fn add_hosts(&self, key: &str, hosts: &[String], cases: &mut Vec<Arguments>) -> Result<(), Incomplete> {
        hosts.iter().try_for_each(|host| {
            let mut arguments = self.calls.fixed();
            self.calls.set_host(&mut arguments, key, host);
            self.complete(arguments, None, cases)
        })
    }

    /// Adds the call with every combination of the required arguments that are still missing.
    fn complete(
        &self,
        arguments: Arguments,
        path: Option<&str>,
        cases: &mut Vec<Arguments>,
    ) -> Result<(), Incomplete> {
        if cases.len() >= MAX_CASES {
            return Err(Incomplete("the rules have too many combinations".to_owned()));
        }
        let definition = &self.calls.definition;
        let is_missing = |key: &str| self.calls.requires(key) && !arguments.contains_key(key);
        if let Some(missing) = definition.path_arguments().iter().find(|one| is_missing(&one.key)) {
            // Another path of the call is best where the path in question is; else it may be anywhere.
            let others = match path {
                Some(path) => [vec![path.to_owned()], self.other_paths()?].concat(),
                None => self.other_paths()?,
            };
            return others.iter().collect::<BTreeSet<_>>().into_iter().try_for_each(|other| {
                let mut arguments = arguments.clone();
                self.calls.set_path(&mut arguments, &missing.key, other);
                self.complete(arguments, path, cases)
            });
        }
        let targets = definition.external_target_arguments().iter();
        let Some(missing) = targets.into_iter().find(|one| is_missing(&one.key)) else {
            cases.push(arguments);
            return Ok(());
        };
        let mut add = |set: &dyn Fn(&mut Arguments) -> Option<()>| {
            let mut arguments = arguments.clone();
            set(&mut arguments).map_or(Ok(()), |()| self.complete(arguments, path, cases))
        };
        match missing.kind {
            ExternalTargetKind::Command => {
                commands::representatives(self.tools, &[])?.iter().try_for_each(|words| {
                    add(&|arguments| self.calls.set_command(arguments, &missing.key, words))
                })
            }
            ExternalTargetKind::Url => {
                hosts::representatives(self.tools, &HostPattern::Any).iter().try_for_each(|host| {
                    add(&|arguments| {
                        self.calls.set_host(arguments, &missing.key, host);
                        Some(())
                    })
                })
            }
        }
    }

    fn other_paths(&self) -> Result<Vec<String>, Incomplete> {
        NameSearch::new(self.tools, self.workspaces, &any_path()?, self.forbidding)?.paths()
    }
}

/// Returns the list that matches every path.
pub(super) fn any_path() -> Result<PathGlobs, Incomplete> {
    PathGlobs::of_pattern("/**", &PathVariables::default()).map_err(incomplete)
}
