//! Search for witnesses of one question among the representative calls of one tool.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use governance::dry_run::DryRunResult;
use governance::dry_run::ProgramAccess;
use governance::files::{NetworkAccess, VerdictKind};
use governance::rule_trace::RuleOutcome;
use governance::rules::NameRelevance;
use governance::rules::{Access, EffectivePolicy, HostPattern, PathGlobs, ToolApprovals};
use guardrail::ValidCall;
use serde_json::Value;
use tool::definition::{ExternalTargetKind, PathAccess};
use tool::{Arguments, Mode, RuleRef, ToolDefinition};

use super::calls::{self, ToolCalls};
use super::cases::{CaseSource, CaseTarget};
use super::expression::{Attendance, Effect, Question};
use super::name_search::NameSearch;
use super::{Incomplete, ProofContext, Witness};

/// Witnesses of one tool.
pub(super) struct ToolWitnesses {
    pub(super) witnesses: Vec<Witness>,
    pub(super) judged: u64,
}

/// Calls that have the effect in one way.
struct Candidates {
    calls: Vec<ValidCall>,
    way: EffectWay,
    /// Number of representative calls whose arguments are not valid.
    invalid: usize,
}

/// Way in which a call has an effect.
enum EffectWay {
    /// Its arguments name the target.
    Named,
    /// The sandbox opens the target to its program.
    Program,
    /// It sends a request to a service from the settings or its manifest.
    Service(String),
}

/// Returns the witnesses of one tool, at most one for each mode.
pub(super) fn of_tool(
    context: &ProofContext<'_>,
    question: &Question,
    definition: &Arc<ToolDefinition>,
) -> Result<ToolWitnesses, Incomplete> {
    let tool = EffectivePolicy::new(context.policy, definition);
    let modes = question.mode.map_or(Mode::ALL.to_vec(), |mode| vec![mode]);
    let admitted = |mode: &Mode| tool.access(*mode, ToolApprovals::Waived).0 != Access::Denied;
    let modes: Vec<Mode> = modes.into_iter().filter(admitted).collect();
    let mut search =
        WitnessSearch { context, question, tool: &tool, judged: 0, program_effects: HashMap::new() };
    let mut witnesses = Vec::new();
    if modes.is_empty() {
        return Ok(ToolWitnesses { witnesses, judged: 0 });
    }
    let candidates = search.candidates(definition)?;
    for mode in modes {
        witnesses.extend(search.find(&candidates, mode)?);
    }
    // A representative that is not valid may stand for calls that are.
    let invalid: usize = candidates.iter().map(|one| one.invalid).sum();
    if witnesses.is_empty() && invalid > 0 {
        return Err(Incomplete(format!("{invalid} of the calls to judge have invalid arguments")));
    }
    Ok(ToolWitnesses { witnesses, judged: search.judged })
}

struct WitnessSearch<'s, 'p> {
    context: &'s ProofContext<'p>,
    question: &'s Question,
    tool: &'s EffectivePolicy<'p>,
    judged: u64,
    /// Effects of programs that were found, by the folders of their sandbox.
    program_effects: HashMap<Vec<PathBuf>, Option<String>>,
}

impl WitnessSearch<'_, '_> {
    /// Returns the calls that may have the effect.
    fn candidates(&self, definition: &Arc<ToolDefinition>) -> Result<Vec<Candidates>, Incomplete> {
        let tool_calls = ToolCalls::new(definition)?;
        let source = CaseSource {
            calls: &tool_calls,
            tools: &[self.tool],
            workspaces: &[self.context.workspaces],
            forbidding: NameRelevance::Avoided,
        };
        let is_sandboxed = definition.requires_sandbox();
        let targets = definition.external_target_arguments();
        let starts_programs = targets.iter().any(|target| target.kind == ExternalTargetKind::Command);
        let mut ways = Vec::new();
        match &self.question.effect {
            // The paths in the arguments of a program are judged by its sandbox.
            Effect::Path(access, globs) if !(is_sandboxed && starts_programs) => {
                // A tool that writes may show the old content, for example as a difference.
                let accesses: &[PathAccess] = match access {
                    PathAccess::Read => &[PathAccess::Read, PathAccess::Write],
                    PathAccess::Write | PathAccess::Remove => &[PathAccess::Write, PathAccess::Remove],
                };
                ways.push((EffectWay::Named, source.cases(&CaseTarget::Paths(accesses, globs))?));
            }
            Effect::Path(..) => {}
            Effect::Reach(host) => {
                ways.push((EffectWay::Named, source.cases(&CaseTarget::Host(host))?));
                for url in self.services(definition, host) {
                    ways.push((EffectWay::Service(url), source.cases(&CaseTarget::Anything)?));
                }
            }
            Effect::Run(words) => {
                ways.push((EffectWay::Named, source.cases(&CaseTarget::Command(words))?));
            }
        }
        let opens_files = match self.question.effect {
            Effect::Path(..) => opens_folders(definition),
            Effect::Reach(_) => true,
            Effect::Run(_) => false,
        };
        if is_sandboxed && opens_files {
            ways.push((EffectWay::Program, source.cases(&CaseTarget::Anything)?));
        }
        Ok(ways.into_iter().map(|(way, cases)| checked(&tool_calls, way, cases)).collect())
    }

    fn services(&self, definition: &ToolDefinition, host: &HostPattern) -> Vec<String> {
        let name = definition.name().as_str();
        let own = self.context.services.iter().filter(|(tool, _)| tool == name).map(|(_, url)| url);
        let is_reached = |url: &&String| {
            host_of(url).is_some_and(|service| host.allows(service))
                && self.context.policy.service_denial(definition, url).is_none()
        };
        own.filter(is_reached).cloned().collect()
    }

    /// Returns a witness in one mode: one without approval, if there is one.
    fn find(&mut self, candidates: &[Candidates], mode: Mode) -> Result<Option<Witness>, Incomplete> {
        let always_asks = self.tool.access(mode, ToolApprovals::Waived).0 == Access::Asks;
        let mut asking = None;
        for (way, call) in
            candidates.iter().flat_map(|one| one.calls.iter().map(move |call| (&one.way, call)))
        {
            for base in self.bases() {
                self.judged += 1;
                let (policy, workspaces) = (self.context.policy, self.context.workspaces);
                let verdict = calls::verdict(policy, workspaces, &base, mode, call);
                let is_wanted = match (verdict, self.question.attendance) {
                    (VerdictKind::Deny, _) => false,
                    (VerdictKind::Allow, Attendance::WithHuman) => false,
                    (VerdictKind::Ask, Attendance::WithoutHuman) => false,
                    // A call without approval says more.
                    (VerdictKind::Ask, Attendance::Either) => asking.is_none(),
                    (VerdictKind::Allow | VerdictKind::Ask, _) => true,
                };
                if !is_wanted {
                    continue;
                }
                let Some(effect) = self.effect(way, call, mode)? else { continue };
                let found = calls::judge(policy, workspaces, &base, mode, call);
                let witness = witness(call, mode, &found, effect);
                if verdict == VerdictKind::Allow || self.question.attendance == Attendance::WithHuman {
                    return Ok(Some(witness));
                }
                asking = Some(witness);
            }
            if asking.is_some() && always_asks {
                break;
            }
        }
        Ok(asking)
    }

    /// Returns the working directories to try. A project restricts the calls that start in it and may require approval
    /// for them.
    fn bases(&self) -> Vec<PathBuf> {
        let projects = self.context.policy.project_policies().map(|(root, _)| root.to_owned());
        let asks = self.question.attendance == Attendance::WithHuman;
        [PathBuf::from("/")].into_iter().chain(projects.filter(|_| asks)).collect()
    }

    /// Returns the effect of a permitted call; `None` if it does not have the one in question. The inner value
    /// describes an effect that the arguments do not show.
    fn effect(
        &mut self,
        way: &EffectWay,
        call: &ValidCall,
        mode: Mode,
    ) -> Result<Option<Option<String>>, Incomplete> {
        match way {
            EffectWay::Named => return Ok(Some(None)),
            EffectWay::Service(url) => return Ok(Some(Some(format!("it sends requests to {url}")))),
            EffectWay::Program => {}
        }
        let (policy, workspaces) = (self.context.policy, self.context.workspaces);
        let Some(program) = calls::program_access(policy, workspaces, mode, call) else { return Ok(None) };
        match &self.question.effect {
            Effect::Run(_) => Ok(None),
            Effect::Reach(_) => Ok((program.network == NetworkAccess::Full)
                .then(|| Some("its sandbox has the network of the machine (`network: full`)".to_owned()))),
            Effect::Path(access, globs) => Ok(self.program_path(&program, *access, globs)?.map(|path| {
                let verb = if access.is_modifying() { "change" } else { "read" };
                Some(format!("its program may {verb} {path}"))
            })),
        }
    }

    /// Returns a path in question that a program may access.
    fn program_path(
        &mut self,
        program: &ProgramAccess,
        access: PathAccess,
        globs: &PathGlobs,
    ) -> Result<Option<String>, Incomplete> {
        let key: Vec<PathBuf> = program.granted_folders(access).map(Path::to_owned).collect();
        if let Some(known) = self.program_effects.get(&key) {
            return Ok(known.clone());
        }
        let search =
            NameSearch::new(&[self.tool], &[self.context.workspaces], globs, NameRelevance::Avoided)?;
        let search = search.with_program_folders(&[program])?;
        let found = search.find(|path| program.may_access(path, access))?;
        self.program_effects.insert(key, found.clone());
        Ok(found)
    }
}

fn checked(calls: &ToolCalls, way: EffectWay, cases: Vec<Arguments>) -> Candidates {
    let all = cases.len();
    let calls: Vec<ValidCall> = cases.into_iter().filter_map(|case| calls.check(case).ok()).collect();
    Candidates { invalid: all - calls.len(), calls, way }
}

pub(super) fn witness(call: &ValidCall, mode: Mode, found: &DryRunResult, effect: Option<String>) -> Witness {
    Witness {
        tool: call.definition().name().to_string(),
        arguments: stated_arguments(call),
        mode,
        verdict: found.verdict,
        rule: deciding_rule(call, found),
        effect,
    }
}

/// Returns the rule that denies, the one that requires approval, or the last one that allows a path, command or host of
/// the call.
pub(super) fn deciding_rule(call: &ValidCall, found: &DryRunResult) -> Option<RuleRef> {
    let denying = found.refusal.as_ref().and_then(|refusal| refusal.rule.clone());
    let arguments = Value::Object(call.arguments().clone()).to_string();
    let passed = || found.trace.steps().iter().filter(|step| step.outcome == RuleOutcome::Passes);
    // A command is traced as one line.
    let is_target = |value: &str| value.split(' ').all(|word| arguments.contains(word)) && value.len() > 1;
    let names_target = passed().rfind(|step| is_target(&step.value));
    let allowing = names_target.or_else(|| passed().next_back()).map(|step| step.rule.clone());
    denying.or(found.approval_rules.first().cloned()).or(allowing)
}

/// Returns true if the sandbox of the tool opens folders. The sandboxed worker of a built-in tool without paths and
/// commands parses a response and gets none.
fn opens_folders(definition: &ToolDefinition) -> bool {
    let targets = definition.external_target_arguments();
    definition.origin().is_some()
        || !definition.path_arguments().is_empty()
        || targets.iter().any(|target| target.kind == ExternalTargetKind::Command)
}

/// Returns true if calls of the tool start a program that the tool chooses, so that no rule names it.
pub(super) fn chooses_program(definition: &ToolDefinition) -> bool {
    let targets = definition.external_target_arguments();
    let names_program = targets.iter().any(|target| target.kind == ExternalTargetKind::Command);
    definition.requires_sandbox() && !names_program && opens_folders(definition)
}

/// Returns arguments without those that have the default of the schema.
pub(super) fn stated_arguments(call: &ValidCall) -> Value {
    let schema = call.definition().input_schema();
    let default = |key: &str| schema.get("properties")?.get(key)?.get("default");
    let stated = call.arguments().iter().filter(|(key, value)| default(key) != Some(*value));
    Value::Object(stated.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// Returns the host of a URL by its text.
fn host_of(url: &str) -> Option<&str> {
    let rest = url.split_once("://")?.1;
    let host = rest.split(['/', '?', '#']).next()?.rsplit('@').next()?;
    Some(host.rsplit_once(':').map_or(host, |(host, _)| host))
}
