//! Refused call, read from its ledger record, and the search for the policy changes that permit it.

use std::path::{Path, PathBuf};

use execution::ConfigSnapshot;
use governance::dry_run::DryRunResult;
use governance::files::VerdictKind;
use governance::policy_environment::SYSTEM_FOLDERS;
use governance::rules::UnknownToolNames;
use governance::suggested_change::{EditAction, PolicyEdit, SuggestedChange};
use governance::{Policy, Workspace, Workspaces};
use ledger::{LedgerEntry, LedgerReader, LedgerRecord};
use serde_json::{Value, json};
use server::settings::WorkspaceAccessSetting;
use tool::{CallId, RuleRef, ToolDefinition};

use super::proposal::{PolicyProposal, WorkspaceGrant, is_same_change};
use crate::command::ledger::read_error;
use crate::command_context::CommandContext;
use crate::compose;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{escape_invisible, escape_invisible_line};

/// Upper bound on the rules lifted for one call. More than a few in a row are rare.
const MAX_CHANGES: usize = 8;
/// Upper bound on the proposals for one call.
const MAX_PROPOSALS: usize = 3;
/// Details of the denials that a new workspace, or more access to one, can lift.
const OUTSIDE_WORKSPACES: [&str; 3] = ["outside_workspaces", "no_workspace", "read_only_workspace"];
/// Fewest folders in the path of a proposed workspace: `/home/user/folder`, never the home of a user.
const MIN_FOLDERS: usize = 3;

/// Refused call, read from its ledger record.
pub(super) struct RefusedCallRecord {
    pub(super) id: CallId,
    pub(super) tool: String,
    host: Option<String>,
    pub(super) reason: String,
    facts: Value,
}

/// Search for one proposal.
struct ProposalSearch<'a> {
    refused: &'a RefusedCallRecord,
    snapshot: &'a ConfigSnapshot,
    context: &'a CommandContext,
}

/// Configuration while rules are lifted from it.
struct LiftedRules {
    policy: Policy,
    workspaces: Workspaces,
    workspace: Option<WorkspaceGrant>,
    rules: Vec<RuleRef>,
}

impl ProposalSearch<'_> {
    /// Lifts one rule after another until the call is permitted or needs approval. A call that needed approval
    /// before any edit must end up permitted. `width` selects wider forms of the edits.
    fn run(&self, replay_result: &DryRunResult, width: usize) -> Result<PolicyProposal, CommandError> {
        let (refused, snapshot) = (self.refused, self.snapshot);
        let asked_before = replay_result.verdict == VerdictKind::Ask;
        let mut replay_result = replay_result.clone();
        let (policy, workspaces) = (snapshot.policy.clone(), snapshot.workspaces.clone());
        let mut lifted = LiftedRules { policy, workspaces, workspace: None, rules: Vec::new() };
        for _ in 0..MAX_CHANGES {
            self.lift(&mut lifted, &replay_result, width)?;
            let again = refused.replay(snapshot, &lifted.policy, &lifted.workspaces)?;
            let same = again.refusal == replay_result.refusal
                && again.approval_rules == replay_result.approval_rules;
            replay_result = again;
            if replay_result.verdict == VerdictKind::Allow
                || (replay_result.verdict == VerdictKind::Ask && !asked_before)
            {
                self.check_loads(&lifted.policy)?;
                let LiftedRules { policy, workspaces, workspace, rules } = lifted;
                return Ok(PolicyProposal { policy, workspaces, workspace, rules, replay_result });
            }
            if same || replay_result.verdict == VerdictKind::Ask {
                break;
            }
        }
        Err(refused.approval_rule_error(&replay_result).unwrap_or_else(|| refused.no_change_found_error()))
    }

    /// Lifts the next rule.
    fn lift(&self, lifted: &mut LiftedRules, found: &DryRunResult, width: usize) -> Result<(), CommandError> {
        let refused = self.refused;
        if found.verdict == VerdictKind::Ask {
            let definition = refused.definition(self.snapshot, &lifted.policy)?;
            let edits = lifted.policy.unattended_edits(definition, &refused.facts);
            if edits.is_empty() {
                let error = refused.approval_rule_error(found);
                return Err(error.unwrap_or_else(|| refused.no_change_found_error()));
            }
            lifted.rules.extend(found.approval_rules.iter().cloned());
            return edits.iter().try_for_each(|edit| self.apply_edit(lifted, edit, width));
        }
        let change = found.trace.changes().first().ok_or_else(|| refused.built_in_denial_error(found))?;
        lifted.rules.push(change.rule.clone());
        match &change.edit {
            // A forbidden folder is forbidden with its contents, so lifting it permits more than the call.
            Some(PolicyEdit { action: EditAction::Remove { text, .. }, .. }) if Path::new(text).is_dir() => {
                Err(refused.manual_change_error(change))
            }
            Some(edit) => self.apply_edit(lifted, edit, width),
            None => self.add_workspace(lifted, found).ok_or_else(|| refused.manual_change_error(change)),
        }
    }

    fn apply_edit(
        &self,
        lifted: &mut LiftedRules,
        edit: &PolicyEdit,
        width: usize,
    ) -> Result<(), CommandError> {
        let edits = policy_tools::wider_edits(edit, &|path| path.is_dir());
        let edit = edits.get(width).or(edits.last()).unwrap_or(edit);
        let around = compose::policy_environment(self.context);
        let load_error = |error: String| self.refused.load_error(&error);
        let changed = policy_tools::amended(&lifted.policy, edit, &around)
            .map_err(|error| load_error(error.to_string()))?
            .ok_or_else(|| {
                let (file, keys) = (edit.file.name(), edit.keys.join("."));
                let problem = CommandError::configuration(format!(
                    "this command cannot edit {file} in its current form"
                ));
                problem.with_hint(format!("change `{keys}` in that file by hand"))
            })?;
        // It has the policies of the projects, which may refuse the call too.
        lifted.policy = changed;
        Ok(())
    }

    /// Adds the folder of a path that is outside of the workspaces. `None` if the folder does not exist, or is too
    /// wide to be proposed.
    fn add_workspace(&self, lifted: &mut LiftedRules, found: &DryRunResult) -> Option<()> {
        let detail = found.refusal.as_ref()?.detail.as_deref()?;
        let path =
            self.refused.path_outside(&lifted.workspaces).filter(|_| OUTSIDE_WORKSPACES.contains(&detail))?;
        let folder = if path.is_dir() { path.as_path() } else { path.parent()? };
        let is_home = self.context.home().user_home().is_some_and(|home| home.starts_with(folder));
        let is_system = SYSTEM_FOLDERS
            .iter()
            .chain(&["/var", "/proc", "/sys", "/dev", "/run"])
            .any(|system| folder.starts_with(system));
        let depth = folder.components().count().saturating_sub(1);
        if is_home || is_system || depth < MIN_FOLDERS || lifted.workspace.is_some() {
            return None;
        }
        let definition = self.refused.definition(self.snapshot, &lifted.policy).ok()?;
        let writes = definition.path_arguments().iter().any(|argument| argument.access.is_modifying());
        let access =
            if writes { WorkspaceAccessSetting::ReadWrite } else { WorkspaceAccessSetting::ReadOnly };
        let workspace = Workspace::open(folder, compose::to_policy_access(access)).ok()?;
        crate::reserved_folders::check_workspace(self.context.home(), workspace.root(), access).ok()?;
        lifted.workspace = Some(WorkspaceGrant { folder: workspace.root().to_owned(), access });
        let others = lifted.workspaces.iter().filter(|known| known.root() != workspace.root()).cloned();
        lifted.workspaces = Workspaces::new(others.chain([workspace.clone()]).collect());
        let around = compose::policy_environment(self.context);
        let policy = lifted.policy.clone().with_projects(&lifted.workspaces, &around).ok()?;
        let definitions = self.snapshot.registry.definitions().map(AsRef::as_ref);
        lifted.policy = policy.with_project_examples(definitions, UnknownToolNames::Refuse, &around).ok()?;
        Some(())
    }

    /// Checks that the changed policy would load: its own examples may require that this call is refused.
    fn check_loads(&self, policy: &Policy) -> Result<(), CommandError> {
        let judged = self.snapshot.hosts.iter().flat_map(|host| host.judged_definitions(policy));
        let definitions = self.snapshot.registry.definitions().map(AsRef::as_ref).chain(judged);
        let checked = policy.check_tools(definitions);
        checked.map(drop).map_err(|error| self.refused.load_error(&error.to_string()))
    }
}

impl RefusedCallRecord {
    pub(super) fn find(context: &CommandContext, id: &str) -> Result<RefusedCallRecord, CommandError> {
        let id: CallId = id.parse().map_err(|_| {
            let problem = CommandError::usage(format!("`{}` is not a call id", escape_invisible_line(id)));
            problem.with_hint(
                "take `metadata.call_id` of the result, or list refused calls: `sinew ledger query --kind refusal`",
            )
        })?;
        let folder = compose::ledger_dir(context);
        let records = LedgerReader::new(&folder).call(id).map_err(read_error(&folder))?;
        match records.iter().find_map(|record| Self::from_record(id, record)) {
            Some(refused) => Ok(refused),
            None if records.is_empty() => Err(CommandError::usage(format!("no record of call `{id}`"))
                .with_hint("list the refused calls with `sinew ledger query --kind refusal`")),
            None => Err(CommandError::usage(format!("call `{id}` was not refused"))
                .with_hint(format!("see its outcome with `sinew ledger show {id}`"))),
        }
    }

    fn from_record(id: CallId, record: &LedgerRecord) -> Option<RefusedCallRecord> {
        let LedgerEntry::Refusal(refusal) = &record.entry else { return None };
        let facts = refusal.facts.clone();
        let host = facts.pointer("/host/name").and_then(Value::as_str).map(str::to_owned);
        Some(RefusedCallRecord {
            id,
            tool: refusal.call.tool.clone(),
            host,
            reason: refusal.reason.clone(),
            facts,
        })
    }

    /// Returns true if the call was refused before its paths were opened.
    pub(super) fn was_refused_before_open(&self) -> bool {
        let paths = self.facts.get("paths").and_then(Value::as_array);
        paths.into_iter().flatten().any(|path| path.get("kind") == Some(&json!("unopened")))
    }

    /// Returns the first path of the call that is not in a workspace, or in a read-only one.
    fn path_outside(&self, workspaces: &Workspaces) -> Option<PathBuf> {
        let text = |path: &Value, key: &str| path.get(key).and_then(Value::as_str).map(PathBuf::from);
        let recorded = self.facts.get("paths")?.as_array()?.iter();
        let path = |path: &Value| {
            text(path, "canonical")
                .or_else(|| Some(text(path, "base").unwrap_or_default().join(text(path, "typed")?)))
        };
        let is_inside = |path: &Path| {
            workspaces.iter().any(|folder| {
                path.starts_with(folder.root()) && folder.access() == governance::WorkspaceAccess::ReadWrite
            })
        };
        recorded.filter_map(path).find(|path| path.is_absolute() && !is_inside(path))
    }

    fn definition<'w>(
        &self,
        snapshot: &'w ConfigSnapshot,
        policy: &Policy,
    ) -> Result<&'w ToolDefinition, CommandError> {
        snapshot.definition_judged_as(&self.tool, self.host.as_deref(), policy).ok_or_else(|| {
            self.no_proposal_error("the tool does not exist", "list the tools with `sinew tools list`")
        })
    }

    pub(super) fn replay(
        &self,
        snapshot: &ConfigSnapshot,
        policy: &Policy,
        workspaces: &Workspaces,
    ) -> Result<DryRunResult, CommandError> {
        let definition = self.definition(snapshot, policy)?;
        let found = policy.replay(definition, &self.facts, workspaces);
        found.ok_or_else(|| {
            let hint =
                "it was refused before any rule was evaluated, or its record is incomplete: see the reason";
            self.no_proposal_error("the ledger record lacks the facts that the rules need", hint)
        })
    }

    fn no_proposal_error(&self, why: &str, instead: &str) -> CommandError {
        let reason = escape_invisible_line(&self.reason);
        CommandError::new(ExitKind::Refused, format!("no policy change can be proposed: {why} ({reason})"))
            .with_hint(instead)
    }

    /// Returns the narrowest change that permits the call, and up to two wider ones.
    pub(super) fn propose(
        &self,
        context: &CommandContext,
        snapshot: &ConfigSnapshot,
        found: &DryRunResult,
    ) -> Result<Vec<PolicyProposal>, CommandError> {
        let search = ProposalSearch { refused: self, snapshot, context };
        let mut proposals = vec![search.run(found, 0)?];
        for width in 1..MAX_PROPOSALS {
            // A wider change may contradict the policy; the narrowest one is enough then.
            let Ok(wider) = search.run(found, width) else { continue };
            if !proposals.iter().any(|known| is_same_change(known, &wider)) {
                proposals.push(wider);
            }
        }
        Ok(proposals)
    }

    fn built_in_denial_error(&self, found: &DryRunResult) -> CommandError {
        let refusal = found.refusal.as_deref();
        let hint = refusal.and_then(|refusal| refusal.hint.clone());
        self.no_proposal_error(
            "a built-in denial refuses it, and no file can change that",
            &hint.unwrap_or_default(),
        )
    }

    fn manual_change_error(&self, change: &SuggestedChange) -> CommandError {
        let write = change.text.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
        let place = escape_invisible_line(&render::format_rule(&change.rule));
        self.no_proposal_error(
            &format!("{place} has to be changed by hand"),
            &format!("{}{}", change.description, escape_invisible_line(&write)),
        )
    }

    fn approval_rule_error(&self, found: &DryRunResult) -> Option<CommandError> {
        let rules: Vec<String> = found.approval_rules.iter().map(render::format_rule).collect();
        if rules.is_empty() {
            return None;
        }
        let hint = "approve the call when it is pending; such a rule can only be removed by hand";
        Some(self.no_proposal_error(
            &format!("approval is required by {}", escape_invisible_line(&rules.join(", "))),
            hint,
        ))
    }

    fn no_change_found_error(&self) -> CommandError {
        self.no_proposal_error(
            "no small change permits the call",
            "see every rule that applies with `sinew explain`",
        )
    }

    fn load_error(&self, error: &str) -> CommandError {
        let problem = CommandError::new(
            ExitKind::Refused,
            format!("the changed policy would not load:\n{}", escape_invisible(error)),
        );
        problem
            .with_hint("the change contradicts another part of the policy; change both by hand, or neither")
    }
}
