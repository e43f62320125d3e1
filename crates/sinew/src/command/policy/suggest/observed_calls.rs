//! Reads the recorded calls, with the operator's answers, for `policy suggest`.

use std::collections::HashMap;

use execution::ConfigSnapshot;
use governance::RecordedCall;
use jiff::Timestamp;
use ledger::entry::{ApprovalEvent, ApprovalEventEntry};
use ledger::{CallHeader, LedgerEntry, LedgerReader, LedgerRecord, RecordFilter};
use policy_tools::{ObservedCall, OperatorAnswer};
use serde_json::Value;
use tool::CallId;

use crate::command::ledger::read_error;
use crate::command::policy::replay::recorded_verdict;
use crate::command_context::CommandContext;
use crate::compose;
use crate::exit::CommandError;

/// Most decisions that are read, the newest first. Those before the period tell when a rule was last used.
const MAX_DECISIONS: usize = 200_000;

/// Reads the decisions and refusals of the period, and earlier decisions.
pub(super) fn read<'s>(
    context: &CommandContext,
    snapshot: &'s ConfigSnapshot,
    since: Timestamp,
) -> Result<Vec<ObservedCall<'s>>, CommandError> {
    let folder = compose::ledger_dir(context);
    let reader = LedgerReader::new(&folder);
    let query = |kind: &str, since: Option<Timestamp>, limit: Option<usize>| {
        let filter = RecordFilter { kind: Some(kind.to_owned()), since, limit, ..RecordFilter::default() };
        reader.query(&filter).map_err(read_error(&folder))
    };
    let mut questions = OperatorQuestions::default();
    // Newest first in the ledger; an answer follows its question.
    query("approval", Some(since), None)?.iter().rev().for_each(|record| questions.add(record));
    let decisions = query("decision", None, Some(MAX_DECISIONS))?;
    let refusals = query("refusal", Some(since), None)?;
    let records = decisions.into_iter().chain(refusals);
    Ok(records.filter_map(|record| observed_call(&record, snapshot, &mut questions)).collect())
}

/// Approval requests of the period by id, and the calls that made them.
#[derive(Default)]
struct OperatorQuestions {
    answers: HashMap<String, (Timestamp, OperatorAnswer)>,
    by_call: HashMap<CallId, String>,
}

impl OperatorQuestions {
    fn add(&mut self, record: &LedgerRecord) {
        let LedgerEntry::Approval(ApprovalEventEntry { id, event, call_id, .. }) = &record.entry else {
            return;
        };
        match event {
            ApprovalEvent::Requested => {
                self.answers.insert(id.clone(), (record.time, OperatorAnswer::Unanswered));
                self.by_call.extend(call_id.map(|call| (call, id.clone())));
            }
            ApprovalEvent::Granted => {
                self.answer(id, record.time, |seconds| OperatorAnswer::Granted { seconds })
            }
            ApprovalEvent::Denied => self.answer(id, record.time, |_| OperatorAnswer::Denied),
            ApprovalEvent::Standing
            | ApprovalEvent::Expired
            | ApprovalEvent::Used
            | ApprovalEvent::Void
            | ApprovalEvent::Revoked
            | ApprovalEvent::Other => {}
        }
    }

    fn answer(&mut self, id: &str, time: Timestamp, answer: impl FnOnce(u64) -> OperatorAnswer) {
        if let Some((asked, known)) = self.answers.get_mut(id) {
            let seconds = time.duration_since(*asked).as_secs();
            *known = answer(u64::try_from(seconds).unwrap_or_default());
        }
    }

    /// Returns the answer to a request once, so that a call which was repeated counts as one question.
    fn take(&mut self, approval_id: Option<&str>, call: CallId) -> Option<OperatorAnswer> {
        let by_call = self.by_call.get(&call).cloned();
        let id = approval_id.map(str::to_owned).or(by_call)?;
        self.answers.remove(&id).map(|(_, answer)| answer)
    }
}

fn observed_call<'s>(
    record: &LedgerRecord,
    snapshot: &'s ConfigSnapshot,
    questions: &mut OperatorQuestions,
) -> Option<ObservedCall<'s>> {
    let verdict = recorded_verdict(&record.entry)?;
    let (header, facts, approval_id) = match &record.entry {
        LedgerEntry::Refusal(refusal) => (&refusal.call, &refusal.facts, None),
        entry => {
            let decision = entry.decision()?;
            (&decision.call, &decision.facts, decision.approval_id.as_deref())
        }
    };
    let CallHeader { call_id, tool, caller, .. } = &**header;
    let host = facts.pointer("/host/name").and_then(Value::as_str);
    Some(ObservedCall {
        call_id: call_id.to_string(),
        time: record.time,
        definition: snapshot.definition_judged_as(tool, host, &snapshot.policy)?,
        party: caller.session.clone().unwrap_or_else(|| caller.display_name()),
        verdict,
        answer: questions.take(approval_id, *call_id),
        facts: RecordedCall::parse(facts),
    })
}
