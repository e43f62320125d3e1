//! `sinew allow`: proposes the smallest policy change that permits a refused call.
//!
//! The command edits the policy in memory, checks that the result loads, and replays the recorded facts of
//! the call against it. It shows a change only after the replay succeeds, and writes it only after the
//! operator confirms it.

use std::collections::BTreeSet;

use execution::ConfigSnapshot;
use governance::Policy;
use governance::dry_run::DryRunResult;
use governance::files::VerdictKind;
use governance::policy_environment::PolicyEnvironment;
use governance::suggested_change::{PolicyEdit, PolicyFile, SuggestedChange};
use ledger::{LedgerEntry, LedgerReader, LedgerRecord};
use serde_json::{Value, json};
use similar::TextDiff;
use tool::{CallId, RuleRef, ToolDefinition};

use crate::cli::AllowArgs;
use crate::command::init;
use crate::command::ledger::read_error;
use crate::command_context::CommandContext;
use crate::compose::{self, WorkspaceSelection};
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{
    DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, WARNING_STYLE, confirm, escape_invisible, escape_invisible_line,
    is_interactive, paint, print_message, print_result_line, print_warning,
};

/// Upper bound on the rules lifted for one call. More than a few in a row are rare.
const MAX_CHANGES: usize = 8;

/// Refused call, read from its ledger record.
struct RefusedCallRecord {
    id: CallId,
    tool: String,
    host: Option<String>,
    reason: String,
    facts: Value,
}

/// Policy change for which a replay of the call has succeeded.
struct PolicyProposal {
    policy: Policy,
    rules: Vec<RuleRef>,
    replay_result: DryRunResult,
}

pub(crate) fn run(args: &AllowArgs) -> Result<ExitKind, CommandError> {
    let setting = CommandContext::from_environment()?;
    let refused = RefusedCallRecord::find(&setting, &args.call_id)?;
    let snapshot = compose::config_snapshot(&setting, &setting.settings()?, WorkspaceSelection::Configured)?;
    let around = compose::policy_environment(&setting);
    let found = refused.replay(&snapshot, &snapshot.policy)?;
    if found.verdict == VerdictKind::Allow {
        print_result_line(if args.output.json {
            json!({"schema_version": 1, "call_id": refused.id, "becomes": "allow", "written": false, "diff": ""})
                .to_string()
        } else {
            paint(SUCCESS_STYLE, "the policy already permits this call")
        })?;
        return Ok(ExitKind::Done);
    }
    let proposal = refused.propose(&snapshot, &around, found)?;
    let diff = proposal.diff(&setting, &snapshot.policy)?;
    if !args.output.json {
        show_proposal(&refused, &proposal, &diff)?;
    }
    let written = is_confirmed(args);
    if written {
        proposal.write(&setting, &snapshot.policy)?;
    }
    if args.output.json {
        print_result_line(
            json!({"schema_version": 1, "call_id": refused.id, "becomes": proposal.replay_result.verdict,
            "rules": proposal.rules, "diff": diff, "written": written}),
        )?;
    } else if written {
        print_result_line(paint(SUCCESS_STYLE, "written"))?;
        remind_to_reload(&setting);
    } else {
        print_message("nothing was written");
    }
    Ok(if written { ExitKind::Done } else { ExitKind::Approval })
}

fn remind_to_reload(setting: &CommandContext) {
    if setting.is_daemon_ready() {
        print_warning(
            "the change loosens the policy, so the running daemon has not applied it: run `sinew reload --accept`",
        );
    }
}

fn show_proposal(
    refused: &RefusedCallRecord,
    proposal: &PolicyProposal,
    diff: &str,
) -> Result<(), CommandError> {
    print_result_line(format!(
        "{} {}",
        paint(ERROR_STYLE, escape_invisible_line(&refused.tool)),
        escape_invisible_line(&refused.reason)
    ))?;
    for rule in &proposal.rules {
        print_result_line(paint(
            DIM_STYLE,
            format!("refused by {}", escape_invisible_line(&render::format_rule(rule))),
        ))?;
    }
    print_result_line(painted(&escape_invisible(diff)))?;
    let (names_alone, asked) = (refused.was_refused_before_open(), &proposal.replay_result.approval_rules);
    if names_alone {
        print_result_line(paint(
            WARNING_STYLE,
            "the call was refused before its paths were opened: they are resolved and judged when it is repeated",
        ))?;
    }
    print_result_line(match asked.first() {
        None => "with this change the call runs".to_owned(),
        Some(rule) => {
            format!(
                "with this change the call needs approval, by {}",
                escape_invisible_line(&render::format_rule(rule))
            )
        }
    })
}

/// Returns true if the operator confirms the change, by `--yes` or on the terminal. Without either, nothing
/// is written.
fn is_confirmed(args: &AllowArgs) -> bool {
    if args.yes {
        return true;
    }
    if args.output.json || !is_interactive() {
        print_message("run the command again with `--yes` to write the change");
        return false;
    }
    confirm("write this change?")
}

impl RefusedCallRecord {
    fn find(setting: &CommandContext, id: &str) -> Result<RefusedCallRecord, CommandError> {
        let id: CallId = id.parse().map_err(|_| {
            let problem = CommandError::usage(format!("`{}` is not a call id", escape_invisible_line(id)));
            problem.with_hint(
                "take `metadata.call_id` of the result, or list refused calls: `sinew ledger query --kind refusal`",
            )
        })?;
        let folder = compose::ledger_dir(setting);
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
    fn was_refused_before_open(&self) -> bool {
        let paths = self.facts.get("paths").and_then(Value::as_array);
        paths.into_iter().flatten().any(|path| path.get("kind") == Some(&json!("unopened")))
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

    fn replay(&self, snapshot: &ConfigSnapshot, policy: &Policy) -> Result<DryRunResult, CommandError> {
        let definition = self.definition(snapshot, policy)?;
        let found = policy.replay(definition, &self.facts, &snapshot.workspaces);
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

    /// Lifts one rule after another until the call is permitted or needs approval. A call that needed
    /// approval before any edit must end up permitted.
    fn propose(
        &self,
        snapshot: &ConfigSnapshot,
        around: &PolicyEnvironment,
        found: DryRunResult,
    ) -> Result<PolicyProposal, CommandError> {
        let asked_before = found.verdict == VerdictKind::Ask;
        let (mut found, mut rules) = (found, Vec::new());
        let mut changed: Option<Policy> = None;
        for _ in 0..MAX_CHANGES {
            let policy = changed.as_ref().unwrap_or(&snapshot.policy);
            let (edits, blamed) = self.next_edits(snapshot, policy, &found)?;
            rules.extend(blamed);
            for edit in &edits {
                changed =
                    Some(self.apply_edit(changed.as_ref().unwrap_or(&snapshot.policy), edit, around)?);
            }
            let Some(policy) = &changed else { break };
            let again = self.replay(snapshot, policy)?;
            let same = again.refusal == found.refusal && again.approval_rules == found.approval_rules;
            found = again;
            if found.verdict == VerdictKind::Allow || (found.verdict == VerdictKind::Ask && !asked_before) {
                self.check_loads(snapshot, policy)?;
                return changed.map_or_else(
                    || Err(self.no_change_found_error()),
                    |policy| Ok(PolicyProposal { policy, rules, replay_result: found }),
                );
            }
            if same || found.verdict == VerdictKind::Ask {
                break;
            }
        }
        Err(self.approval_rule_error(&found).unwrap_or_else(|| self.no_change_found_error()))
    }

    /// Returns the next edits and the rules that they lift.
    fn next_edits(
        &self,
        snapshot: &ConfigSnapshot,
        policy: &Policy,
        found: &DryRunResult,
    ) -> Result<(Vec<PolicyEdit>, Vec<RuleRef>), CommandError> {
        if found.verdict == VerdictKind::Ask {
            let edits = policy.unattended_edits(self.definition(snapshot, policy)?, &self.facts);
            return match edits.is_empty() {
                true => Err(self.approval_rule_error(found).unwrap_or_else(|| self.no_change_found_error())),
                false => Ok((edits, found.approval_rules.clone())),
            };
        }
        let change = found.trace.changes().first().ok_or_else(|| self.built_in_denial_error(found))?;
        let edit = change.edit.clone().ok_or_else(|| self.manual_change_error(change))?;
        Ok((vec![edit], vec![change.rule.clone()]))
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

    fn apply_edit(
        &self,
        policy: &Policy,
        edit: &PolicyEdit,
        around: &PolicyEnvironment,
    ) -> Result<Policy, CommandError> {
        let changed = policy_tools::amended(policy, edit, around)
            .map_err(|error| self.load_error(&error.to_string()))?;
        changed.ok_or_else(|| {
            let (file, keys) = (edit.file.name(), edit.keys.join("."));
            let problem =
                CommandError::configuration(format!("this command cannot edit {file} in its current form"));
            problem.with_hint(format!("change `{keys}` in that file by hand"))
        })
    }

    /// Checks that the changed policy would load: its own examples may require that this call is refused.
    fn check_loads(&self, snapshot: &ConfigSnapshot, policy: &Policy) -> Result<(), CommandError> {
        let judged = snapshot.hosts.iter().flat_map(execution::host::Host::definitions);
        let definitions = snapshot.registry.definitions().chain(judged).map(AsRef::as_ref);
        policy.check_tools(definitions).map(drop).map_err(|error| self.load_error(&error.to_string()))
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

impl PolicyProposal {
    fn changed_files<'a>(&'a self, old: &'a Policy) -> impl Iterator<Item = PolicyFile> + 'a {
        PolicyFile::ALL.into_iter().filter(|file| old.user_text(*file) != self.policy.user_text(*file))
    }

    fn diff(&self, setting: &CommandContext, old: &Policy) -> Result<String, CommandError> {
        let folder = setting.home().config_dir().join("governance");
        let mut text = String::new();
        let files: BTreeSet<PolicyFile> = self.changed_files(old).collect();
        for file in files {
            let name = folder.join(file.name()).display().to_string();
            let [before, after] =
                [old, &self.policy].map(|policy| policy.user_text(file).unwrap_or_default());
            text.push_str(&unified(&name, before, after));
        }
        Ok(text)
    }

    /// Replaces each changed file atomically. A file that was edited since the policy was loaded is not
    /// overwritten.
    fn write(&self, setting: &CommandContext, old: &Policy) -> Result<(), CommandError> {
        let folder = setting.home().config_dir().join("governance");
        for file in self.changed_files(old) {
            let path = folder.join(file.name());
            let current = match std::fs::read_to_string(&path) {
                Ok(text) => Some(text),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(error) => {
                    let problem = format!("{} cannot be read: {error}", path.display());
                    return Err(CommandError::configuration(problem));
                }
            };
            if current.as_deref() != old.user_text(file) {
                let problem = CommandError::configuration(format!(
                    "{} was changed while this command ran",
                    path.display()
                ));
                return Err(problem.with_hint("run the command again"));
            }
            init::replace_atomically(&path, self.policy.user_text(file).unwrap_or_default())?;
        }
        Ok(())
    }
}

/// Returns the difference in the format that `patch` reads, or an empty string if the texts are equal.
fn unified(name: &str, old: &str, new: &str) -> String {
    TextDiff::from_lines(old, new).unified_diff().header(name, name).to_string()
}

/// Colours the lines of a diff for a terminal.
fn painted(diff: &str) -> String {
    let line = |line: &str| match line.chars().next() {
        Some('+') => paint(SUCCESS_STYLE, line),
        Some('-') => paint(ERROR_STYLE, line),
        Some('@') => paint(DIM_STYLE, line),
        _ => line.to_owned(),
    };
    diff.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_three_lines_of_context() {
        let old: String = (1..=20).map(|line| format!("{line}\n")).collect();
        let check = |new: &str, expect: &str| assert_eq!(unified("f", &old, new), expect, "{new}");
        check(&old, "");
        check(
            &old.replacen("5\n", "five\n", 1),
            "--- f\n+++ f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n",
        );
        let both = old.replacen("2\n3\n", "2\nx\n3\n", 1).replacen("18\n", "", 1);
        check(
            &both,
            "--- f\n+++ f\n@@ -1,5 +1,6 @@\n 1\n 2\n+x\n 3\n 4\n 5\n@@ -15,6 +16,5 @@\n 15\n 16\n 17\n-18\n 19\n 20\n",
        );
        assert_eq!(unified("f", "", "a\n"), "--- f\n+++ f\n@@ -0,0 +1 @@\n+a\n");
    }
}
