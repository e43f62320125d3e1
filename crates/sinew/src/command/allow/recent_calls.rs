//! Refused calls of the last week, judged again under a proposed change.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use execution::ConfigSnapshot;
use governance::files::VerdictKind;
use governance::{Policy, Workspaces};
use jiff::Timestamp;
use ledger::{LedgerReader, LedgerRecord, RecordFilter};
use serde_json::{Value, json};
use tool::CallId;

use super::proposal::PolicyProposal;
use crate::command::ledger::read_error;
use crate::command_context::CommandContext;
use crate::compose;
use crate::exit::CommandError;

/// Age of the oldest call that is judged again.
const RECENT_DAYS: u64 = 7;

/// Recorded refusals of the last days. A permitted call stays permitted by a change that loosens, so it is not read.
pub(super) struct RecentCalls(Vec<LedgerRecord>);

/// Other recorded calls that a change makes possible, by tool.
#[derive(Default)]
pub(super) struct RecentChanges {
    judged: usize,
    by_tool: BTreeMap<String, Vec<String>>,
}

impl RecentCalls {
    pub(super) fn read(context: &CommandContext) -> Result<RecentCalls, CommandError> {
        let age = Duration::from_secs(RECENT_DAYS * 24 * 60 * 60);
        let since = Timestamp::now().checked_sub(age).ok();
        let filter = RecordFilter { kind: Some("refusal".to_owned()), since, ..RecordFilter::default() };
        let folder = compose::ledger_dir(context);
        LedgerReader::new(&folder).query(&filter).map(RecentCalls).map_err(read_error(&folder))
    }

    /// Returns the calls besides `own` that the change makes possible, with or without approval.
    pub(super) fn changes(
        &self,
        snapshot: &ConfigSnapshot,
        proposal: &PolicyProposal,
        own: CallId,
    ) -> RecentChanges {
        let mut changes = RecentChanges::default();
        for record in &self.0 {
            let body = record.json();
            let id = body.get("call_id").and_then(Value::as_str).unwrap_or_default();
            let before = verdict(&body, snapshot, &snapshot.policy, &snapshot.workspaces);
            let after = verdict(&body, snapshot, &proposal.policy, &proposal.workspaces);
            let (Some(before), Some(after)) = (before, after) else { continue };
            changes.judged += 1;
            if strictness(after) < strictness(before) && id != own.to_string() {
                let tool = body.get("tool").and_then(Value::as_str).unwrap_or_default();
                changes.by_tool.entry(tool.to_owned()).or_default().push(id.to_owned());
            }
        }
        changes
    }
}

fn verdict(
    record: &Value,
    snapshot: &ConfigSnapshot,
    policy: &Policy,
    workspaces: &Workspaces,
) -> Option<VerdictKind> {
    let facts = record.get("facts")?;
    let host = facts.pointer("/host/name").and_then(Value::as_str);
    let definition = snapshot.definition_judged_as(record.get("tool")?.as_str()?, host, policy)?;
    Some(policy.replay(definition, facts, workspaces)?.verdict)
}

fn strictness(verdict: VerdictKind) -> u8 {
    match verdict {
        VerdictKind::Allow => 0,
        VerdictKind::Ask => 1,
        VerdictKind::Deny => 2,
    }
}

impl RecentChanges {
    pub(super) fn to_json(&self) -> Value {
        json!({"days": RECENT_DAYS, "judged": self.judged, "others": self.by_tool})
    }
}

impl fmt::Display for RecentChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others: usize = self.by_tool.values().map(Vec::len).sum();
        let refused = if self.judged == 1 { "refusal" } else { "refusals" };
        write!(f, "replayed: {} {refused} of the last {RECENT_DAYS} days, ", self.judged)?;
        if others == 0 {
            return f.write_str("no other refused call becomes possible");
        }
        let tools = self.by_tool.iter().map(|(tool, ids)| {
            let example = ids.last().map_or("", String::as_str);
            format!("{} of {tool} (such as {example})", ids.len())
        });
        write!(f, "{others} more become possible: {}", tools.collect::<Vec<_>>().join(", "))
    }
}
