//! `sinew policy replay`: judges the recorded calls again by a candidate policy and shows the differences.

use std::collections::BTreeMap;
use std::path::Path;

use execution::ConfigSnapshot;
use execution::ledger_queries::RuleRehearsal;
use governance::Policy;
use governance::files::VerdictKind;
use guardrail::CuratedGuardrails;
use jiff::Timestamp;
use ledger::{LedgerEntry, LedgerReader};
use policy_tools::{PolicyDifference, PolicyEffect, compare_policies};
use serde::Deserialize;
use serde_json::{Value, json};
use tool::{RefusalCode, ToolDefinition};

use crate::cli::JsonArgs;
use crate::command::ledger::read_error;
use crate::command_context::CommandContext;
use crate::compose::{self, WorkspaceSelection};
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{
    DIM_STYLE, ERROR_STYLE, LiveLine, SUCCESS_STYLE, WARNING_STYLE, escape_invisible_line, paint,
    print_result_line,
};
use crate::units;

use super::diff::policy_named;
use super::mode_rules;

/// Number of calls shown for each kind of change. All are counted.
const SAMPLES: usize = 5;

/// Counts of replayed calls by result, in the order of the records.
#[derive(Default)]
struct ReplayTally {
    same: usize,
    /// Calls that cannot be judged: the record is incomplete, or the tool no longer exists.
    unjudged: usize,
    /// Calls that were refused when they were made.
    refusals: usize,
    /// Calls that the candidate decides differently, by tool, recorded verdict and new verdict.
    changed: BTreeMap<(String, String, String), ChangedCalls>,
}

/// Number of calls that the candidate decides differently, and the last of them.
#[derive(Default)]
struct ChangedCalls {
    count: usize,
    samples: Vec<Value>,
}

/// Record of a decision or of a refusal, with the members that a replay needs.
#[derive(Deserialize)]
struct ReplayedCall {
    time: Timestamp,
    call_id: String,
    tool: String,
    approval_id: Option<String>,
    code: Option<RefusalCode>,
    #[serde(default)]
    facts: Value,
}

pub(crate) fn run(
    context: &CommandContext,
    against: &str,
    since: Timestamp,
    output: JsonArgs,
) -> Result<ExitKind, CommandError> {
    let snapshot = compose::config_snapshot(context, &context.settings()?, WorkspaceSelection::Configured)?;
    let candidate = policy_named(context, &snapshot, against)?;
    let definitions = definitions(&snapshot);
    candidate.check_tools(definitions.iter().copied()).map_err(CommandError::configuration)?;
    let folder = compose::ledger_dir(context);
    let line = LiveLine::start("judging the recorded calls again");
    let tallies = LedgerReader::new(&folder).fold_segments(since, |tally: &mut ReplayTally, kind, line| {
        if matches!(kind, "decision" | "call" | "refusal") {
            tally.add_record(kind, line, &candidate, &snapshot);
        }
    });
    let tally =
        tallies.map_err(read_error(&folder))?.into_iter().fold(ReplayTally::default(), ReplayTally::and);
    drop(line);
    let mut differences = compare_policies((&snapshot.policy, &candidate), &snapshot.workspaces, definitions);
    differences.extend(curated_map_differences(Path::new(against), &snapshot)?);
    let rehearsal = mode_rules::rehearse(context, &snapshot, &candidate, since)?;
    if output.json {
        tally.print_json(&differences, &rehearsal)?;
    } else {
        tally.print_summary(&differences)?;
        mode_rules::show(&rehearsal)?;
    }
    Ok(ExitKind::Done)
}

/// Returns the differences of the curated map in the candidate folder, if it has one.
fn curated_map_differences(
    against: &Path,
    snapshot: &ConfigSnapshot,
) -> Result<Vec<PolicyDifference>, CommandError> {
    if !against.join(guardrail::EMBEDDED_FILE.0).exists() {
        return Ok(Vec::new());
    }
    let candidate = CuratedGuardrails::load(against).map_err(CommandError::configuration)?;
    Ok(execution::reload::curated_map_differences(&snapshot.curated, &candidate))
}

/// Returns the definitions of all tools, including host tools, except host tools with the name of a
/// registered tool.
pub(super) fn definitions(snapshot: &ConfigSnapshot) -> Vec<&ToolDefinition> {
    let mut all: Vec<&ToolDefinition> = snapshot.registry.definitions().map(AsRef::as_ref).collect();
    for judged in snapshot.hosts.iter().flat_map(|host| host.judged_definitions(&snapshot.policy)) {
        if !all.iter().any(|known| known.name() == judged.name()) {
            all.push(judged);
        }
    }
    all
}

impl ReplayTally {
    fn add_record(&mut self, kind: &str, line: &[u8], by: &Policy, snapshot: &ConfigSnapshot) {
        self.refusals += usize::from(kind == "refusal");
        let judged = serde_json::from_slice(line).ok().and_then(|call: ReplayedCall| {
            let host = call.facts.pointer("/host/name").and_then(Value::as_str);
            let definition = snapshot.definition_judged_as(&call.tool, host, by)?;
            let found = by.replay(definition, &call.facts, &snapshot.workspaces)?;
            Some((call, found))
        });
        let Some((call, found)) = judged else {
            self.unjudged += 1;
            return;
        };
        let was = verdict_of(call.code, call.approval_id.is_some());
        if found.verdict == was {
            self.same += 1;
            return;
        }
        let rule = found
            .refusal
            .as_ref()
            .and_then(|refusal| refusal.rule.clone())
            .or(found.approval_rules.first().cloned());
        let sample = json!({"call_id": call.call_id, "time": call.time.to_string(), "found": found.summary(), "rule": rule});
        let change = (call.tool, was.to_string(), found.verdict.to_string());
        self.changed.entry(change).or_default().add(1, [sample]);
    }

    /// Adds the calls that were recorded after these.
    fn and(mut self, later: ReplayTally) -> ReplayTally {
        self.same += later.same;
        self.unjudged += later.unjudged;
        self.refusals += later.refusals;
        for (change, calls) in later.changed {
            self.changed.entry(change).or_default().add(calls.count, calls.samples);
        }
        self
    }

    fn print_json(
        &self,
        differences: &[PolicyDifference],
        rehearsal: &RuleRehearsal,
    ) -> Result<(), CommandError> {
        let changed = self.changed.iter().map(|((tool, was, verdict), calls)| {
            json!({"tool": tool, "was": was, "becomes": verdict, "calls": calls.count,
                "samples": calls.samples.iter().rev().collect::<Vec<_>>()})
        });
        render::print_json(json!({"same": self.same, "not_judged": self.unjudged, "refusals": self.refusals,
            "changed": changed.collect::<Vec<_>>(), "differences": differences, "mode_rules": rehearsal}))
    }

    fn print_summary(&self, differences: &[PolicyDifference]) -> Result<(), CommandError> {
        for difference in differences {
            let (style, word) = match difference.effect {
                PolicyEffect::Tightens => (SUCCESS_STYLE, "tightens"),
                PolicyEffect::Neutral => (DIM_STYLE, "neutral"),
                PolicyEffect::Loosens => (ERROR_STYLE, "loosens"),
            };
            let place = difference
                .rule
                .as_ref()
                .map(|rule| format!(" ({})", render::format_rule(rule)))
                .unwrap_or_default();
            print_result_line(format!(
                "{} {}{place}",
                paint(style, word),
                escape_invisible_line(&difference.description)
            ))?;
        }
        for ((tool, was, verdict), ChangedCalls { count, samples }) in &self.changed {
            let (style, before) = match was.as_str() {
                "allow" => (WARNING_STYLE, "permitted"),
                "ask" => (ERROR_STYLE, "approval required"),
                _ => (ERROR_STYLE, "refused"),
            };
            let tool = escape_invisible_line(tool);
            print_result_line(paint(
                style,
                format!("{tool}: {before} before, {verdict} now ({count} recorded)"),
            ))?;
            for sample in samples.iter().rev() {
                let text = |key: &str| sample.get(key).and_then(Value::as_str).unwrap_or_default();
                print_result_line(format!(
                    "  {} {} {}",
                    units::local_time_text(text("time")),
                    text("call_id"),
                    escape_invisible_line(text("found"))
                ))?;
            }
        }
        let changed: usize = self.changed.values().map(|calls| calls.count).sum();
        print_result_line(format!(
            "{} calls, {} of them refused: {} unchanged, {changed} changed, {} not judged",
            self.same + changed + self.unjudged,
            self.refusals,
            self.same,
            self.unjudged
        ))?;
        match self.unjudged {
            0 => Ok(()),
            _ => print_result_line(paint(
                DIM_STYLE,
                "not judged: refused before any rule was evaluated, or the tool no longer exists",
            )),
        }
    }
}

impl ChangedCalls {
    /// Adds later calls, and keeps the last samples.
    fn add(&mut self, count: usize, samples: impl IntoIterator<Item = Value>) {
        self.count += count;
        self.samples.extend(samples);
        self.samples.drain(..self.samples.len().saturating_sub(SAMPLES));
    }
}

/// Returns the verdict of the rules when the call was made, whatever the operator decided afterwards. `None` for an
/// entry without a verdict.
pub(super) fn recorded_verdict(entry: &LedgerEntry) -> Option<VerdictKind> {
    match entry {
        LedgerEntry::Refusal(refused) => Some(verdict_of(Some(refused.code), false)),
        entry => Some(verdict_of(None, entry.decision()?.approval_id.is_some())),
    }
}

/// Like `recorded_verdict`, by the code of a refusal and by the approval of a decision.
fn verdict_of(refused: Option<RefusalCode>, is_approved: bool) -> VerdictKind {
    match refused {
        Some(RefusalCode::ApprovalPending | RefusalCode::ApprovalTimedOut | RefusalCode::ApprovalDenied) => {
            VerdictKind::Ask
        }
        Some(_) => VerdictKind::Deny,
        None if is_approved => VerdictKind::Ask,
        None => VerdictKind::Allow,
    }
}
