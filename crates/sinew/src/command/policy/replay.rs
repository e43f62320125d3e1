//! `sinew policy replay`: judges the recorded calls again by a candidate policy and shows the differences.

use std::collections::BTreeMap;
use std::path::Path;

use execution::{Host, World};
use governance::Policy;
use guardrail::Curated;
use jiff::Timestamp;
use ledger::{Entry, Filter, Reader, Record};
use policy_tools::{Difference, Effect, compare};
use serde_json::{Value, json};
use tool::{RefusalCode, ToolDefinition};

use crate::cli::JsonArgs;
use crate::command::ledger::unreadable;
use crate::compose::{self, Folders};
use crate::exit::{Exit, Problem};
use crate::render;
use crate::setting::Setting;
use crate::terminal::{BAD, GOOD, NOTE, QUIET, paint, say, visible_line};

/// Number of calls shown for each kind of change. All are counted.
const SAMPLES: usize = 5;

/// Counts of replayed calls by result.
#[derive(Default)]
struct Tally {
    same: usize,
    /// Calls that cannot be judged: the record is incomplete, or the tool no longer exists.
    unjudged: usize,
    /// Calls that were refused when they were made.
    refusals: usize,
    /// Samples of calls that the candidate decides differently, by tool, recorded verdict and new verdict.
    changed: BTreeMap<(String, &'static str, String), Vec<Value>>,
}

pub(crate) fn run(
    setting: &Setting,
    against: &Path,
    since: Timestamp,
    output: JsonArgs,
) -> Result<Exit, Problem> {
    let snapshot = compose::world(setting, &setting.settings()?, Folders::Configured)?;
    let loaded = Policy::load(against, &compose::surroundings(setting)).map_err(Problem::configuration)?;
    let candidate = loaded.on_the_machine_of(&snapshot.policy);
    let definitions = definitions(&snapshot);
    candidate.check_tools(definitions.iter().copied()).map_err(Problem::configuration)?;
    let folder = compose::ledger_folder(setting);
    let of = |kind: &str| Filter { kind: Some(kind.to_owned()), since: Some(since), ..Filter::default() };
    let reader = Reader::new(&folder);
    let decisions = reader.query(&of("decision")).map_err(unreadable(&folder))?;
    let refusals = reader.query(&of("refusal")).map_err(unreadable(&folder))?;
    let mut tally = Tally { refusals: refusals.len(), ..Tally::default() };
    for record in decisions.iter().chain(&refusals) {
        tally.judge(record, &candidate, &snapshot);
    }
    let mut differences = compare(&snapshot.policy, &candidate, definitions);
    differences.extend(of_the_map(against, &snapshot)?);
    if output.json { tally.say_json(&differences) } else { tally.show(&differences) }?;
    Ok(Exit::Done)
}

/// Returns the differences of the curated map in the candidate folder, if it has one.
fn of_the_map(against: &Path, snapshot: &World) -> Result<Vec<Difference>, Problem> {
    if !against.join(guardrail::EMBEDDED.0).exists() {
        return Ok(Vec::new());
    }
    let candidate = Curated::load(against).map_err(Problem::configuration)?;
    Ok(execution::between_maps(&snapshot.curated, &candidate))
}

/// Returns the definitions of all tools, including host tools, except host tools with the name of a
/// registered tool.
fn definitions(snapshot: &World) -> Vec<&ToolDefinition> {
    let mut all: Vec<&ToolDefinition> = snapshot.registry.definitions().map(AsRef::as_ref).collect();
    for judged in snapshot.hosts.iter().flat_map(Host::definitions) {
        if !all.iter().any(|known| known.name() == judged.name()) {
            all.push(judged);
        }
    }
    all
}

impl Tally {
    fn judge(&mut self, record: &Record, by: &Policy, snapshot: &World) {
        let body = record.json();
        let tool = body.get("tool").and_then(Value::as_str).unwrap_or_default();
        let facts = body.get("facts").unwrap_or(&Value::Null);
        let host = facts.pointer("/host/name").and_then(Value::as_str);
        let definition = snapshot.judged_as(tool, host, by);
        let found = definition.and_then(|definition| by.replay(definition, facts, &snapshot.workspaces));
        let Some(found) = found else {
            self.unjudged += 1;
            return;
        };
        let was = was(record);
        if found.verdict.to_string() == was {
            self.same += 1;
            return;
        }
        let rule = found
            .refusal
            .as_ref()
            .and_then(|refusal| refusal.rule.clone())
            .or(found.asked_by.first().cloned());
        let sample = json!({"call_id": body.get("call_id"), "time": record.time.to_string(), "found": found.summary(),
            "rule": rule});
        self.changed.entry((tool.to_owned(), was, found.verdict.to_string())).or_default().push(sample);
    }

    fn say_json(&self, differences: &[Difference]) -> Result<(), Problem> {
        let changed = self.changed.iter().map(|((tool, was, verdict), samples)| {
            json!({"tool": tool, "was": was, "becomes": verdict, "calls": samples.len(),
                "samples": samples.iter().take(SAMPLES).collect::<Vec<_>>()})
        });
        say(
            json!({"schema_version": 1, "same": self.same, "not_judged": self.unjudged, "refusals": self.refusals,
            "changed": changed.collect::<Vec<_>>(), "differences": differences}),
        )
    }

    fn show(&self, differences: &[Difference]) -> Result<(), Problem> {
        for difference in differences {
            let (style, word) = match difference.effect {
                Effect::Tightens => (GOOD, "tightens"),
                Effect::Neutral => (QUIET, "neutral"),
                Effect::Loosens => (BAD, "loosens"),
            };
            let place =
                difference.rule.as_ref().map(|rule| format!(" ({})", render::rule(rule))).unwrap_or_default();
            say(format!("{} {}{place}", paint(style, word), visible_line(&difference.what)))?;
        }
        for ((tool, was, verdict), samples) in &self.changed {
            let count = samples.len();
            let (style, before) = match *was {
                "allow" => (NOTE, "ran"),
                "ask" => (BAD, "needed approval"),
                _ => (BAD, "were refused"),
            };
            let tool = visible_line(tool);
            say(paint(style, format!("{count} calls of {tool} {before} and would now be: {verdict}")))?;
            for sample in samples.iter().take(SAMPLES) {
                let text = |key: &str| sample.get(key).and_then(Value::as_str).unwrap_or_default();
                say(format!("  {} {} {}", text("time"), text("call_id"), visible_line(text("found"))))?;
            }
        }
        let changed: usize = self.changed.values().map(Vec::len).sum();
        say(format!(
            "{} calls, {} of them refused: {} unchanged, {changed} changed, {} not judged",
            self.same + changed + self.unjudged,
            self.refusals,
            self.same,
            self.unjudged
        ))?;
        match self.unjudged {
            0 => Ok(()),
            _ => say(paint(
                QUIET,
                "not judged: refused before any rule was evaluated, or the tool no longer exists",
            )),
        }
    }
}

/// Returns the verdict of the rules when the call was made, whatever the operator decided afterwards.
fn was(record: &Record) -> &'static str {
    match &record.entry {
        Entry::Refusal(refused) => match refused.code {
            RefusalCode::ApprovalPending | RefusalCode::ApprovalTimedOut | RefusalCode::ApprovalDenied => {
                "ask"
            }
            _ => "deny",
        },
        Entry::Decision(decision) if decision.approval_id.is_some() => "ask",
        _ => "allow",
    }
}
