//! Progress notifications of a running call, for clients that sent a progress token. All are sent before the
//! result.

use execution::CallRequest;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tool::{Progress, ProgressNote, ToolResult};

use crate::notify::Notifier;

const METHOD: &str = "notifications/progress";
/// Maximum number of queued progress notes. A client that reads slowly misses some of them.
const MAX_QUEUED_NOTES: usize = 64;

/// Runs a call and sends its progress to the client, if the client sent a progress token.
pub(crate) async fn execute_with_progress<F>(
    mut request: CallRequest,
    listener: Option<(Value, Notifier)>,
    execute: impl FnOnce(CallRequest) -> F,
) -> ToolResult
where
    F: Future<Output = ToolResult>,
{
    let Some(listener) = listener else { return execute(request).await };
    let mut sender = ProgressSender::new(listener);
    let mut notes = listen(&mut request);
    let mut running = Box::pin(execute(request));
    let ended = loop {
        tokio::select! {
            biased;
            Some(note) = notes.recv() => sender.send(note).await,
            ended = &mut running => break ended,
        }
    };
    while let Ok(note) = notes.try_recv() {
        sender.send(note).await;
    }
    ended
}

/// Returns the queue that the progress of a call will be put into.
pub(super) fn listen(request: &mut CallRequest) -> mpsc::Receiver<ProgressNote> {
    let (sender, notes) = mpsc::channel(MAX_QUEUED_NOTES);
    request.progress = Progress::with_listener(move |note| drop(sender.try_send(note)));
    notes
}

/// Sends the progress of one call to its client.
pub(super) struct ProgressSender {
    token: Value,
    notifier: Notifier,
    amounts: ProgressAmounts,
    /// `_meta` entry of every notification, for a call that is a task.
    related: Option<(String, Value)>,
}

impl ProgressSender {
    pub(super) fn new((token, notifier): (Value, Notifier)) -> Self {
        ProgressSender { token, notifier, amounts: ProgressAmounts::default(), related: None }
    }

    /// Adds an entry to the `_meta` of every notification.
    pub(super) fn with_meta(self, entry: (String, Value)) -> Self {
        ProgressSender { related: Some(entry), ..self }
    }

    pub(super) async fn send(&mut self, note: ProgressNote) {
        let amount = self.amounts.next(note.done_of_total);
        let mut params = notification_params(&self.token, amount, note);
        if let (Some((key, value)), Some(Value::Object(meta))) = (&self.related, params.get_mut("_meta")) {
            meta.insert(key.clone(), value.clone());
        }
        self.notifier.notify(METHOD, &params).await;
    }
}

/// Amount of work in a notification, and the total if it is known.
type ProgressAmount = (u64, Option<u64>);

/// Amounts that were sent. MCP requires an amount that increases with every notification.
#[derive(Default)]
struct ProgressAmounts {
    next: u64,
}

impl ProgressAmounts {
    /// Returns the share of the work that is done, or the next larger number if the share is unknown or has
    /// not grown.
    fn next(&mut self, share: Option<(u64, u64)>) -> ProgressAmount {
        let (amount, total) = match share {
            Some((done, total)) if done >= self.next => (done, Some(total)),
            Some(_) | None => (self.next, None),
        };
        self.next = amount.saturating_add(1);
        (amount, total)
    }
}

fn notification_params(token: &Value, (amount, total): ProgressAmount, note: ProgressNote) -> Value {
    let mut meta = Map::new();
    let share = note.done_of_total.map(|(done, total)| json!({"done": done, "total": total}));
    meta.extend(share.map(|share| ("sinew/share".to_owned(), share)));
    meta.extend(note.data.map(|data| ("sinew/data".to_owned(), data)));
    let mut params =
        json!({"progressToken": token, "progress": amount, "message": note.message, "_meta": meta});
    if let (Some(total), Some(params)) = (total, params.as_object_mut()) {
        params.insert("total".to_owned(), total.into());
    }
    params
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use tokio::io::{AsyncBufReadExt, BufReader};
    use tool::result::ResultMetadata;
    use tool::{CallId, Caller, CallerEndpoint, Failure, FailureKind, Mode, TraceContext};

    use super::*;
    use crate::outbox::{Outbox, OutboxHooks};

    fn request() -> CallRequest {
        CallRequest {
            tool_name: "t".to_owned(),
            arguments: json!({}),
            caller: Caller {
                uid: 1,
                pid: None,
                endpoint: CallerEndpoint::Mcp,
                connection: 1,
                client: None,
                session: None,
                account: None,
            },
            trace: TraceContext::root(),
            deadline: None,
            cwd: None,
            progress: Progress::default(),
            started: Instant::now(),
            curated_map: Default::default(),
            idempotency_key: None,
            cancellation: Default::default(),
            approval_mode: Default::default(),
            approval_id: None,
            connection_loss: execution::ConnectionLoss::StopsCall,
        }
    }

    #[test]
    fn amounts_increase_whatever_the_tool_reports() {
        let mut amounts = ProgressAmounts::default();
        let reported = [Some((0, 100)), Some((50, 100)), None, Some((10, 100)), Some((100, 100)), None];
        let sent: Vec<ProgressAmount> = reported.into_iter().map(|share| amounts.next(share)).collect();
        let expect = [(0, Some(100)), (50, Some(100)), (51, None), (52, None), (100, Some(100)), (101, None)];
        assert_eq!(sent, expect);
    }

    #[tokio::test]
    async fn progress_precedes_the_result_in_increasing_order() {
        let (server, client) = tokio::io::duplex(1024);
        let (outbox, _writer) = Outbox::open(server, Duration::from_secs(60), OutboxHooks::none());
        let ended = execute_with_progress(
            request(),
            Some((json!("tok"), Notifier::new(outbox))),
            |request| async move {
                let note = ProgressNote {
                    done_of_total: Some((1, 2)),
                    data: Some(json!({"seq": 0})),
                    ..ProgressNote::with_message("half")
                };
                request.progress.report(note);
                request.progress.report(ProgressNote::with_message("done"));
                let metadata = ResultMetadata::new(CallId::fresh(), &TraceContext::root(), Mode::Normal, "p");
                ToolResult::failed("t", Failure::new(FailureKind::Cancelled, "x"), metadata, 0.0)
            },
        )
        .await;
        assert!(!ended.success);
        let mut lines = BufReader::new(client).lines();
        for (step, message) in [(1, "half"), (2, "done")] {
            let total = (step == 1).then(|| json!(2));
            let text: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
            assert_eq!((&text["method"], &text["params"]["progressToken"]), (&json!(METHOD), &json!("tok")));
            assert_eq!(
                (&text["params"]["progress"], &text["params"]["message"]),
                (&json!(step), &json!(message))
            );
            assert_eq!(text["params"].get("total"), total.as_ref());
            if step == 1 {
                let meta = json!({"sinew/share": {"done": 1, "total": 2}, "sinew/data": {"seq": 0}});
                assert_eq!(text["params"]["_meta"], meta);
            }
        }
    }
}
