//! The layer that every endpoint calls: one request in, one result out, exactly one outcome recorded.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use file_access::UndoStore;
use futures_util::FutureExt;
use ledger::{Ledger, LedgerError, Recovery};
use serde_json::Value;
use telemetry::TelemetryError;
use tokio_util::task::TaskTracker;
use tool::{Mode, Refusal, RefusalCode, ToolDefinition, ToolResult};

use crate::approvals::{self, Approvals};
use crate::bookkeeping::Bookkeeping;
use crate::call::{Call, MadeBy, Request};
use crate::calls::Calls;
use crate::content;
use crate::limits::Limits;
use crate::mode::ModeCell;
use crate::pace::Pace;
use crate::pipeline::{self, Deciding, Halt};
use crate::recorder::{self, Configuration};
use crate::reload::Reloads;
use crate::repeats::Keys;
use crate::sessions::{self, Sessions};
use crate::slots::Slots;
use crate::status::{ApprovalsStatus, LedgerStatus, ProposalStatus, Status, Tally};
use crate::throttle::Throttle;
use crate::transition::OwedChanges;
use crate::watch::ModeWatch;
use crate::world::{ToolFilter, World};

/// Components of a `ToolExecutionLayer`.
pub struct Parts {
    /// Tools, rules and workspaces.
    pub world: World,
    /// Ledger for decisions and outcomes.
    pub ledger: Arc<Ledger>,
    /// State that the ledger recovered from earlier daemon runs.
    pub recovery: Recovery,
    /// Directory with the pending approvals and the operator's PIN.
    pub state: PathBuf,
    /// Backups of the files that calls replaced or removed.
    pub undo: Arc<UndoStore>,
}

/// Runs calls: checks, judges, records, executes.
pub struct ToolExecutionLayer {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) approvals: Approvals,
    pub(crate) undo: Arc<UndoStore>,
    pub(crate) limits: Limits,
    /// Rate limits for host calls, which are only judged here and must not use up the limits of calls that
    /// run.
    pub(crate) host_limits: Limits,
    pub(crate) tally: Tally,
    pub(crate) world: ArcSwap<World>,
    pub(crate) mode: ModeCell,
    pub(crate) watch: ModeWatch,
    pub(crate) sessions: Sessions,
    pub(crate) keys: Keys,
    /// Calls that have not ended, for listing and cancellation.
    pub(crate) calls: Calls,
    pub(crate) refusals: Pace,
    pub(crate) throttle: Throttle,
    pub(crate) bookkeeping: Bookkeeping,
    pub(crate) owed_changes: OwedChanges,
    /// Version of the mode and the rules. Waiting calls are judged again when it changes.
    pub(crate) changes: tokio::sync::watch::Sender<u64>,
    /// Version of the tool list. Clients that show the list fetch it again when it changes.
    pub(crate) tool_changes: tokio::sync::watch::Sender<u64>,
    pub(crate) reloads: Reloads,
    pub(crate) openings: Slots,
    /// Slots for the processes that run validators, shared fairly between callers.
    pub(crate) validations: Slots,
    pub(crate) mode_turn: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
    draining: AtomicBool,
    started: Instant,
}

impl ToolExecutionLayer {
    /// Creates a layer that continues with the mode and the rate windows recovered from the ledger.
    pub fn new(parts: Parts) -> Result<Arc<Self>, TelemetryError> {
        let Parts { world, ledger, recovery, state, undo } = parts;
        content::share_patterns(&world.policy)?;
        let mode = recorder::restored_mode(&ledger, &recovery);
        let limits = Limits::restore(places(&world, mode), &recovery, |tool| world.goes_out(tool.as_str()));
        let host_limits = Limits::restore(0, &Recovery::default(), |_| false);
        let watch = ModeWatch::new(world.policy.transitions(), mode, ledger.health().head);
        let approvals = Approvals::restore(&ledger, &recovery, &state);
        let bookkeeping = Bookkeeping::new(ledger.max_bytes());
        Ok(Arc::new(ToolExecutionLayer {
            ledger,
            approvals,
            undo,
            limits,
            host_limits,
            watch,
            calls: Calls::default(),
            sessions: Sessions::default(),
            keys: Keys::default(),
            refusals: Pace::default(),
            throttle: Throttle::default(),
            bookkeeping,
            owed_changes: OwedChanges::default(),
            changes: tokio::sync::watch::Sender::new(0),
            tool_changes: tokio::sync::watch::Sender::new(0),
            reloads: Reloads::default(),
            tally: Tally::default(),
            world: ArcSwap::from_pointee(world),
            mode: ModeCell::new(mode),
            openings: Slots::new(MOST_OPENING),
            validations: Slots::new(MOST_VALIDATING),
            mode_turn: tokio::sync::Mutex::new(()),
            tasks: TaskTracker::new(),
            draining: AtomicBool::new(false),
            started: Instant::now(),
        }))
    }

    /// Runs one call and returns its result. A call that has to wait continues in its own task, so that a
    /// caller that disconnects aborts neither the tool nor the ledger record.
    pub async fn execute(self: &Arc<Self>, request: Request) -> ToolResult {
        self.execute_for(request, MadeBy::Caller).await
    }

    /// Runs a call that a tool makes on behalf of its caller: same pipeline, charged to the same party. Its
    /// run slot is granted in addition to the slot that the tool holds.
    pub async fn execute_inner(self: &Arc<Self>, request: Request) -> ToolResult {
        self.execute_for(request, MadeBy::Tool).await
    }

    async fn execute_for(self: &Arc<Self>, request: Request, made_by: MadeBy) -> ToolResult {
        let (call, arguments) = Call::admit(request, &self.ledger, self.world.load_full(), self.mode.get());
        let call = Box::new(call.made_by(made_by));
        let traces = recorder::Traces::of(&call);
        let (layer, tracked) = (Arc::clone(self), self.tasks.token());
        let (trace, track) = (call.trace.clone(), Arc::clone(&call.track));
        let listed = self.calls.until_the_end_of(&track);
        // Dropped with this future: a call that waits for the operator does not run after its caller has
        // left.
        let _present = track.present();
        // Boxed before it is wrapped: the future is large, and each wrapper would move it.
        let work = Box::pin(async move {
            let (call, mut result) = layer.conduct(call, arguments).await;
            sessions::report(&call, &mut result);
            recorder::export(*call, &result);
            drop((listed, tracked));
            result
        });
        let work = AssertUnwindSafe(work).catch_unwind();
        let mut work = Box::pin(telemetry::within_call(&trace, work));
        let conducted = match poll_fn(|context| Poll::Ready(work.poll_unpin(context))).await {
            Poll::Ready(conducted) => Ok(conducted),
            Poll::Pending => {
                self.calls.show(&track);
                tokio::spawn(work).await
            }
        };
        conducted.ok().and_then(Result::ok).unwrap_or_else(|| traces.crashed_result())
    }

    async fn conduct(&self, mut call: Box<Call>, mut arguments: Value) -> (Box<Call>, ToolResult) {
        loop {
            if let Err(refusal) = self.admits(&call) {
                // No `retry_after_ms` here: the daemon does not know when it will be restarted.
                let result = recorder::refused(self, &call, *refusal);
                return (call, result);
            }
            // A panic in a stage is a fault in Sinew, and the call still needs its ledger record.
            let result = match AssertUnwindSafe(pipeline::walk(self, &call, arguments)).catch_unwind().await {
                Ok(Ok(ran)) => recorder::ended(self, &call, ran),
                Ok(Err(Halt::Refused(mut refusal))) => {
                    self.limits.advise(&call, &mut refusal);
                    self.refusals.turn().await;
                    recorder::refused(self, &call, *refusal)
                }
                Ok(Err(Halt::Repeated(earlier))) => recorder::repeated(self, &call, *earlier),
                Ok(Err(Halt::Again(same, hand))) => {
                    arguments = Value::Object(same);
                    *call = call.renewed(self.world.load_full(), self.mode.get(), hand);
                    continue;
                }
                Ok(Err(Halt::Edited(other, hand))) => {
                    let edited = call.edited(&self.ledger, &other);
                    arguments = Value::Object(other);
                    *call = edited.renewed(self.world.load_full(), self.mode.get(), hand);
                    continue;
                }
                Err(_) => recorder::crashed(self, &call),
            };
            approvals::leave(self, &call, result.metadata.refusal.as_ref().map(|refusal| refusal.code)).await;
            return (call, result);
        }
    }

    /// Context for decisions about calls that run here.
    pub(crate) fn deciding(&self) -> Deciding<'_> {
        Deciding { limits: &self.limits, openings: &self.openings }
    }

    /// Refuses the call if the daemon is shutting down.
    pub(crate) fn admits(&self, call: &Call) -> Result<(), Box<Refusal>> {
        if !self.draining.load(Ordering::Acquire) {
            return Ok(());
        }
        let refusal = Refusal::new(&call.tool_name, RefusalCode::ShuttingDown, "Sinew is shutting down");
        Err(Box::new(refusal.hint("try again after the daemon has restarted")))
    }

    /// Returns true if the mode or the rules changed since the call was judged.
    pub(crate) fn has_changed_since(&self, call: &Call) -> bool {
        self.mode.get() != call.mode || !Arc::ptr_eq(&self.world.load(), &call.world)
    }

    /// Definitions that pass the filter, by name.
    pub fn tools(&self, filter: &ToolFilter) -> Vec<Arc<ToolDefinition>> {
        self.world.load().tools(filter)
    }

    /// State of the layer.
    pub fn status(&self) -> Status {
        let (world, mode) = (self.world.load(), self.mode.get());
        Status {
            version: env!("CARGO_PKG_VERSION"),
            mode,
            proposal: self.watch.machine().proposal().map(ProposalStatus::of),
            reload: self.reloads.report(),
            remaining: world.policy.remaining(mode, self.limits.counts_of_all()),
            uptime_seconds: self.started.elapsed().as_secs(),
            calls: self.tally.counts(self.limits.running()),
            approvals: ApprovalsStatus {
                pending: self.approvals.pending(),
                pin: self.approvals.pin_is_set(),
            },
            tools: world.registry.len(),
            policy_hash: world.policy.hash().to_owned(),
            workspaces: world.workspaces.iter().map(|folder| folder.root().display().to_string()).collect(),
            ledger: LedgerStatus::of(&self.ledger.health()),
        }
    }

    /// Current mode.
    pub fn mode(&self) -> Mode {
        self.mode.get()
    }

    /// Maximum number of concurrent calls for the current mode and rules.
    pub(crate) fn places(&self) -> usize {
        places(&self.world.load(), self.mode.get())
    }

    /// Records the start of the daemon in the ledger.
    pub fn announce_start(&self, configuration: Configuration) -> Result<(), LedgerError> {
        recorder::start(self, configuration)
    }

    /// Records a clean stop and closes the ledger. Blocking.
    pub fn close(&self, reason: &str) {
        self.write_all_groups();
        recorder::stop(self, reason);
        self.ledger.close();
    }

    /// Admits no more calls and waits for the running ones. Returns how many were still running at the
    /// deadline.
    pub async fn drain(&self, deadline: Duration) -> usize {
        self.draining.store(true, Ordering::Release);
        self.approvals.close();
        self.tasks.close();
        let _ = tokio::time::timeout(deadline, self.tasks.wait()).await;
        self.tasks.len()
    }
}

/// Maximum number of concurrent calls: the limit of the policy, capped by `MAX_RUNNING`.
pub(crate) fn places(world: &World, mode: Mode) -> usize {
    let allowed = world.policy.max_concurrent_tasks(mode).and_then(|most| usize::try_from(most).ok());
    allowed.unwrap_or(MOST_RUNNING).min(MOST_RUNNING)
}

/// Cap on concurrent calls. The tools of this process share one blocking pool; calls beyond its size would
/// only queue inside it.
const MOST_RUNNING: usize = 256;
/// Cap on concurrent validations. It equals the number of validator processes, so that calls queue here,
/// where slots are shared fairly between callers.
const MOST_VALIDATING: usize = 4;
/// Cap on concurrent path openings. Opening takes microseconds unless a mount is stuck.
pub(crate) const MOST_OPENING: usize = 64;
