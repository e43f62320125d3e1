//! Differences of two policies with a witness for each: calls that become possible, and calls that stop being
//! possible. Built on the same search as the proofs; `compare` lists what no single call shows, such as limits.

use std::path::PathBuf;
use std::sync::Arc;

use governance::files::VerdictKind;
use governance::rules::NameRelevance;
use governance::rules::{Access, EffectivePolicy, ToolApprovals};
use governance::{Policy, Workspaces};
use guardrail::ValidCall;
use serde::Serialize;
use serde_json::Value;
use tool::definition::PathAccess;
use tool::{Mode, RuleRef, ToolDefinition};

use crate::compare::{PolicyDifference, PolicyEffect, compare_policies};

use super::calls::{self, ToolCalls};
use super::cases::{CaseSource, CaseTarget, any_path};
use super::name_search::NameSearch;
use super::witness_search::{deciding_rule, stated_arguments};
use super::{Incomplete, UndecidedTool};

/// Working directory of the calls: outside of every project.
const BASE: &str = "/";

/// Differences of two policies.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PolicyDiff {
    /// Verdicts that change, one call for each tool, mode and kind of change.
    pub changes: Vec<VerdictChange>,
    /// Differences of the rules.
    pub differences: Vec<PolicyDifference>,
    /// Tools whose verdicts are not compared completely.
    pub undecided: Vec<UndecidedTool>,
    /// Number of calls that both policies judged.
    pub judged: u64,
}

/// Call that the two policies decide differently.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerdictChange {
    /// Direction of the change.
    pub effect: PolicyEffect,
    /// Tool name.
    pub tool: String,
    /// Mode in which it is judged.
    pub mode: Mode,
    /// Arguments of the call.
    pub arguments: Value,
    /// Verdict of the first policy.
    pub before: String,
    /// Verdict of the second policy.
    pub after: String,
    /// Rule of the second policy that decides.
    pub rule: Option<RuleRef>,
    /// Effect of the call that its arguments do not show.
    pub detail: Option<String>,
}

/// Compares two policies call by call.
pub fn diff_policies(
    (before, after): (&Policy, &Policy),
    definitions: &[Arc<ToolDefinition>],
    workspaces: &Workspaces,
) -> PolicyDiff {
    let mut diff = PolicyDiff {
        differences: compare_policies((before, after), workspaces, definitions.iter().map(AsRef::as_ref)),
        ..PolicyDiff::default()
    };
    for definition in definitions {
        let mut tool =
            ToolDiff { before, after, workspaces, definition, judged: 0, program_paths: Vec::new() };
        match tool.changes() {
            Ok(changes) => diff.changes.extend(changes),
            Err(Incomplete(reason)) => {
                diff.undecided.push(UndecidedTool { tool: definition.name().to_string(), reason });
            }
        }
        diff.judged += tool.judged;
    }
    diff
}

struct ToolDiff<'a> {
    before: &'a Policy,
    after: &'a Policy,
    workspaces: &'a Workspaces,
    definition: &'a Arc<ToolDefinition>,
    judged: u64,
    program_paths: Vec<ProgramPaths>,
}

/// Folders of programs, to read and to change, under both policies; and the paths to compare.
type ProgramPaths = ([[Vec<PathBuf>; 2]; 2], Vec<String>);

impl ToolDiff<'_> {
    fn changes(&mut self) -> Result<Vec<VerdictChange>, Incomplete> {
        let (one, other) = (
            EffectivePolicy::new(self.before, self.definition),
            EffectivePolicy::new(self.after, self.definition),
        );
        let is_denied = |tool: &EffectivePolicy<'_>, mode: Mode| {
            tool.access(mode, ToolApprovals::Waived).0 == Access::Denied
        };
        let is_open = |mode: &Mode| !is_denied(&one, *mode) || !is_denied(&other, *mode);
        let modes: Vec<Mode> = Mode::ALL.into_iter().filter(is_open).collect();
        if modes.is_empty() {
            return Ok(Vec::new());
        }
        let tool_calls = ToolCalls::new(self.definition)?;
        let source = CaseSource {
            calls: &tool_calls,
            tools: &[&one, &other],
            workspaces: &[self.workspaces],
            forbidding: NameRelevance::Sought,
        };
        let cases = source.cases(&CaseTarget::Anything)?;
        let all = cases.len();
        let cases: Vec<ValidCall> =
            cases.into_iter().filter_map(|case| tool_calls.check(case).ok()).collect();
        let mut found: Vec<VerdictChange> = Vec::new();
        for mode in modes {
            for call in &cases {
                let change = self.verdict_change(call, mode);
                let is_new = |change: &VerdictChange| {
                    let same = |known: &&VerdictChange| {
                        known.mode == mode && known.before == change.before && known.after == change.after
                    };
                    !found.iter().any(|known| same(&known))
                };
                found.extend(change.filter(is_new));
            }
            found.extend(self.program_changes(&cases, mode, (&one, &other))?);
        }
        match found.is_empty() && all > cases.len() {
            true => {
                Err(Incomplete(format!("{} of the calls to judge have invalid arguments", all - cases.len())))
            }
            false => Ok(found),
        }
    }

    fn verdict_change(&mut self, call: &ValidCall, mode: Mode) -> Option<VerdictChange> {
        self.judged += 1;
        let judge = |policy| calls::verdict(policy, self.workspaces, BASE.as_ref(), mode, call);
        let (before, after) = (judge(self.before), judge(self.after));
        let effect = match rank(after).cmp(&rank(before)) {
            std::cmp::Ordering::Less => PolicyEffect::Tightens,
            std::cmp::Ordering::Equal => return None,
            std::cmp::Ordering::Greater => PolicyEffect::Loosens,
        };
        Some(VerdictChange {
            effect,
            tool: self.definition.name().to_string(),
            mode,
            arguments: stated_arguments(call),
            before: before.to_string(),
            after: after.to_string(),
            rule: self.rule(mode, call),
            detail: None,
        })
    }

    /// Returns the rule of the second policy that decides.
    fn rule(&self, mode: Mode, call: &ValidCall) -> Option<RuleRef> {
        deciding_rule(call, &calls::judge(self.after, self.workspaces, BASE.as_ref(), mode, call))
    }

    /// Returns the files that programs of permitted calls may read or change under one policy only.
    fn program_changes(
        &mut self,
        cases: &[ValidCall],
        mode: Mode,
        (one, other): (&EffectivePolicy<'_>, &EffectivePolicy<'_>),
    ) -> Result<Vec<VerdictChange>, Incomplete> {
        let mut found: Vec<VerdictChange> = Vec::new();
        let mut compared = Vec::new();
        for call in cases {
            let access = |policy| calls::program_access(policy, self.workspaces, mode, call);
            let (Some(before), Some(after)) = (access(self.before), access(self.after)) else { break };
            let judge = |policy| calls::verdict(policy, self.workspaces, BASE.as_ref(), mode, call);
            let (old, new) = (judge(self.before), judge(self.after));
            if old == VerdictKind::Deny || old != new {
                continue;
            }
            let key = [&before, &after].map(|program| {
                let of = |access| program.granted_folders(access).map(ToOwned::to_owned).collect::<Vec<_>>();
                [of(PathAccess::Read), of(PathAccess::Write)]
            });
            if compared.contains(&key) {
                continue;
            }
            compared.push(key.clone());
            // The paths are the same in every mode.
            let known = self.program_paths.iter().find(|(known, _)| *known == key);
            let paths = match known {
                Some((_, paths)) => paths.clone(),
                None => {
                    let any = any_path()?;
                    let lists = [self.workspaces];
                    let search = NameSearch::new(&[one, other], &lists, &any, NameRelevance::Sought)?;
                    let paths = search.with_program_folders(&[&before, &after])?.paths()?;
                    self.program_paths.push((key, paths.clone()));
                    paths
                }
            };
            for access in [PathAccess::Write, PathAccess::Read] {
                for effect in [PolicyEffect::Loosens, PolicyEffect::Tightens] {
                    let (narrow, wide) = match effect {
                        PolicyEffect::Loosens => (&before, &after),
                        PolicyEffect::Tightens | PolicyEffect::Neutral => (&after, &before),
                    };
                    let differs = |path: &&String| {
                        wide.may_access(path.as_ref(), access) && !narrow.may_access(path.as_ref(), access)
                    };
                    let Some(path) = paths.iter().find(differs) else { continue };
                    let verb = if access.is_modifying() { "change" } else { "read" };
                    let negation = if effect == PolicyEffect::Loosens { "may" } else { "may no longer" };
                    found.push(VerdictChange {
                        effect,
                        tool: self.definition.name().to_string(),
                        mode,
                        arguments: stated_arguments(call),
                        before: old.to_string(),
                        after: new.to_string(),
                        rule: self.rule(mode, call),
                        detail: Some(format!("its program {negation} {verb} {path}")),
                    });
                }
            }
        }
        Ok(found)
    }
}

fn rank(verdict: VerdictKind) -> u8 {
    match verdict {
        VerdictKind::Deny => 0,
        VerdictKind::Ask => 1,
        VerdictKind::Allow => 2,
    }
}
