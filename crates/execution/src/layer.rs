//! The layer that every endpoint calls: one request in, one result out, exactly one outcome recorded.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use approvals::sessions::SessionTable;
use approvals::{Approvals, DecideError, DecisionOutcome, OperatorDecision};
use arc_swap::ArcSwap;
use file_access::UndoStore;
use futures_util::FutureExt;
use ledger::{Ledger, LedgerError, LedgerRecovery};
use serde_json::Value;
use telemetry::TelemetryError;
use tokio_util::task::TaskTracker;
use tool::{Caller, Mode, Refusal, RefusalCode, ToolDefinition, ToolResult};

use crate::approval_stage;
use crate::bookkeeping::Bookkeeping;
use crate::call::{CallOrigin, CallRequest, PipelineCall};
use crate::calls::ActiveCalls;
use crate::config_snapshot::{ConfigSnapshot, ToolFilter};
use crate::host::RepeatedAdvice;
use crate::idempotency::ActiveKeys;
use crate::limits::CallLimits;
use crate::modes::{self, ModeCause, ModeCell, ModeWatch, UnrecordedModeChanges};
use crate::pipeline::{self, PipelineHalt};
use crate::policy_names;
use crate::recorder::{self, StartConfiguration};
use crate::reload::ReloadState;
use crate::result_cache::ResultCache;
use crate::secret_screening;
use crate::sessions;
use crate::slots::FairSlots;
use crate::status::{ApprovalsStatus, CallTally, LayerStatus, LedgerStatus, ProposalStatus};
use crate::suspension::Suspensions;
use crate::throttle::Throttle;

/// Components of a `ToolExecutionLayer`.
pub struct LayerParts {
    /// Tools, rules and workspaces.
    pub snapshot: ConfigSnapshot,
    /// Ledger for decisions and outcomes.
    pub ledger: Arc<Ledger>,
    /// State that the ledger recovered from earlier daemon runs.
    pub recovery: LedgerRecovery,
    /// Directory with the pending approvals and the operator's PIN.
    pub state_dir: PathBuf,
    /// Backups of the files that calls replaced or removed.
    pub undo: Arc<UndoStore>,
}

/// Runs calls: checks, judges, records, executes.
pub struct ToolExecutionLayer {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) undo: Arc<UndoStore>,
    pub(crate) limits: CallLimits,
    /// Rate limits for host calls, which are only judged here and must not use up the limits of calls that
    /// run.
    pub(crate) host_limits: CallLimits,
    /// Host calls that were refused with advice, which a repetition overrides.
    pub(crate) host_advice: RepeatedAdvice,
    pub(crate) tally: CallTally,
    pub(crate) snapshot: ArcSwap<ConfigSnapshot>,
    pub(crate) mode: ModeCell,
    pub(crate) mode_watch: ModeWatch,
    pub(crate) sessions: SessionTable,
    pub(crate) active_keys: ActiveKeys,
    /// Calls that have not ended, for listing and cancellation.
    pub(crate) active_calls: ActiveCalls,
    pub(crate) suspensions: Suspensions,
    pub(crate) throttle: Throttle,
    pub(crate) bookkeeping: Bookkeeping,
    pub(crate) result_cache: ResultCache,
    pub(crate) unrecorded_mode_changes: UnrecordedModeChanges,
    /// Version of the mode and the rules. Waiting calls are judged again when it changes.
    pub(crate) policy_changes: tokio::sync::watch::Sender<u64>,
    /// Version of the tool list. Clients that show the list fetch it again when it changes.
    pub(crate) tool_changes: tokio::sync::watch::Sender<u64>,
    pub(crate) reloads: ReloadState,
    pub(crate) opening_slots: FairSlots,
    /// Slots for the processes that run validators, shared fairly between callers.
    pub(crate) validation_slots: FairSlots,
    pub(crate) mode_lock: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
    draining: AtomicBool,
    started: Instant,
}

impl ToolExecutionLayer {
    /// Creates a layer that continues with the mode and the rate windows recovered from the ledger.
    pub fn new(parts: LayerParts) -> Result<Arc<Self>, TelemetryError> {
        let LayerParts { snapshot, ledger, recovery, state_dir: state, undo } = parts;
        secret_screening::install_patterns(&snapshot.policy)?;
        let mode = modes::restore_mode(&ledger, &recovery);
        let limits = CallLimits::restore(max_running_calls(&snapshot, mode), &recovery, |tool| {
            snapshot.is_outbound(tool.as_str())
        });
        let host_limits = CallLimits::restore(0, &LedgerRecovery::default(), |_| false);
        let watch = ModeWatch::new(snapshot.policy.transitions(), mode, ledger.health().head);
        let approvals = Approvals::restore(&ledger, &recovery, &state);
        let bookkeeping = Bookkeeping::new(ledger.max_bytes());
        let reloads = ReloadState::default();
        reloads.set_problems(&snapshot.problems);
        Ok(Arc::new(ToolExecutionLayer {
            ledger,
            approvals,
            undo,
            limits,
            host_limits,
            host_advice: RepeatedAdvice::default(),
            mode_watch: watch,
            active_calls: ActiveCalls::default(),
            sessions: SessionTable::default(),
            active_keys: ActiveKeys::default(),
            suspensions: Suspensions::default(),
            throttle: Throttle::default(),
            bookkeeping,
            result_cache: ResultCache::default(),
            unrecorded_mode_changes: UnrecordedModeChanges::default(),
            policy_changes: tokio::sync::watch::Sender::new(0),
            tool_changes: tokio::sync::watch::Sender::new(0),
            reloads,
            tally: CallTally::default(),
            snapshot: ArcSwap::from_pointee(snapshot),
            mode: ModeCell::new(mode),
            opening_slots: FairSlots::new(MAX_OPENING),
            validation_slots: FairSlots::new(MAX_VALIDATING),
            mode_lock: tokio::sync::Mutex::new(()),
            tasks: TaskTracker::new(),
            draining: AtomicBool::new(false),
            started: Instant::now(),
        }))
    }

    /// Runs one call and returns its result. A call that has to wait continues in its own task, so that a
    /// caller that disconnects aborts neither the tool nor the ledger record.
    pub async fn execute(self: &Arc<Self>, request: CallRequest) -> ToolResult {
        self.execute_for(request, CallOrigin::Caller).await
    }

    /// Runs a call that a tool makes on behalf of its caller: same pipeline, charged to the same party. Its
    /// run slot is granted in addition to the slot that the tool holds.
    pub async fn execute_inner(self: &Arc<Self>, request: CallRequest) -> ToolResult {
        self.execute_for(request, CallOrigin::Tool).await
    }

    async fn execute_for(self: &Arc<Self>, request: CallRequest, made_by: CallOrigin) -> ToolResult {
        let (call, arguments) =
            PipelineCall::receive(request, &self.ledger, self.snapshot.load_full(), self.mode.get());
        let call = Box::new(call.with_origin(made_by));
        let traces = recorder::CrashReport::of(&call);
        let (layer, tracked) = (Arc::clone(self), self.tasks.token());
        let (trace, track) = (call.header.trace.clone(), Arc::clone(&call.tracker));
        let listed = self.active_calls.register(&track);
        // Dropped with this future: a call that waits for the operator does not run after its caller has
        // left.
        let _present = track.attach_caller();
        // Boxed before it is wrapped: the future is large, and each wrapper would move it.
        let work = Box::pin(async move {
            let (call, mut result) = layer.run_pipeline(call, arguments).await;
            sessions::add_session_report(&call, &mut result);
            policy_names::shorten_in_result(&call, &mut result);
            recorder::export(*call, &result);
            drop((listed, tracked));
            result
        });
        let work = AssertUnwindSafe(work).catch_unwind();
        let mut work = Box::pin(telemetry::with_call_ids(&trace, work));
        let conducted = match poll_fn(|context| Poll::Ready(work.poll_unpin(context))).await {
            Poll::Ready(conducted) => Ok(conducted),
            Poll::Pending => {
                self.active_calls.insert(&track);
                tokio::spawn(work).await
            }
        };
        conducted.ok().and_then(Result::ok).unwrap_or_else(|| traces.crashed_result())
    }

    async fn run_pipeline(
        &self,
        mut call: Box<PipelineCall>,
        mut arguments: Value,
    ) -> (Box<PipelineCall>, ToolResult) {
        loop {
            if let Err(refusal) = self.check_admission(&call) {
                // No `retry_after_ms` at a stop: the daemon does not know when it will be restarted.
                let result = recorder::record_refusal(self, &call, *refusal);
                return (call, result);
            }
            // A panic in a stage is a fault in Sinew, and the call still needs its ledger record.
            let result = match AssertUnwindSafe(pipeline::execute(self, &call, arguments))
                .catch_unwind()
                .await
            {
                Ok(Ok(result)) => result,
                Ok(Err(PipelineHalt::Refused(mut refusal))) => {
                    self.limits.set_retry_after(&call, &mut refusal);
                    let refusal = self.pace_refusal(&call, refusal);
                    recorder::record_refusal(self, &call, *refusal)
                }
                Ok(Err(PipelineHalt::Repeated(earlier))) => recorder::record_repeat(self, &call, *earlier),
                Ok(Err(PipelineHalt::Rejudge(same, approval_ref))) => {
                    arguments = Value::Object(same);
                    *call = call.with_snapshot(self.snapshot.load_full(), self.mode.get(), approval_ref);
                    continue;
                }
                Ok(Err(PipelineHalt::Edited(other, approval_ref))) => {
                    let edited = call.with_edited_arguments(&self.ledger, &other);
                    arguments = Value::Object(other);
                    *call = edited.with_snapshot(self.snapshot.load_full(), self.mode.get(), approval_ref);
                    continue;
                }
                Err(_) => recorder::record_crash(self, &call),
            };
            approval_stage::withdraw_undecided(
                self,
                &call,
                result.metadata.refusal.as_ref().map(|refusal| refusal.code),
            )
            .await;
            return (call, result);
        }
    }

    /// Refuses the call if the daemon is shutting down or the caller is suspended.
    pub(crate) fn check_admission(&self, call: &PipelineCall) -> Result<(), Box<Refusal>> {
        if !self.draining.load(Ordering::Acquire) {
            return self.check_suspension(call);
        }
        let refusal = Refusal::new(&call.tool_name, RefusalCode::ShuttingDown, "Sinew is shutting down");
        Err(Box::new(refusal.with_hint("try again after the daemon has restarted")))
    }

    /// Returns true if the mode or the rules changed since the call was judged.
    pub(crate) fn has_changed_since(&self, call: &PipelineCall) -> bool {
        self.mode.get() != call.header.mode || !Arc::ptr_eq(&self.snapshot.load(), &call.snapshot)
    }

    /// Definitions that pass the filter, by name.
    pub fn tools(&self, filter: &ToolFilter) -> Vec<Arc<ToolDefinition>> {
        self.snapshot.load().tools(filter)
    }

    /// State of the layer.
    pub fn status(&self) -> LayerStatus {
        let (snapshot, mode) = (self.snapshot.load(), self.mode.get());
        LayerStatus {
            version: env!("CARGO_PKG_VERSION"),
            mode,
            proposal: self.mode_watch.machine().proposal().map(ProposalStatus::of),
            reload: self.reloads.last_report(),
            manifest_problems: self.reloads.problems(),
            remaining: snapshot.policy.remaining_calls(mode, self.limits.counts_of_all()),
            uptime_seconds: self.started.elapsed().as_secs(),
            calls: self.tally.counts(self.limits.running()),
            approvals: ApprovalsStatus {
                pending: self.approvals.pending_count(),
                pin: self.approvals.pin().is_set(),
            },
            tools: snapshot.registry.len(),
            policy_hash: snapshot.policy.hash().to_owned(),
            workspaces: snapshot
                .workspaces
                .iter()
                .map(|folder| folder.root().display().to_string())
                .collect(),
            ledger: LedgerStatus::of(&self.ledger.health()),
        }
    }

    /// Cause of the current mode, for the operator: its reason may quote the operator.
    pub fn mode_cause(&self) -> Option<ModeCause> {
        self.mode.cause()
    }

    /// Approval requests, standing rules and the operator PIN.
    pub fn approvals(&self) -> &Arc<Approvals> {
        &self.approvals
    }

    /// Decides an approval request. An unused approval expires after the same time as a request.
    pub async fn decide(
        &self,
        id: &str,
        decision: OperatorDecision,
        by: &Caller,
        pin: Option<String>,
    ) -> Result<DecisionOutcome, DecideError> {
        let timeout = self.snapshot.load().policy.approval_timeout();
        self.approvals.decide(id, decision, by, pin, timeout).await
    }

    /// Current mode.
    pub fn mode(&self) -> Mode {
        self.mode.get()
    }

    /// Maximum number of concurrent calls for the current mode and rules.
    pub(crate) fn max_running_calls(&self) -> usize {
        max_running_calls(&self.snapshot.load(), self.mode.get())
    }

    /// Records the start of the daemon in the ledger.
    pub fn announce_start(&self, configuration: StartConfiguration) -> Result<(), LedgerError> {
        recorder::record_start(self, configuration)
    }

    /// Records a clean stop and closes the ledger. Blocking.
    pub fn close(&self, reason: &str) {
        self.write_all_groups();
        recorder::record_stop(self, reason);
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
pub(crate) fn max_running_calls(snapshot: &ConfigSnapshot, mode: Mode) -> usize {
    let allowed = snapshot.policy.max_concurrent_tasks(mode).and_then(|most| usize::try_from(most).ok());
    allowed.unwrap_or(MAX_RUNNING).min(MAX_RUNNING)
}

/// Cap on concurrent calls. The tools of this process share one blocking pool; calls beyond its size would
/// only queue inside it.
const MAX_RUNNING: usize = 256;
/// Cap on concurrent validations. It equals the number of validator processes, so that calls queue here,
/// where slots are shared fairly between callers.
const MAX_VALIDATING: usize = 4;
/// Cap on concurrent path openings. Opening takes microseconds unless a mount is stuck.
pub(crate) const MAX_OPENING: usize = 64;
