//! A task in the format of each revision, and the form that informs the user of a client about an approval.
//!
//! Nothing that a client answers approves a call: the operator approves over the control socket.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::task_table::{AwaitedApproval, TaskState};

/// Interval at which a client should ask for the state of a task.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Prefix of the keys of forms; the id of the approval follows.
const FORM_KEY_PREFIX: &str = "approval-";

/// Returns a task in the format of revision 2025-11-25.
pub(super) fn handshake_task(state: &TaskState) -> Value {
    let failed = state.outcome.as_ref().map(|outcome| outcome.error.is_some() || outcome.reply.is_err());
    let status = match (state.is_cancelled, failed) {
        (true, _) => "cancelled",
        (false, None) => "working",
        (false, Some(true)) => "failed",
        (false, Some(false)) => "completed",
    };
    let mut task = common_fields(state, status);
    task.insert("ttl".to_owned(), millis(state.ttl));
    task.insert("pollInterval".to_owned(), millis(POLL_INTERVAL));
    Value::Object(task)
}

/// Returns a task in the format of the extension of the stateless revision, with its result once it has one.
/// A client that shows forms is requested to inform its user about an approval.
pub(super) fn stateless_task(state: &TaskState, shows_forms: bool) -> Map<String, Value> {
    let form = state.awaited.as_ref().filter(|awaited| shows_forms && !awaited.is_acknowledged);
    let outcome = state.outcome.as_ref().filter(|_| !state.is_cancelled).map(|outcome| &outcome.reply);
    let (status, detail) = match (state.is_cancelled, outcome, form) {
        (true, _, _) => ("cancelled", None),
        (false, Some(Ok(result)), _) => {
            // It was encoded here, so it is valid.
            let result: Value = serde_json::from_slice(result.bytes()).unwrap_or_default();
            ("completed", Some(("result", result)))
        }
        (false, Some(Err(error)), _) => ("failed", Some(("error", json!(error)))),
        (false, None, Some(awaited)) => ("input_required", Some(("inputRequests", approval_form(awaited)))),
        (false, None, None) => ("working", None),
    };
    let mut task = common_fields(state, status);
    task.insert("ttlMs".to_owned(), millis(state.ttl));
    task.insert("pollIntervalMs".to_owned(), millis(POLL_INTERVAL));
    task.extend(detail.map(|(key, value)| (key.to_owned(), value)));
    task
}

/// Returns the result that takes the place of the result of a call which became a task.
pub(super) fn created_stateless_task(state: &TaskState) -> Value {
    let mut task = stateless_task(state, false);
    task.insert("resultType".to_owned(), "task".into());
    Value::Object(task)
}

/// Returns the form, without fields, that informs the user of the client about a pending approval.
pub(super) fn approval_form(awaited: &AwaitedApproval) -> Value {
    let AwaitedApproval { id, tool, .. } = awaited;
    // Claude Code shows only the beginning of each line, so the lines are short and the first one says where to approve.
    let message = format!(
        "Approve `{tool}` in a terminal, not here: `sinew approvals watch`\n\
         or `sinew approve {id}`.\n\
         No answer to this form approves the call. Confirm it to continue waiting."
    );
    let schema = json!({"type": "object", "properties": {}});
    let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
    json!({format!("{FORM_KEY_PREFIX}{id}"): {"method": "elicitation/create", "params": params}})
}

/// Answer of a client to the form about an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormAnswer {
    /// The user continues to wait.
    Confirmed,
    /// The user does not wait.
    Declined,
}

/// Finds the answers to forms about approvals, each with the id of the approval.
pub(super) fn form_answers(responses: &Map<String, Value>) -> impl Iterator<Item = (&str, FormAnswer)> {
    responses.iter().filter_map(|(key, response)| {
        let is_confirmed = response.get("action").is_some_and(|action| action == "accept");
        let answer = if is_confirmed { FormAnswer::Confirmed } else { FormAnswer::Declined };
        Some((key.strip_prefix(FORM_KEY_PREFIX)?, answer))
    })
}

fn common_fields(state: &TaskState, status: &str) -> Map<String, Value> {
    let message = match (&state.awaited, &state.outcome) {
        _ if state.is_cancelled => Some("the task was cancelled by request".to_owned()),
        (_, Some(outcome)) => outcome.error.clone(),
        (Some(AwaitedApproval { id, .. }), None) => {
            Some(format!("waiting for approval {id}: the operator approves with `sinew approve {id}`"))
        }
        (None, None) => None,
    };
    let mut fields = Map::from_iter([
        ("taskId".to_owned(), json!(state.id)),
        ("status".to_owned(), json!(status)),
        ("createdAt".to_owned(), json!(state.created_at)),
        ("lastUpdatedAt".to_owned(), json!(state.updated_at)),
    ]);
    fields.extend(message.map(|message| ("statusMessage".to_owned(), message.into())));
    fields
}

fn millis(duration: Duration) -> Value {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::*;
    use crate::mcp::task_table::TaskOutcome;
    use crate::rpc::{self, RpcError};

    fn state() -> TaskState {
        TaskState {
            id: "7".into(),
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            ttl: Duration::from_secs(60),
            is_cancelled: false,
            awaited: None,
            outcome: None,
        }
    }

    fn ended(reply: rpc::RpcReply, error: Option<&str>) -> TaskState {
        let outcome = TaskOutcome { reply, error: error.map(str::to_owned) };
        TaskState { outcome: Some(Arc::new(outcome)), ..state() }
    }

    #[track_caller]
    fn check(state: &TaskState, handshake: &str, stateless: &str, detail: Option<&str>) {
        let (old, new) = (handshake_task(state), stateless_task(state, true));
        assert_eq!((&old["status"], &new["status"]), (&json!(handshake), &json!(stateless)));
        assert_eq!((&old["ttl"], &new["ttlMs"], old.get("ttlMs")), (&json!(60_000), &json!(60_000), None));
        assert_eq!(
            new.len(),
            6 + usize::from(new.contains_key("statusMessage")) + usize::from(detail.is_some())
        );
        assert!(detail.is_none_or(|detail| new.contains_key(detail)), "{new:?}");
    }

    #[test]
    fn each_revision_has_its_own_status() {
        check(&state(), "working", "working", None);
        check(&TaskState { is_cancelled: true, ..state() }, "cancelled", "cancelled", None);
        check(&ended(rpc::encode_result(&json!({})), None), "completed", "completed", Some("result"));
        // A refusal is a result for the newer revision, and a failure for the older one.
        check(&ended(rpc::encode_result(&json!({})), Some("no")), "failed", "completed", Some("result"));
        check(&ended(Err(RpcError::internal()), Some("no")), "failed", "failed", Some("error"));
        let cancelled = TaskState { is_cancelled: true, ..ended(rpc::encode_result(&json!({})), None) };
        check(&cancelled, "cancelled", "cancelled", None);
    }

    #[test]
    fn form_about_an_approval_has_no_fields() {
        let awaited = |is_acknowledged| {
            Some(AwaitedApproval { id: "a1".to_owned(), tool: "t".to_owned(), is_acknowledged })
        };
        let waiting = TaskState { awaited: awaited(false), ..state() };
        check(&waiting, "working", "input_required", Some("inputRequests"));
        let form = &stateless_task(&waiting, true)["inputRequests"]["approval-a1"];
        assert_eq!(form["params"]["requestedSchema"], json!({"type": "object", "properties": {}}));
        let message = form["params"]["message"].as_str().unwrap();
        assert!(message.lines().next().unwrap().contains("not here: `sinew approvals watch`"), "{message}");
        assert!(message.lines().all(|line| line.len() < 80), "{message}");
        assert!(message.contains("`sinew approve a1`"), "{message}");
        assert_eq!(stateless_task(&waiting, false)["status"], "working", "the client shows no forms");
        check(&TaskState { awaited: awaited(true), ..state() }, "working", "working", None);
        let responses = json!({"approval-a1": {"action": "accept", "content": {"approve": true}}, "other": {},
            "approval-b": {"action": "decline"}, "approval-c": 5});
        let answers: Vec<_> = form_answers(responses.as_object().unwrap()).collect();
        let (yes, no) = (FormAnswer::Confirmed, FormAnswer::Declined);
        assert_eq!(answers, [("a1", yes), ("b", no), ("c", no)]);
    }
}
