//! The layer every door talks to: one request in, one result out, and exactly one end on record.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use futures_util::FutureExt;
use ledger::{Ledger, LedgerError, Recovery};
use resources::UndoStore;
use serde_json::Value;
use telemetry::TelemetryError;
use tokio_util::task::TaskTracker;
use tool::{Mode, Refusal, RefusalCode, ToolDefinition, ToolResult};

use crate::approvals::{self, Approvals};
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
use crate::transition::OwedChanges;
use crate::watch::ModeWatch;
use crate::world::{ToolFilter, World};

/// What a layer is made of.
pub struct Parts {
    /// Tools, rules and workspaces.
    pub world: World,
    /// Where everything is recorded.
    pub ledger: Arc<Ledger>,
    /// What the ledger remembers of earlier lives.
    pub recovery: Recovery,
    /// Where questions to a human are kept, and the operator's PIN.
    pub state: PathBuf,
    /// What calls replaced and removed.
    pub undo: Arc<UndoStore>,
}

/// Runs calls: checks, judges, records, executes.
pub struct ToolExecutionLayer {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) approvals: Approvals,
    pub(crate) undo: Arc<UndoStore>,
    pub(crate) limits: Limits,
    /// What hosts were permitted counts among itself: questions, which run nothing here, use up nobody's calls.
    pub(crate) host_limits: Limits,
    pub(crate) tally: Tally,
    pub(crate) world: ArcSwap<World>,
    pub(crate) mode: ModeCell,
    pub(crate) watch: ModeWatch,
    pub(crate) sessions: Sessions,
    pub(crate) keys: Keys,
    /// Those that have not ended, for whoever looks or ends one.
    pub(crate) calls: Calls,
    pub(crate) refusals: Pace,
    pub(crate) owed_changes: OwedChanges,
    /// Counts changes of the mode or of the rules: who waits is judged again.
    pub(crate) changes: tokio::sync::watch::Sender<u64>,
    /// Counts changes of the list of tools: who shows it asks again.
    pub(crate) tool_changes: tokio::sync::watch::Sender<u64>,
    pub(crate) reloads: Reloads,
    pub(crate) openings: Slots,
    /// Callers take turns at the processes that run validators.
    pub(crate) validations: Slots,
    pub(crate) mode_turn: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
    draining: AtomicBool,
    started: Instant,
}

impl ToolExecutionLayer {
    /// A layer that goes on where the ledger left off: same mode, same rate windows.
    pub fn new(parts: Parts) -> Result<Arc<Self>, TelemetryError> {
        let Parts { world, ledger, recovery, state, undo } = parts;
        content::share_patterns(&world.policy)?;
        let mode = recorder::restored_mode(&ledger, &recovery);
        let limits = Limits::restore(places(&world, mode), &recovery, |tool| world.goes_out(tool.as_str()));
        let host_limits = Limits::restore(0, &Recovery::default(), |_| false);
        let watch = ModeWatch::new(world.policy.transitions(), mode, ledger.health().head);
        let approvals = Approvals::restore(&ledger, &recovery, &state);
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

    /// Runs one call to its end. What cannot be done without waiting is a task of its own: a caller that goes away
    /// takes neither the tool nor the record with it.
    pub async fn execute(self: &Arc<Self>, request: Request) -> ToolResult {
        self.execute_for(request, MadeBy::Caller).await
    }

    /// The same for a call that a tool makes in the name of its caller: the same road, charged to the same party. It
    /// runs beside the place that the tool holds.
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
        // Gone with this future: a call that waits for a human does not run for a caller who has left.
        let _present = track.present();
        // In a box before anything is put around it: it is large, and each wrapping would move it.
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
                // No advice here: when the daemon is back nobody knows.
                let result = recorder::refused(self, &call, *refusal);
                return (call, result);
            }
            // A panic in a stage is ours, not the caller's, and must not cost the record.
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

    /// What its decisions take from it.
    pub(crate) fn deciding(&self) -> Deciding<'_> {
        Deciding { limits: &self.limits, openings: &self.openings }
    }

    /// Whether calls are still taken in.
    pub(crate) fn admits(&self, call: &Call) -> Result<(), Box<Refusal>> {
        if !self.draining.load(Ordering::Acquire) {
            return Ok(());
        }
        let refusal = Refusal::new(&call.tool_name, RefusalCode::ShuttingDown, "Sinew is shutting down");
        Err(Box::new(refusal.hint("try again when it is back")))
    }

    /// Whether a call was judged by a mode or rules that hold no more.
    pub(crate) fn has_changed_since(&self, call: &Call) -> bool {
        self.mode.get() != call.mode || !Arc::ptr_eq(&self.world.load(), &call.world)
    }

    /// The definitions that pass the filter, by name.
    pub fn tools(&self, filter: &ToolFilter) -> Vec<Arc<ToolDefinition>> {
        self.world.load().tools(filter)
    }

    /// The state of the layer.
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

    /// The current mode.
    pub fn mode(&self) -> Mode {
        self.mode.get()
    }

    /// How many calls may run at once, by the mode and the rules of now.
    pub(crate) fn places(&self) -> usize {
        places(&self.world.load(), self.mode.get())
    }

    /// Puts a start on record: from here on this process answers for what the ledger says.
    pub fn announce_start(&self, configuration: Configuration) -> Result<(), LedgerError> {
        recorder::start(self, configuration)
    }

    /// Records a clean stop and closes the ledger. Blocking.
    pub fn close(&self, reason: &str) {
        recorder::stop(self, reason);
        self.ledger.close();
    }

    /// Admits no more calls and waits for the running ones. Returns how many were still running at the deadline.
    pub async fn drain(&self, deadline: Duration) -> usize {
        self.draining.store(true, Ordering::Release);
        self.approvals.close();
        self.tasks.close();
        let _ = tokio::time::timeout(deadline, self.tasks.wait()).await;
        self.tasks.len()
    }
}

/// Policy may set no limit; the machine always has one.
pub(crate) fn places(world: &World, mode: Mode) -> usize {
    let allowed = world.policy.max_concurrent_tasks(mode).and_then(|most| usize::try_from(most).ok());
    allowed.unwrap_or(MOST_RUNNING).min(MOST_RUNNING)
}

/// Tools of this process share one pool of threads that may block; beyond its size more would only wait inside.
const MOST_RUNNING: usize = 256;
/// Calls whose validators are asked at a time: as many as there are processes for them, so that who waits does so here, where
/// callers take turns.
const MOST_VALIDATING: usize = 4;
/// Paths that are being opened at a time. Opening takes microseconds unless something is stuck.
pub(crate) const MOST_OPENING: usize = 64;
