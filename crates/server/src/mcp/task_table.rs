//! Tasks: calls whose result their client fetches later. This table holds their state; it runs nothing.
//!
//! A task of a revision with a handshake belongs to its connection and ends with it. A task of the stateless
//! revision belongs to the party that made the call, because such a client has no connection to keep.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use tool::Caller;
use tool::caller::CallerKey;

use crate::rpc::RpcReply;

/// Maximum number of tasks of one caller, running and retained.
pub(super) const MAX_TASKS_PER_CALLER: usize = 64;
/// Maximum number of tasks.
const MAX_TASKS: usize = 1024;
/// Maximum size of all retained results, in bytes.
const MAX_RETAINED_BYTES: usize = 64 << 20;
/// Number of changes that a slow subscriber may be behind.
const CHANGE_QUEUE: usize = 256;

/// All tasks of one socket. Clones share the table.
#[derive(Clone, Debug)]
pub(crate) struct TaskTable(Arc<TableInner>);

#[derive(Debug)]
struct TableInner {
    tasks: Mutex<HashMap<Arc<str>, TaskEntry>>,
    /// Ids of tasks whose state has changed.
    changes: broadcast::Sender<Arc<str>>,
}

/// One task in the table.
#[derive(Debug)]
struct TaskEntry {
    owner: TaskOwner,
    /// Identity that the limits are counted by.
    caller: CallerKey,
    state: watch::Sender<TaskState>,
    cancellation: CancellationToken,
    /// Cancelled when the connection of the task is lost, or the task is removed.
    abandonment: CancellationToken,
}

/// Party that may see and cancel a task.
#[derive(Clone, Debug)]
pub(crate) enum TaskOwner {
    /// The connection that created the task.
    Connection(u64),
    /// The party that created the task, on any connection.
    Party(Caller),
}

impl TaskOwner {
    fn is(&self, other: &TaskOwner) -> bool {
        match (self, other) {
            (TaskOwner::Connection(one), TaskOwner::Connection(other)) => one == other,
            (TaskOwner::Party(one), TaskOwner::Party(other)) => one.is_same_party(other),
            (TaskOwner::Connection(_), TaskOwner::Party(_))
            | (TaskOwner::Party(_), TaskOwner::Connection(_)) => false,
        }
    }
}

/// State of a task at one moment.
#[derive(Clone, Debug)]
pub(crate) struct TaskState {
    pub(super) id: Arc<str>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) ttl: Duration,
    pub(super) is_cancelled: bool,
    /// Approval that the call waits for.
    pub(super) awaited: Option<AwaitedApproval>,
    /// Set once the call has ended.
    pub(super) outcome: Option<Arc<TaskOutcome>>,
}

impl TaskState {
    /// Returns true if the status of the task cannot change any more.
    pub(super) fn is_terminal(&self) -> bool {
        self.is_cancelled || self.outcome.is_some()
    }

    fn retained_bytes(&self) -> usize {
        let reply = self.outcome.as_ref().map(|outcome| &outcome.reply);
        reply.map_or(0, |reply| reply.as_ref().map_or(0, |json| json.bytes().len()))
    }
}

/// Approval that a call waits for. The operator gives it over the control socket only.
#[derive(Clone, Debug)]
pub(crate) struct AwaitedApproval {
    pub(super) id: String,
    /// Tool of the call, as its caller spelled it.
    pub(super) tool: String,
    /// True once the client has confirmed that its user knows of it.
    pub(super) is_acknowledged: bool,
}

/// Outcome of the call of a task.
#[derive(Debug)]
pub(crate) struct TaskOutcome {
    /// Reply that the call would have had.
    pub(super) reply: RpcReply,
    /// Reason of a refused or failed call.
    pub(super) error: Option<String>,
}

/// `_meta` entry that relates a message to a task.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RelatedTask {
    pub(super) task_id: Arc<str>,
}

/// Access of the running call to its own task.
#[derive(Debug)]
pub(super) struct TaskHandle {
    table: TaskTable,
    pub(super) id: Arc<str>,
    pub(super) ttl: Duration,
    pub(super) abandonment: CancellationToken,
    pub(super) cancellation: CancellationToken,
}

/// Ends the tasks of a connection when it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionTasks {
    table: TaskTable,
    connection: u64,
}

impl ConnectionTasks {
    /// Returns true if the call of a task has not ended.
    pub(crate) fn are_running(&self) -> bool {
        let own = TaskOwner::Connection(self.connection);
        self.table.list(&own).iter().any(|task| task.outcome.is_none())
    }
}

impl Drop for ConnectionTasks {
    fn drop(&mut self) {
        let own = TaskOwner::Connection(self.connection);
        self.table.lock().retain(|_, task| {
            let is_own = task.owner.is(&own);
            if is_own {
                task.abandonment.cancel();
            }
            !is_own
        });
    }
}

impl Default for TaskTable {
    fn default() -> Self {
        let changes = broadcast::Sender::new(CHANGE_QUEUE);
        TaskTable(Arc::new(TableInner { tasks: Mutex::default(), changes }))
    }
}

impl TaskTable {
    /// Creates a task for a call with this cancellation. Returns `None` if the caller, or all callers, have too
    /// many tasks whose calls still run.
    pub(super) fn create(
        &self,
        owner: TaskOwner,
        caller: CallerKey,
        ttl: Duration,
        cancellation: CancellationToken,
    ) -> Option<TaskHandle> {
        let mut tasks = self.lock();
        if tasks.values().filter(|task| task.caller == caller).count() >= MAX_TASKS_PER_CALLER {
            forget_oldest_ended(&mut tasks, |task| task.caller == caller)?;
        }
        if tasks.len() >= MAX_TASKS {
            let largest = largest_holder(&tasks, |_| 1)?;
            forget_oldest_ended(&mut tasks, |task| task.caller == largest)?;
        }
        // 128 random bits: an id cannot be guessed.
        let id: Arc<str> = tool::text::random_id().into();
        let now = Timestamp::now();
        let state = TaskState {
            id: Arc::clone(&id),
            created_at: now,
            updated_at: now,
            ttl,
            is_cancelled: false,
            awaited: None,
            outcome: None,
        };
        let abandonment = CancellationToken::new();
        let task = TaskEntry {
            owner,
            caller,
            state: watch::Sender::new(state),
            cancellation: cancellation.clone(),
            abandonment: abandonment.clone(),
        };
        tasks.insert(Arc::clone(&id), task);
        Some(TaskHandle { table: self.clone(), id, ttl, abandonment, cancellation })
    }

    /// Returns the guard that ends the tasks of a connection.
    pub(super) fn attach_connection(&self, connection: u64) -> ConnectionTasks {
        ConnectionTasks { table: self.clone(), connection }
    }

    /// Follows a task of this owner. An unknown task and one of another owner get the same answer.
    pub(super) fn find(&self, id: &str, owner: &TaskOwner) -> Option<watch::Receiver<TaskState>> {
        self.lock().get(id).filter(|task| task.owner.is(owner)).map(|task| task.state.subscribe())
    }

    /// Returns the tasks of an owner, oldest first.
    pub(super) fn list(&self, owner: &TaskOwner) -> Vec<TaskState> {
        let tasks = self.lock();
        let own = tasks.values().filter(|task| task.owner.is(owner));
        let mut states: Vec<TaskState> = own.map(|task| task.state.borrow().clone()).collect();
        states.sort_by(|one, other| (one.created_at, &one.id).cmp(&(other.created_at, &other.id)));
        states
    }

    /// Cancels a task whose call has not ended. Returns its state before and after, or `None` if the task is unknown.
    pub(super) fn cancel(&self, id: &str, owner: &TaskOwner) -> Option<(TaskState, TaskState)> {
        let tasks = self.lock();
        let task = tasks.get(id).filter(|task| task.owner.is(owner))?;
        let before = task.state.borrow().clone();
        if !before.is_terminal() {
            self.change(task, |state| state.is_cancelled = true);
            task.cancellation.cancel();
        }
        let after = task.state.borrow().clone();
        Some((before, after))
    }

    /// Notes that the user of the client knows of the approval that the call waits for.
    pub(super) fn acknowledge(&self, id: &str, owner: &TaskOwner, approval: impl Fn(&str) -> bool) -> bool {
        let tasks = self.lock();
        let Some(task) = tasks.get(id).filter(|task| task.owner.is(owner)) else { return false };
        let is_known = |awaited: &AwaitedApproval| approval(&awaited.id) && !awaited.is_acknowledged;
        if task.state.borrow().awaited.as_ref().is_some_and(is_known) {
            self.change(task, |state| {
                if let Some(awaited) = &mut state.awaited {
                    awaited.is_acknowledged = true;
                }
            });
        }
        true
    }

    /// Subscribes to the ids of changed tasks.
    pub(super) fn changes(&self) -> broadcast::Receiver<Arc<str>> {
        self.0.changes.subscribe()
    }

    /// Changes the state of a task and wakes its subscribers.
    fn change(&self, task: &TaskEntry, change: impl FnOnce(&mut TaskState)) {
        task.state.send_modify(|state| {
            change(state);
            state.updated_at = Timestamp::now().max(state.updated_at);
        });
        // Fails if there is no subscriber.
        let _ = self.0.changes.send(Arc::clone(&task.state.borrow().id));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, TaskEntry>> {
        // The map is consistent after every statement, so a panic elsewhere cannot have broken it.
        self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TaskHandle {
    pub(super) fn state(&self) -> Option<TaskState> {
        self.table.lock().get(&self.id).map(|task| task.state.borrow().clone())
    }

    /// Notes the approval that the call waits for. Returns true if it differs from the one noted before.
    pub(super) fn set_awaited(&self, awaited: Option<AwaitedApproval>) -> bool {
        let tasks = self.table.lock();
        let Some(task) = tasks.get(&self.id) else { return false };
        let id_of = |awaited: &Option<AwaitedApproval>| awaited.as_ref().map(|it| it.id.clone());
        let has_changed = id_of(&task.state.borrow().awaited) != id_of(&awaited);
        if has_changed {
            self.table.change(task, |state| state.awaited = awaited);
        }
        has_changed
    }

    /// Notes that the call has ended. Removes results of other tasks if all results together use too much
    /// memory.
    pub(super) fn finish(&self, outcome: TaskOutcome) {
        let mut tasks = self.table.lock();
        let Some(task) = tasks.get(&self.id) else { return };
        self.table.change(task, |state| {
            state.awaited = None;
            state.outcome = Some(Arc::new(outcome));
        });
        let bytes = |task: &TaskEntry| task.state.borrow().retained_bytes();
        while tasks.values().map(bytes).sum::<usize>() > MAX_RETAINED_BYTES {
            let Some(largest) = largest_holder(&tasks, bytes) else { return };
            if forget_oldest_ended(&mut tasks, |task| task.caller == largest).is_none() {
                return;
            }
        }
    }

    pub(super) fn remove(&self) {
        self.table.lock().remove(&self.id);
    }
}

/// Removes the oldest of these tasks whose call has ended.
fn forget_oldest_ended(
    tasks: &mut HashMap<Arc<str>, TaskEntry>,
    which: impl Fn(&TaskEntry) -> bool,
) -> Option<()> {
    let ended = tasks.iter().filter(|(_, task)| which(task) && task.state.borrow().outcome.is_some());
    let oldest = ended.min_by_key(|(_, task)| task.state.borrow().created_at)?.0.clone();
    // The run of the task retains its result until then.
    tasks.remove(&oldest).map(|task| task.abandonment.cancel())
}

/// Returns the caller whose tasks retain the most bytes.
fn largest_holder(
    tasks: &HashMap<Arc<str>, TaskEntry>,
    weight: impl Fn(&TaskEntry) -> usize,
) -> Option<CallerKey> {
    let mut held: HashMap<&CallerKey, usize> = HashMap::new();
    for task in tasks.values() {
        *held.entry(&task.caller).or_default() += weight(task);
    }
    held.into_iter().max_by_key(|(_, weight)| *weight).map(|(caller, _)| *caller)
}

#[cfg(test)]
mod tests {
    use tool::CallerEndpoint;

    use super::*;
    use crate::rpc;

    const TTL: Duration = Duration::from_secs(60);

    fn party(client: &str) -> TaskOwner {
        TaskOwner::Party(Caller {
            uid: 1,
            pid: None,
            endpoint: CallerEndpoint::Mcp,
            connection: 1,
            client: Some(client.to_owned()),
            session: None,
            account: None,
        })
    }

    fn create(table: &TaskTable, owner: &TaskOwner, pid: i32) -> Option<TaskHandle> {
        table.create(owner.clone(), CallerKey::of_pid(pid), TTL, CancellationToken::new())
    }

    fn outcome(bytes: usize) -> TaskOutcome {
        TaskOutcome { reply: rpc::encode_result(&"x".repeat(bytes)), error: None }
    }

    #[test]
    fn task_is_found_by_its_owner_only() {
        let (table, alice) = (TaskTable::default(), party("alice"));
        let task = create(&table, &alice, 1).unwrap();
        assert_eq!(task.id.len(), 32, "128 bits in hexadecimal digits");
        for stranger in [party("bob"), TaskOwner::Connection(1)] {
            assert!(table.find(&task.id, &stranger).is_none(), "{stranger:?}");
            assert!(table.list(&stranger).is_empty() && table.cancel(&task.id, &stranger).is_none());
            assert!(!table.acknowledge(&task.id, &stranger, |_| true));
        }
        assert!(!task.cancellation.is_cancelled());
        assert!(table.find(&task.id, &alice).is_some() && table.list(&alice).len() == 1);
    }

    #[test]
    fn cancelled_task_stays_cancelled() {
        let (table, owner) = (TaskTable::default(), party("a"));
        let task = create(&table, &owner, 1).unwrap();
        let (before, after) = table.cancel(&task.id, &owner).unwrap();
        assert!(!before.is_terminal() && after.is_cancelled && task.cancellation.is_cancelled());
        task.finish(outcome(3));
        let state = task.state().unwrap();
        assert!(state.is_cancelled && state.outcome.is_some());
        assert!(table.cancel(&task.id, &owner).unwrap().0.is_terminal());
    }

    #[test]
    fn tasks_of_a_lost_connection_are_abandoned() {
        let table = TaskTable::default();
        let [mine, other] = [7, 8].map(|number| create(&table, &TaskOwner::Connection(number), 1).unwrap());
        drop(table.attach_connection(7));
        assert!(mine.abandonment.is_cancelled() && mine.state().is_none());
        assert!(!other.abandonment.is_cancelled() && other.state().is_some());
    }

    #[test]
    fn full_table_forgets_ended_tasks_and_refuses_running_ones() {
        let (table, owner) = (TaskTable::default(), party("a"));
        let running: Vec<TaskHandle> =
            (0..MAX_TASKS_PER_CALLER).map(|_| create(&table, &owner, 1).unwrap()).collect();
        assert!(create(&table, &owner, 1).is_none(), "all of them run");
        assert!(create(&table, &owner, 2).is_some(), "another caller has none");
        running[5].finish(outcome(3));
        assert!(create(&table, &owner, 1).is_some() && running[5].state().is_none());
        let is_released = |task: &TaskHandle| task.abandonment.is_cancelled();
        assert!(is_released(&running[5]) && running.iter().filter(|task| is_released(task)).count() == 1);
    }

    #[test]
    fn results_of_the_largest_holder_are_forgotten_first() {
        let (table, owner) = (TaskTable::default(), party("a"));
        let small = create(&table, &owner, 2).unwrap();
        small.finish(outcome(100));
        let large: Vec<TaskHandle> = (0..6).map(|_| create(&table, &owner, 1).unwrap()).collect();
        large.iter().for_each(|task| task.finish(outcome(12 << 20)));
        let retained = large.iter().filter(|task| task.state().is_some()).count();
        assert_eq!((retained, small.state().is_some()), (5, true), "5 × 12 MiB fit into 64");
    }

    #[test]
    fn acknowledged_approval_stays_awaited() {
        let (table, owner) = (TaskTable::default(), party("a"));
        let task = create(&table, &owner, 1).unwrap();
        let awaited =
            || Some(AwaitedApproval { id: "7".to_owned(), tool: "t".to_owned(), is_acknowledged: false });
        assert!(task.set_awaited(awaited()) && !task.set_awaited(awaited()), "told once");
        table.acknowledge(&task.id, &owner, |id| id == "8");
        assert!(!task.state().unwrap().awaited.unwrap().is_acknowledged, "another approval");
        table.acknowledge(&task.id, &owner, |id| id == "7");
        assert!(task.state().unwrap().awaited.unwrap().is_acknowledged);
        assert!(!task.state().unwrap().is_terminal(), "an answer of the client approves nothing");
    }
}
