//! `sinew allow`: proposes the smallest policy change that permits a refused call.
//!
//! The command edits the policy in memory, checks that the result loads, and replays the recorded facts of
//! the call against it. It shows a change only after the replay succeeds, and writes it only after the
//! operator confirms it.

use std::collections::BTreeSet;

use execution::World;
use governance::files::Expectation;
use governance::{Change, Edit, Policy, PolicyFile, Rehearsal, Surroundings};
use ledger::{Entry, Reader, Record};
use serde_json::{Value, json};
use similar::TextDiff;
use tool::{CallId, RuleRef, ToolDefinition};

use crate::cli::AllowArgs;
use crate::command::init;
use crate::command::ledger::unreadable;
use crate::compose::{self, Folders};
use crate::exit::{Exit, Problem};
use crate::render;
use crate::setting::Setting;
use crate::terminal::{BAD, GOOD, NOTE, QUIET, agrees, is_attended, paint, say, tell, visible, visible_line};

/// Upper bound on the rules lifted for one call. More than a few in a row are rare.
const MOST_CHANGES: usize = 8;

/// Refused call, read from its ledger record.
struct Refused {
    id: CallId,
    tool: String,
    host: Option<String>,
    reason: String,
    facts: Value,
}

/// Policy change for which a replay of the call has succeeded.
struct Proposal {
    policy: Policy,
    rules: Vec<RuleRef>,
    becomes: Rehearsal,
}

pub(crate) fn run(args: &AllowArgs) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    let refused = Refused::find(&setting, &args.call_id)?;
    let snapshot = compose::world(&setting, &setting.settings()?, Folders::Configured)?;
    let around = compose::surroundings(&setting);
    let found = refused.judge(&snapshot, &snapshot.policy)?;
    if found.verdict == Expectation::Allow {
        say(if args.output.json {
            json!({"schema_version": 1, "call_id": refused.id, "becomes": "allow", "written": false, "diff": ""})
                .to_string()
        } else {
            paint(GOOD, "the policy already permits this call")
        })?;
        return Ok(Exit::Done);
    }
    let proposal = refused.propose(&snapshot, &around, found)?;
    let diff = proposal.diff(&setting, &snapshot.policy)?;
    if !args.output.json {
        show(&refused, &proposal, &diff)?;
    }
    let written = confirmed(args);
    if written {
        proposal.write(&setting, &snapshot.policy)?;
    }
    if args.output.json {
        say(json!({"schema_version": 1, "call_id": refused.id, "becomes": proposal.becomes.verdict,
            "rules": proposal.rules, "diff": diff, "written": written}))?;
    } else if written {
        say(paint(GOOD, "written"))?;
        remind(&setting);
    } else {
        tell("nothing was written");
    }
    Ok(if written { Exit::Done } else { Exit::Approval })
}

fn remind(setting: &Setting) {
    if setting.daemon_answers() {
        tell(paint(
            NOTE,
            "the change loosens the policy, so the running daemon has not applied it: run `sinew reload --accept`",
        ));
    }
}

fn show(refused: &Refused, proposal: &Proposal, diff: &str) -> Result<(), Problem> {
    say(format!("{} {}", paint(BAD, visible_line(&refused.tool)), visible_line(&refused.reason)))?;
    for rule in &proposal.rules {
        say(paint(QUIET, format!("refused by {}", visible_line(&render::rule(rule)))))?;
    }
    say(painted(&visible(diff)))?;
    let (names_alone, asked) = (refused.by_names_alone(), &proposal.becomes.asked_by);
    if names_alone {
        say(paint(
            NOTE,
            "the call was refused before its paths were opened: they are resolved and judged when it is repeated",
        ))?;
    }
    say(match asked.first() {
        None => "with this change the call runs".to_owned(),
        Some(rule) => {
            format!("with this change the call needs approval, by {}", visible_line(&render::rule(rule)))
        }
    })
}

/// Returns true if the operator confirms the change, by `--yes` or on the terminal. Without either, nothing
/// is written.
fn confirmed(args: &AllowArgs) -> bool {
    if args.yes {
        return true;
    }
    if args.output.json || !is_attended() {
        tell("run the command again with `--yes` to write the change");
        return false;
    }
    agrees("write this change?")
}

impl Refused {
    fn find(setting: &Setting, id: &str) -> Result<Refused, Problem> {
        let id: CallId = id.parse().map_err(|_| {
            let problem = Problem::usage(format!("`{}` is not a call id", visible_line(id)));
            problem.hint(
                "take `metadata.call_id` of the result, or list refused calls: `sinew ledger query --kind refusal`",
            )
        })?;
        let folder = compose::ledger_folder(setting);
        let records = Reader::new(&folder).call(id).map_err(unreadable(&folder))?;
        match records.iter().find_map(|record| Self::read(id, record)) {
            Some(refused) => Ok(refused),
            None if records.is_empty() => Err(Problem::usage(format!("no record of call `{id}`"))
                .hint("list the refused calls with `sinew ledger query --kind refusal`")),
            None => Err(Problem::usage(format!("call `{id}` was not refused"))
                .hint(format!("see its outcome with `sinew ledger show {id}`"))),
        }
    }

    fn read(id: CallId, record: &Record) -> Option<Refused> {
        let Entry::Refusal(refusal) = &record.entry else { return None };
        let facts = refusal.facts.clone();
        let host = facts.pointer("/host/name").and_then(Value::as_str).map(str::to_owned);
        Some(Refused { id, tool: refusal.call.tool.clone(), host, reason: refusal.reason.clone(), facts })
    }

    /// Returns true if the call was refused before its paths were opened.
    fn by_names_alone(&self) -> bool {
        let paths = self.facts.get("paths").and_then(Value::as_array);
        paths.into_iter().flatten().any(|path| path.get("kind") == Some(&json!("unopened")))
    }

    fn definition<'w>(&self, snapshot: &'w World, policy: &Policy) -> Result<&'w ToolDefinition, Problem> {
        snapshot
            .judged_as(&self.tool, self.host.as_deref(), policy)
            .ok_or_else(|| self.hopeless("the tool does not exist", "list the tools with `sinew tools list`"))
    }

    fn judge(&self, snapshot: &World, policy: &Policy) -> Result<Rehearsal, Problem> {
        let definition = self.definition(snapshot, policy)?;
        let found = policy.replay(definition, &self.facts, &snapshot.workspaces);
        found.ok_or_else(|| {
            let hint =
                "it was refused before any rule was evaluated, or its record is incomplete: see the reason";
            self.hopeless("the ledger record lacks the facts that the rules need", hint)
        })
    }

    fn hopeless(&self, why: &str, instead: &str) -> Problem {
        let reason = visible_line(&self.reason);
        Problem::new(Exit::Refused, format!("no policy change can be proposed: {why} ({reason})"))
            .hint(instead)
    }

    /// Lifts one rule after another until the call is permitted or needs approval. A call that needed
    /// approval before any edit must end up permitted.
    fn propose(
        &self,
        snapshot: &World,
        around: &Surroundings,
        found: Rehearsal,
    ) -> Result<Proposal, Problem> {
        let asked_before = found.verdict == Expectation::Ask;
        let (mut found, mut rules) = (found, Vec::new());
        let mut changed: Option<Policy> = None;
        for _ in 0..MOST_CHANGES {
            let policy = changed.as_ref().unwrap_or(&snapshot.policy);
            let (edits, blamed) = self.edits(snapshot, policy, &found)?;
            rules.extend(blamed);
            for edit in &edits {
                changed = Some(self.amended(changed.as_ref().unwrap_or(&snapshot.policy), edit, around)?);
            }
            let Some(policy) = &changed else { break };
            let again = self.judge(snapshot, policy)?;
            let same = again.refusal == found.refusal && again.asked_by == found.asked_by;
            found = again;
            if found.verdict == Expectation::Allow || (found.verdict == Expectation::Ask && !asked_before) {
                self.check(snapshot, policy)?;
                return changed.map_or_else(
                    || Err(self.unproven()),
                    |policy| Ok(Proposal { policy, rules, becomes: found }),
                );
            }
            if same || found.verdict == Expectation::Ask {
                break;
            }
        }
        Err(self.still_asked(&found).unwrap_or_else(|| self.unproven()))
    }

    /// Returns the next edits and the rules that they lift.
    fn edits(
        &self,
        snapshot: &World,
        policy: &Policy,
        found: &Rehearsal,
    ) -> Result<(Vec<Edit>, Vec<RuleRef>), Problem> {
        if found.verdict == Expectation::Ask {
            let edits = policy.unattended(self.definition(snapshot, policy)?, &self.facts);
            return match edits.is_empty() {
                true => Err(self.still_asked(found).unwrap_or_else(|| self.unproven())),
                false => Ok((edits, found.asked_by.clone())),
            };
        }
        let change = found.trail.changes().first().ok_or_else(|| self.floor(found))?;
        let edit = change.edit.clone().ok_or_else(|| self.by_hand(change))?;
        Ok((vec![edit], vec![change.rule.clone()]))
    }

    fn floor(&self, found: &Rehearsal) -> Problem {
        let refusal = found.refusal.as_deref();
        let hint = refusal.and_then(|refusal| refusal.hint.clone());
        self.hopeless("a built-in denial refuses it, and no file can change that", &hint.unwrap_or_default())
    }

    fn by_hand(&self, change: &Change) -> Problem {
        let write = change.write.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
        let place = visible_line(&render::rule(&change.rule));
        self.hopeless(
            &format!("{place} has to be changed by hand"),
            &format!("{}{}", change.how, visible_line(&write)),
        )
    }

    fn still_asked(&self, found: &Rehearsal) -> Option<Problem> {
        let rules: Vec<String> = found.asked_by.iter().map(render::rule).collect();
        if rules.is_empty() {
            return None;
        }
        let hint = "approve the call when it is pending; such a rule can only be removed by hand";
        Some(self.hopeless(&format!("approval is required by {}", visible_line(&rules.join(", "))), hint))
    }

    fn unproven(&self) -> Problem {
        self.hopeless("no small change permits the call", "see every rule that applies with `sinew explain`")
    }

    fn amended(&self, policy: &Policy, edit: &Edit, around: &Surroundings) -> Result<Policy, Problem> {
        let changed =
            policy_tools::amended(policy, edit, around).map_err(|error| self.broken(&error.to_string()))?;
        changed.ok_or_else(|| {
            let (file, keys) = (edit.file.name(), edit.keys.join("."));
            let problem =
                Problem::configuration(format!("this command cannot edit {file} in its current form"));
            problem.hint(format!("change `{keys}` in that file by hand"))
        })
    }

    /// Checks that the changed policy would load: its own examples may require that this call is refused.
    fn check(&self, snapshot: &World, policy: &Policy) -> Result<(), Problem> {
        let judged = snapshot.hosts.iter().flat_map(execution::Host::definitions);
        let definitions = snapshot.registry.definitions().chain(judged).map(AsRef::as_ref);
        policy.check_tools(definitions).map(drop).map_err(|error| self.broken(&error.to_string()))
    }

    fn broken(&self, error: &str) -> Problem {
        let problem =
            Problem::new(Exit::Refused, format!("the changed policy would not load:\n{}", visible(error)));
        problem.hint("the change contradicts another part of the policy; change both by hand, or neither")
    }
}

impl Proposal {
    fn changed_files<'a>(&'a self, old: &'a Policy) -> impl Iterator<Item = PolicyFile> + 'a {
        PolicyFile::ALL.into_iter().filter(|file| old.text(*file) != self.policy.text(*file))
    }

    fn diff(&self, setting: &Setting, old: &Policy) -> Result<String, Problem> {
        let folder = setting.home().config().join("governance");
        let mut text = String::new();
        let files: BTreeSet<PolicyFile> = self.changed_files(old).collect();
        for file in files {
            let name = folder.join(file.name()).display().to_string();
            text.push_str(&unified(&name, old.text(file), self.policy.text(file)));
        }
        Ok(text)
    }

    /// Replaces each changed file atomically. A file that was edited since the policy was loaded is not
    /// overwritten.
    fn write(&self, setting: &Setting, old: &Policy) -> Result<(), Problem> {
        if init::missing(setting) {
            init::write(setting, init::Existing::Keep)?;
        }
        let folder = setting.home().config().join("governance");
        for file in self.changed_files(old) {
            let path = folder.join(file.name());
            let current = std::fs::read_to_string(&path).map_err(|error| {
                Problem::configuration(format!("{} cannot be read: {error}", path.display()))
            })?;
            if current != old.text(file) {
                let problem =
                    Problem::configuration(format!("{} was changed while this command ran", path.display()));
                return Err(problem.hint("run the command again"));
            }
            init::replace(&path, self.policy.text(file))?;
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
        Some('+') => paint(GOOD, line),
        Some('-') => paint(BAD, line),
        Some('@') => paint(QUIET, line),
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
