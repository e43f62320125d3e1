//! Runs the call of a task to its end, and keeps the state of the task current.
//!
//! In the revision with a handshake the client asks for a task. In the stateless revision the server decides: a
//! call becomes a task when it begins to wait for the operator, or when it takes long.

use std::pin::Pin;
use std::time::Duration;

use execution::RequestSlots;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tool::caller::CallerKey;
use tool::{ProgressNote, ToolResult};

use super::era::McpEra;
use super::progress::ProgressSender;
use super::task_table::{AwaitedApproval, RelatedTask, TaskHandle, TaskOutcome, TaskOwner, TaskTable};
use super::{result, task_view};
use crate::notify::Notifier;
use crate::rpc::{self, RpcError, RpcReply};

/// Time after which a running call becomes a task, if its client accepts that.
const LONG_RUN: Duration = Duration::from_secs(10);
/// Time for which a task of the stateless revision is retained.
const STATELESS_TTL: Duration = Duration::from_secs(60 * 60);
const STATUS_NOTIFICATION: &str = "notifications/tasks/status";
const RELATED_TASK_KEY: &str = "io.modelcontextprotocol/related-task";

/// Future of a call.
pub(super) type RunningCall = Pin<Box<dyn Future<Output = ToolResult> + Send>>;

/// Call that is a task, or may become one.
pub(super) struct TaskCall {
    pub(super) tool: String,
    pub(super) era: McpEra,
    pub(super) running: RunningCall,
    pub(super) notes: mpsc::Receiver<ProgressNote>,
    pub(super) progress: Option<ProgressSender>,
    pub(super) cancellation: CancellationToken,
}

/// Table in which the task of a call is created, with the owner and the caller of that task.
pub(super) struct TaskPlace {
    pub(super) table: TaskTable,
    pub(super) owner: TaskOwner,
    pub(super) caller: CallerKey,
    pub(super) request_slots: RequestSlots,
}

impl TaskPlace {
    fn create(self, ttl: Duration, cancellation: CancellationToken) -> Result<TaskHandle, RpcError> {
        self.table.create(self.owner, self.caller, ttl, cancellation).ok_or_else(|| {
            let most = super::task_table::MAX_TASKS_PER_CALLER;
            let message = format!(
                "too many tasks are running (at most {most} of one caller): wait for one, or cancel one"
            );
            RpcError::server("busy", message).with_data("max_tasks", most)
        })
    }
}

impl TaskCall {
    /// Starts the call as a task, which its client has asked for, and returns the reply to that request. The client
    /// is notified when the status changes.
    pub(super) fn start(mut self, place: TaskPlace, ttl: Duration, notifier: Option<Notifier>) -> RpcReply {
        let (slots, caller) = (place.request_slots.clone(), place.caller);
        let task = place.create(ttl, self.cancellation.clone())?;
        let related = json!(RelatedTask { task_id: task.id.clone() });
        self.progress = self.progress.map(|sender| sender.with_meta((RELATED_TASK_KEY.to_owned(), related)));
        let state = task.state().ok_or_else(RpcError::internal)?;
        let created = rpc::encode_result(&json!({"task": task_view::handshake_task(&state)}));
        tokio::spawn(async move { slots.run(caller, self.run(task, notifier)).await });
        created
    }

    /// Waits for the result of the call, and returns a task in its place if the call waits for the operator or takes
    /// long. Dropping the future before that stops the call.
    pub(super) async fn wait_or_become_task(mut self, place: TaskPlace) -> RpcReply {
        let long = tokio::time::sleep(LONG_RUN);
        tokio::pin!(long);
        let awaited = loop {
            tokio::select! {
                biased;
                Some(note) = self.notes.recv() => match self.awaited_in(&note) {
                    Some(awaited) if awaited.is_some() => break awaited,
                    _ => if let Some(progress) = &mut self.progress { progress.send(note).await },
                },
                ended = &mut self.running => {
                    return result::reply(ended, self.era.result_fields(), None);
                }
                () = &mut long => break None,
            }
        };
        let (slots, caller) = (place.request_slots.clone(), place.caller);
        let Ok(task) = place.create(STATELESS_TTL, self.cancellation.clone()) else {
            return self.wait().await;
        };
        task.set_awaited(awaited);
        let state = task.state().ok_or_else(RpcError::internal)?;
        // Tasks of this revision have no progress notifications.
        self.progress = None;
        let created = rpc::encode_result(&task_view::created_stateless_task(&state));
        tokio::spawn(async move { slots.run(caller, self.run(task, None)).await });
        created
    }

    /// Waits for the result without a task: too many tasks exist, but the call has started and must not be
    /// stopped for that reason.
    async fn wait(mut self) -> RpcReply {
        loop {
            tokio::select! {
                biased;
                Some(note) = self.notes.recv() => {
                    if let Some(progress) = &mut self.progress {
                        progress.send(note).await;
                    }
                }
                ended = &mut self.running => return result::reply(ended, self.era.result_fields(), None),
            }
        }
    }

    async fn run(mut self, task: TaskHandle, notifier: Option<Notifier>) {
        let expiry = tokio::time::sleep(task.ttl);
        tokio::pin!(expiry);
        let ended = loop {
            tokio::select! {
                // Polled in this order: a call whose connection is lost at once is still started, so that it is
                // recorded in the ledger.
                biased;
                Some(note) = self.notes.recv() => self.handle_note(&task, note, notifier.as_ref()).await,
                ended = &mut self.running => break ended,
                // Dropping the call stops it like that of any lost connection.
                () = task.abandonment.cancelled() => return,
                () = &mut expiry => {
                    task.cancellation.cancel();
                    task.remove();
                    // The pipeline records the end of the call.
                    (&mut self.running).await;
                    return;
                }
            }
        };
        task.finish(self.outcome(ended, &task));
        notify_status(&task, notifier.as_ref()).await;
        tokio::select! {
            () = task.abandonment.cancelled() => {}
            () = expiry => task.remove(),
        }
    }

    async fn handle_note(&mut self, task: &TaskHandle, note: ProgressNote, notifier: Option<&Notifier>) {
        if let Some(awaited) = self.awaited_in(&note)
            && task.set_awaited(awaited)
        {
            notify_status(task, notifier).await;
        }
        if let Some(progress) = &mut self.progress {
            progress.send(note).await;
        }
    }

    /// Returns the approval that the call waits for from now on, `Some(None)` if it was given, and `None` if the note
    /// is about something else.
    fn awaited_in(&self, note: &ProgressNote) -> Option<Option<AwaitedApproval>> {
        let data = note.data.as_ref()?;
        let id = data.get("approval_id").and_then(Value::as_str)?.to_owned();
        let is_given = data.get("approved").is_some();
        Some((!is_given).then(|| AwaitedApproval { id, tool: self.tool.clone(), is_acknowledged: false }))
    }

    fn outcome(&self, ended: ToolResult, task: &TaskHandle) -> TaskOutcome {
        let error = (!ended.success)
            .then(|| ended.error.clone().unwrap_or_else(|| "the call did not succeed".to_owned()));
        // In the stateless revision the result is a part of the task, which names itself.
        let related = match self.era {
            McpEra::Handshake => Some(RelatedTask { task_id: task.id.clone() }),
            McpEra::Stateless { .. } => None,
        };
        TaskOutcome { reply: result::reply(ended, self.era.result_fields(), related), error }
    }
}

async fn notify_status(task: &TaskHandle, notifier: Option<&Notifier>) {
    if let (Some(notifier), Some(state)) = (notifier, task.state()) {
        notifier.notify(STATUS_NOTIFICATION, &task_view::handshake_task(&state)).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use tokio::time::{Instant, sleep};
    use tool::result::ResultMetadata;
    use tool::{CallId, Mode, ToolOutput, TraceContext};

    use super::super::era::ClientFeatures;
    use super::super::task_table::MAX_TASKS_PER_CALLER;
    use super::*;

    const OWNER: TaskOwner = TaskOwner::Connection(1);

    fn place(table: &TaskTable) -> TaskPlace {
        TaskPlace {
            table: table.clone(),
            owner: OWNER,
            caller: CallerKey::of_pid(1),
            request_slots: RequestSlots::default(),
        }
    }

    async fn result_after(seconds: u64) -> ToolResult {
        sleep(Duration::from_secs(seconds)).await;
        let metadata = ResultMetadata::new(CallId::fresh(), &TraceContext::root(), Mode::Normal, "policy");
        ToolResult::done("t", ToolOutput::default(), metadata, 0.0)
    }

    /// Call with this future, and a sender that is closed once the call and its task have ended.
    fn call(
        era: McpEra,
        running: impl Future<Output = ToolResult> + Send + 'static,
    ) -> (TaskCall, mpsc::Sender<ProgressNote>) {
        let (sender, notes) = mpsc::channel(1);
        let cancellation = CancellationToken::new();
        let running: RunningCall = Box::pin(running);
        (TaskCall { tool: "t".to_owned(), era, running, notes, progress: None, cancellation }, sender)
    }

    fn stateless() -> McpEra {
        McpEra::Stateless { client: None, features: ClientFeatures { tasks: true, forms: false } }
    }

    fn json_of(reply: RpcReply) -> Value {
        serde_json::from_slice(reply.unwrap().bytes()).unwrap()
    }

    /// Starts a task of a client with a handshake. Returns its id and the sender of its call.
    fn start(
        table: &TaskTable,
        ttl: Duration,
        running: impl Future<Output = ToolResult> + Send + 'static,
    ) -> (String, CancellationToken, mpsc::Sender<ProgressNote>) {
        let (call, sender) = call(McpEra::Handshake, running);
        let cancellation = call.cancellation.clone();
        let created = json_of(call.start(place(table), ttl, None));
        (created["task"]["taskId"].as_str().unwrap().to_owned(), cancellation, sender)
    }

    #[tokio::test]
    async fn task_computes_in_a_slot_of_its_caller() {
        let place = place(&TaskTable::default());
        let (slots, stop) = (place.request_slots.clone(), CancellationToken::new());
        let occupied: Vec<_> = (0..1000)
            .map(|_| {
                let (slots, stop) = (slots.clone(), stop.clone());
                tokio::spawn(async move {
                    let computing = async {
                        while !stop.is_cancelled() {
                            tokio::task::yield_now().await;
                        }
                    };
                    slots.run(CallerKey::of_pid(1), computing).await;
                })
            })
            .collect();
        tokio::task::yield_now().await;
        let (begun, mut has_begun) = tokio::sync::oneshot::channel();
        let running = async move {
            begun.send(()).unwrap();
            result_after(0).await
        };
        call(McpEra::Handshake, running).0.start(place, STATELESS_TTL, None).unwrap();
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert!(has_begun.try_recv().is_err(), "all slots of its caller are taken");
        stop.cancel();
        has_begun.await.unwrap();
        for task in occupied {
            task.await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn call_becomes_a_task_after_ten_seconds() {
        let table = TaskTable::default();
        let started = Instant::now();
        let quick = call(stateless(), result_after(9)).0.wait_or_become_task(place(&table)).await;
        assert_eq!((&json_of(quick)["resultType"], started.elapsed().as_secs()), (&json!("complete"), 9));
        let started = Instant::now();
        let long = json_of(call(stateless(), result_after(30)).0.wait_or_become_task(place(&table)).await);
        assert_eq!((&long["resultType"], started.elapsed().as_secs()), (&json!("task"), 10), "{long}");
        let mut task = table.find(long["taskId"].as_str().unwrap(), &OWNER).unwrap();
        task.wait_for(|state| state.outcome.is_some()).await.unwrap();
        assert_eq!(started.elapsed().as_secs(), 30, "the call goes on as a task");
    }

    #[tokio::test(start_paused = true)]
    async fn long_call_beside_a_full_table_returns_its_result() {
        let table = TaskTable::default();
        let fill = |_| place(&table).create(STATELESS_TTL, CancellationToken::new()).unwrap();
        let running: Vec<TaskHandle> = (0..MAX_TASKS_PER_CALLER).map(fill).collect();
        let started = Instant::now();
        let (call, _sender) = call(stateless(), result_after(30));
        let result = json_of(call.wait_or_become_task(place(&table)).await);
        assert_eq!(
            (&result["resultType"], &result["isError"]),
            (&json!("complete"), &json!(false)),
            "{result}"
        );
        assert_eq!((started.elapsed().as_secs(), table.list(&OWNER).len()), (30, running.len()));
    }

    #[tokio::test(start_paused = true)]
    async fn ended_task_is_retained_for_its_time_and_then_removed() {
        let table = TaskTable::default();
        let (id, _, sender) = start(&table, Duration::from_secs(60), result_after(1));
        sleep(Duration::from_secs(59)).await;
        assert!(table.find(&id, &OWNER).unwrap().borrow().outcome.is_some());
        assert!(!sender.is_closed());
        sleep(Duration::from_secs(2)).await;
        assert!(table.find(&id, &OWNER).is_none() && sender.is_closed());
    }

    #[tokio::test(start_paused = true)]
    async fn running_task_is_cancelled_when_its_time_is_over() {
        let table = TaskTable::default();
        let (id, cancellation, sender) = start(&table, Duration::from_secs(60), result_after(3600));
        sleep(Duration::from_secs(61)).await;
        assert!(cancellation.is_cancelled() && table.find(&id, &OWNER).is_none());
        assert!(!sender.is_closed(), "the pipeline records the end of the call");
        sleep(Duration::from_secs(3600)).await;
        assert!(sender.is_closed());
    }

    #[tokio::test(start_paused = true)]
    async fn forgotten_task_releases_its_result_at_once() {
        let table = TaskTable::default();
        let (id, _, sender) = start(&table, STATELESS_TTL, result_after(1));
        sleep(Duration::from_secs(2)).await;
        let others: Vec<_> =
            (0..MAX_TASKS_PER_CALLER).map(|_| start(&table, STATELESS_TTL, result_after(3600))).collect();
        assert!(table.find(&id, &OWNER).is_none(), "its place was needed");
        sleep(Duration::from_secs(1)).await;
        assert!(sender.is_closed() && others.iter().all(|(_, _, other)| !other.is_closed()));
    }
}
