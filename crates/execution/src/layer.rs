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
use file_access::UndoStore;
use futures_util::FutureExt;
use governance::reserved_ports::ReservedPorts;
use ledger::{Ledger, LedgerError, LedgerRecovery};
use registry::Tool;
use serde_json::Value;
use telemetry::TelemetryError;
use tokio_util::task::TaskTracker;
use tool::caller::EndpointParty;
use tool::{Caller, Mode, Refusal, RefusalCode, ToolDefinition, ToolResult};

use crate::approval_stage;
use crate::call::{CallOrigin, CallRequest, PipelineCall};
use crate::calls::ActiveCalls;
use crate::config_snapshot::{ConfigSnapshot, ToolFilter};
use crate::current_policy::{CurrentPolicy, max_running_calls};
use crate::host::HostCallState;
use crate::idempotency::IdempotencyKeys;
use crate::limits::CallLimits;
use crate::modes::{self, ModeCause, ModeControl, ModeWatch};
use crate::pipeline::{self, PipelineHalt, StageContext};
use crate::policy_names;
use crate::recorder::{self, Recorder, StartConfiguration};
use crate::recording;
use crate::reload::ReloadState;
use crate::request_slots::RequestSlots;
use crate::result_cache::ResultCache;
use crate::secret_screening;
use crate::sessions;
use crate::slots::FairSlots;
use crate::status::{ApprovalsStatus, LayerStatus, LedgerStatus, ProposalStatus};
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
    /// Ports of this machine that no call may reach.
    pub reserved_ports: ReservedPorts,
}

/// Runs calls: checks, judges, records, executes.
pub struct ToolExecutionLayer {
    pub(crate) current: CurrentPolicy,
    pub(crate) capacity: Capacity,
    pub(crate) recorder: Recorder,
    pub(crate) modes: ModeControl,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) undo: Arc<UndoStore>,
    pub(crate) host: HostCallState,
    pub(crate) sessions: SessionTable,
    pub(crate) suspensions: Suspensions,
    pub(crate) throttle: Throttle,
    request_slots: RequestSlots,
    pub(crate) idempotency_keys: IdempotencyKeys,
    /// Calls that have not ended, for listing and cancellation.
    pub(crate) active_calls: ActiveCalls,
    pub(crate) result_cache: ResultCache,
    pub(crate) reloads: ReloadState,
    pub(crate) reserved_ports: ReservedPorts,
    tasks: TaskTracker,
    draining: AtomicBool,
    started: Instant,
}

impl ToolExecutionLayer {
    /// Creates a layer that continues with the mode and the rate windows recovered from the ledger.
    pub fn new(parts: LayerParts) -> Result<Arc<Self>, TelemetryError> {
        let LayerParts { snapshot, ledger, recovery, state_dir, undo, reserved_ports } = parts;
        secret_screening::install_patterns(&snapshot.policy)?;
        let mode = modes::restore_mode(&ledger, &recovery);
        let limits = CallLimits::restore(max_running_calls(&snapshot, mode), &recovery, |tool| {
            snapshot.is_outbound(tool.as_str())
        });
        let watch = Arc::new(ModeWatch::new(snapshot.policy.transitions(), mode, ledger.health().head));
        let reloads = ReloadState::default();
        reloads.set_problems(&snapshot.problems);
        Ok(Arc::new(ToolExecutionLayer {
            current: CurrentPolicy::new(snapshot, mode),
            capacity: Capacity::new(limits),
            approvals: Approvals::restore(&ledger, &recovery, &state_dir),
            recorder: Recorder::new(ledger, Arc::clone(&watch)),
            modes: ModeControl::new(watch),
            undo,
            host: HostCallState::new(),
            sessions: SessionTable::default(),
            suspensions: Suspensions::default(),
            throttle: Throttle::default(),
            request_slots: RequestSlots::default(),
            idempotency_keys: IdempotencyKeys::default(),
            active_calls: ActiveCalls::default(),
            result_cache: ResultCache::default(),
            reloads,
            reserved_ports,
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
        let (call, arguments) = PipelineCall::receive(
            request,
            &self.recorder.ledger,
            self.current.snapshot.load_full(),
            self.current.mode.get(),
        );
        let call = Box::new(call.with_origin(made_by));
        // The operator's requests need no slot.
        let is_agent = call.header.caller.endpoint.party() == EndpointParty::Agents;
        let slots = is_agent.then(|| (self.request_slots.clone(), call.caller_key));
        let crash_report = recorder::CrashReport::of(&call);
        let (layer, task_token) = (Arc::clone(self), self.tasks.token());
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
            drop((listed, task_token));
            result
        });
        let work = AssertUnwindSafe(work).catch_unwind();
        let mut work = Box::pin(telemetry::with_call_ids(&trace, work));
        let ended = match poll_fn(|context| Poll::Ready(work.poll_unpin(context))).await {
            Poll::Ready(ended) => Ok(ended),
            Poll::Pending => {
                self.active_calls.insert(&track);
                // The request that waits for this task returns its own slot.
                let in_slot = async move {
                    match slots {
                        Some((slots, caller)) => slots.run(caller, work).await,
                        None => work.await,
                    }
                };
                tokio::spawn(in_slot).await
            }
        };
        ended.ok().and_then(Result::ok).unwrap_or_else(|| crash_report.crashed_result())
    }

    async fn run_pipeline(
        &self,
        mut call: Box<PipelineCall>,
        mut arguments: Value,
    ) -> (Box<PipelineCall>, ToolResult) {
        // Refusal of a call that is judged again by the rules of a recording, with the facts of its denial.
        let mut first_refusal: Option<(Box<Refusal>, Option<Value>)> = None;
        loop {
            // A copy only while calls are recorded: arguments can be large.
            let original_arguments = self.current.recording.is_active().then(|| arguments.clone());
            if let Err(refusal) = self.check_admission(&call) {
                // No `retry_after_ms` at a stop: the daemon does not know when it will be restarted.
                let result = self.recorder.record_refusal(&call, *refusal);
                return (call, result);
            }
            // A panic in a stage is a fault in Sinew, and the call still needs its ledger record.
            let result =
                match AssertUnwindSafe(pipeline::execute(self, &call, arguments)).catch_unwind().await {
                    Ok(Ok(result)) => {
                        if call.is_recorded() {
                            self.current.recording.count_call();
                        }
                        result
                    }
                    Ok(Err(PipelineHalt::Refused(refusal))) => {
                        let snapshot = self.current.recording_for(&call, &refusal);
                        if let (Some(snapshot), Some(same)) = (snapshot, original_arguments) {
                            first_refusal = Some((refusal, call.denial_facts().cloned()));
                            *call = call.with_recording(snapshot);
                            arguments = same;
                            continue;
                        }
                        let mut refusal = refusal;
                        // A call that the recording does not permit is refused as if there were none.
                        if call.is_recorded()
                            && !recording::is_decided_later(refusal.code)
                            && let Some((first, facts)) = first_refusal.take()
                        {
                            *call = call.with_denial_facts(facts);
                            refusal = first;
                        }
                        self.capacity.limits.set_retry_after(&call, &mut refusal);
                        let refusal = self.throttle.pace_refusal(&self.modes.watch, &call, refusal);
                        self.recorder.record_refusal(&call, *refusal)
                    }
                    Ok(Err(PipelineHalt::Repeated(earlier))) => self.recorder.record_repeat(&call, *earlier),
                    Ok(Err(PipelineHalt::Rejudge(same, approval_ref))) => {
                        arguments = Value::Object(same);
                        *call = call.with_snapshot(
                            self.current.snapshot.load_full(),
                            self.current.mode.get(),
                            approval_ref,
                        );
                        continue;
                    }
                    Ok(Err(PipelineHalt::Edited(other, approval_ref))) => {
                        let edited = call.with_edited_arguments(&self.recorder.ledger, &other);
                        arguments = Value::Object(other);
                        *call = edited.with_snapshot(
                            self.current.snapshot.load_full(),
                            self.current.mode.get(),
                            approval_ref,
                        );
                        continue;
                    }
                    Err(_) => self.recorder.record_crash(&call),
                };
            approval_stage::withdraw_undecided(
                &self.approvals,
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
            return self.suspensions.check(call);
        }
        let refusal = Refusal::new(&call.tool_name, RefusalCode::ShuttingDown, "Sinew is shutting down");
        Err(Box::new(refusal.with_hint("try again after the daemon has restarted")))
    }

    /// Context of the stages after look-up.
    pub(crate) fn stage_context<'a>(
        &'a self,
        call: &'a PipelineCall,
        tool: &'a Arc<Tool>,
    ) -> StageContext<'a> {
        StageContext {
            call,
            tool,
            current: &self.current,
            capacity: &self.capacity,
            recorder: &self.recorder,
            approvals: &self.approvals,
            active_calls: &self.active_calls,
            result_cache: &self.result_cache,
        }
    }

    /// Slots in which the requests of agents are handled.
    pub fn request_slots(&self) -> &RequestSlots {
        &self.request_slots
    }

    /// Definitions that pass the filter, by name.
    pub fn tools(&self, filter: &ToolFilter) -> Vec<Arc<ToolDefinition>> {
        self.current.snapshot.load().tools(filter)
    }

    /// State of the layer.
    pub fn status(&self) -> LayerStatus {
        let (snapshot, mode) = (self.current.snapshot.load(), self.current.mode.get());
        LayerStatus {
            version: env!("CARGO_PKG_VERSION"),
            mode,
            proposal: self.modes.watch.machine().proposal().map(ProposalStatus::of),
            reload: self.reloads.last_report(),
            manifest_problems: self.reloads.problems(),
            remaining: snapshot.policy.remaining_calls(mode, self.capacity.limits.counts_of_all()),
            uptime_seconds: self.started.elapsed().as_secs(),
            calls: self.recorder.tally.counts(self.capacity.limits.running()),
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
            ledger: LedgerStatus::of(&self.recorder.ledger.health()),
        }
    }

    /// Cause of the current mode, for the operator: its reason may quote the operator.
    pub fn mode_cause(&self) -> Option<ModeCause> {
        self.current.mode.cause()
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
        let timeout = self.current.snapshot.load().policy.approval_timeout();
        self.approvals.decide(id, decision, by, pin, timeout).await
    }

    /// Current mode.
    pub fn mode(&self) -> Mode {
        self.current.mode.get()
    }

    /// Records the start of the daemon in the ledger.
    pub fn announce_start(&self, configuration: StartConfiguration) -> Result<(), LedgerError> {
        self.recorder.record_start(&self.current, configuration)
    }

    /// Records a clean stop and closes the ledger. Blocking.
    pub fn close(&self, reason: &str) {
        self.recorder.close(reason);
    }

    /// Admits no more calls and waits for the running ones. Returns how many were still running at the
    /// deadline.
    pub async fn drain(&self, deadline: Duration) -> usize {
        self.draining.store(true, Ordering::Release);
        self.end_recording("the daemon stops");
        self.approvals.close();
        self.tasks.close();
        let _ = tokio::time::timeout(deadline, self.tasks.wait()).await;
        self.tasks.len()
    }
}

/// Rate windows and run slots of calls, and the slots for the work that precedes a run.
pub(crate) struct Capacity {
    pub(crate) limits: CallLimits,
    /// Slots for threads that open paths.
    pub(crate) opening_slots: FairSlots,
    /// Slots for the processes that run validators, shared fairly between callers.
    pub(crate) validation_slots: FairSlots,
}

impl Capacity {
    pub(crate) fn new(limits: CallLimits) -> Self {
        Capacity {
            limits,
            opening_slots: FairSlots::new(MAX_OPENING),
            validation_slots: FairSlots::new(MAX_VALIDATING),
        }
    }
}

/// Cap on concurrent validations. It equals the number of validator processes, so that calls queue here,
/// where slots are shared fairly between callers.
const MAX_VALIDATING: usize = 4;
/// Cap on concurrent path openings. Opening takes microseconds unless a mount is stuck.
pub(crate) const MAX_OPENING: usize = 64;
