//! The pipeline, from the first stage to the last. Each stage takes a value that only the stage before it can
//! construct, so the compiler rejects code that skips a stage.

use std::sync::Arc;
use std::time::Instant;

use approvals::{ApprovalBasis, ApprovalRef, Approvals};
use file_access::OpenedCall;
use governance::{Denial, Permit, Prechecked, Situation, Verdict};
use guardrail::{KnownTool, RejectedCall, SchemaCheckedCall, ValidCall, ValidatedCall};
use registry::{RecordedPermit, Tool};
use serde_json::Value;
use telemetry::Stage;
use tool::{Arguments, CallId, Failure, Refusal, RefusalCode, ToolOutput, ToolResult};

use crate::approval_stage;
use crate::call::{CuratedMapCheck, PipelineCall};
use crate::calls::{ActiveCalls, CallState};
use crate::current_policy::CurrentPolicy;
use crate::idempotency::{self, EarlierCall};
use crate::layer::{Capacity, ToolExecutionLayer};
use crate::limits::{CallLimits, CountedCall};
use crate::look_up::look_up;
use crate::offload::offload_if_large;
use crate::recorder::{self, Recorder};
use crate::repair;
use crate::response_padding::{self, Opening};
use crate::result_cache::ResultCache;
use crate::run;
use crate::secret_screening;
use crate::sessions;
use crate::slots::{CallLength, FairSlots, Slot};

/// Output of a tool, checked against the size limit and the secret patterns.
pub(crate) struct BoundedOutput {
    pub(crate) output: ToolOutput,
    /// Canonical JSON of the value. It is computed once, for the size check and for the digest in the ledger.
    pub(crate) canonical: Vec<u8>,
}

/// Result of the run stage.
pub(crate) enum ExecutionEnd {
    /// The tool was started; it succeeded or failed.
    Ran {
        /// Result of the last attempt.
        result: Result<BoundedOutput, Failure>,
        /// Number of attempts.
        attempts: u32,
    },
    /// The result of an earlier, equal call is returned; the tool was not started.
    Cached {
        /// Call that the result comes from.
        from: CallId,
        /// Its result.
        result: BoundedOutput,
    },
    /// The call was stopped before the tool was started.
    NotStarted(Failure),
}

/// Run slot of a call, together with its entry in the rate windows.
pub(crate) struct RunReservation {
    pub(crate) slot: Slot,
    pub(crate) counted_call: CountedCall,
}

/// Reason why a call left the pipeline before the end.
pub(crate) enum PipelineHalt {
    /// The call is refused.
    Refused(Box<Refusal>),
    /// The mode or the rules changed, or the operator decided, while the call waited. It runs through the
    /// pipeline again with this approval reference.
    Rejudge(Arguments, Option<ApprovalRef>),
    /// The operator edited the arguments. The call runs through the pipeline again with the edited ones.
    Edited(Arguments, Option<ApprovalRef>),
    /// A call with the same idempotency key was run before; this one is not run.
    Repeated(Box<EarlierCall>),
}

impl<R: Into<Box<Refusal>>> From<R> for PipelineHalt {
    fn from(refusal: R) -> Self {
        PipelineHalt::Refused(refusal.into())
    }
}

/// One call with its tool, and the parts of the layer that the stages after look-up use.
pub(crate) struct StageContext<'a> {
    pub(crate) call: &'a PipelineCall,
    pub(crate) tool: &'a Arc<Tool>,
    pub(crate) current: &'a CurrentPolicy,
    pub(crate) capacity: &'a Capacity,
    pub(crate) recorder: &'a Recorder,
    pub(crate) approvals: &'a Approvals,
    pub(crate) active_calls: &'a ActiveCalls,
    pub(crate) result_cache: &'a ResultCache,
}

impl StageContext<'_> {
    /// Halts the call, so that it runs through the pipeline again with these arguments and its approval.
    pub(crate) fn rejudge(&self, arguments: &Arguments) -> PipelineHalt {
        PipelineHalt::Rejudge(arguments.clone(), self.call.approval_ref.clone())
    }
}

/// Rate windows and slots that the stages from pre-check to judge use.
#[derive(Clone, Copy)]
pub(crate) struct JudgeCapacity<'a> {
    pub(crate) limits: &'a CallLimits,
    /// Slots for threads that open paths.
    pub(crate) opening_slots: &'a FairSlots,
}

impl<'a> JudgeCapacity<'a> {
    pub(crate) fn of(capacity: &'a Capacity) -> Self {
        JudgeCapacity { limits: &capacity.limits, opening_slots: &capacity.opening_slots }
    }
}

/// Runs one call through every stage. `layer.rs` wraps it: it runs a halted call again, survives panics and
/// records refusals.
pub(crate) async fn execute(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    arguments: Value,
) -> Result<ToolResult, PipelineHalt> {
    admit(layer, call).await?;
    let tool = look_up(call, &arguments)?;
    let cx = &layer.stage_context(call, tool);
    let valid = check(cx, arguments).await?;
    let situation = call.situation(cx.capacity.limits.counts(&call.caller_key, valid.definition().name()));
    let prechecked = precheck(call, &situation, valid).map_err(|denial| call.refusal_for(denial))?;
    let (opened, opening) = open(&cx.capacity.opening_slots, call, prechecked).await?;
    let verdict = judge(call, &situation, opened, opening).await;
    let (permit, approval) = approve(cx, verdict).await?;
    let reservation = reserve(cx, &permit).await?;
    let recorded_permit = record_decision(cx, permit, approval, &reservation).await?;
    let end = run::run(cx, &recorded_permit, reservation).await?;
    cx.recorder.record_outcome(&cx.capacity.limits, call, &recorded_permit, end)
}

/// Runs the stages from check to judge, for `explain` and for arguments that the operator edited.
pub(crate) async fn check_and_judge(
    cx: &StageContext<'_>,
    arguments: Value,
) -> Result<Verdict, Box<Refusal>> {
    let valid = check(cx, arguments).await?;
    judge_only(JudgeCapacity::of(cx.capacity), cx.call, valid).await
}

/// Runs the stages from pre-check to judge on a valid call that does not run here, such as a host call or the
/// proof of a repair. It has no side effects; the paths it opens are closed when the verdict is dropped.
pub(crate) async fn judge_only(
    capacity: JudgeCapacity<'_>,
    call: &PipelineCall,
    valid: ValidCall,
) -> Result<Verdict, Box<Refusal>> {
    let situation = call.situation(capacity.limits.counts(&call.caller_key, valid.definition().name()));
    match precheck(call, &situation, valid) {
        Ok(prechecked) => {
            let (opened, opening) = open(capacity.opening_slots, call, prechecked).await?;
            Ok(judge(call, &situation, opened, opening).await)
        }
        Err(denial) => Ok(Verdict::Denial(denial)),
    }
}

/// Admits the call: allowlist and budget of its session, then its idempotency key.
async fn admit(layer: &ToolExecutionLayer, call: &PipelineCall) -> Result<(), PipelineHalt> {
    sessions::admit(&layer.sessions, call)?;
    idempotency::claim_key(&layer.idempotency_keys, &layer.recorder.ledger, call).await
}

/// Checks the arguments against the schema, the curated map and the validators of the tool. The refusal of a
/// malformed call offers a repair if the repaired call would be permitted.
async fn check(cx: &StageContext<'_>, arguments: Value) -> Result<ValidCall, Box<Refusal>> {
    let (call, definition, schema) = (cx.call, cx.tool.definition(), cx.tool.schema());
    let check = |arguments| match call.curated_map {
        CuratedMapCheck::Applied => {
            call.snapshot.with_guard(|guard| guard.check(KnownTool { definition, schema }, arguments))
        }
        CuratedMapCheck::Skipped => {
            recorder::announce_guardrail_skipped(call, definition);
            guardrail::check_schema(definition, schema, arguments).map_err(RejectedCall::without_proposal)
        }
    };
    match call.time_stage(Stage::Check, || offload_if_large(arguments, check)) {
        Ok(schema_checked) => validate(&cx.capacity.validation_slots, call, schema_checked).await,
        Err(rejected) => Err(Box::pin(repair::with_repair(cx.capacity, call, rejected)).await),
    }
}

/// Runs the tool's validators, if it has any, attaches the caller and refuses blocked secrets.
pub(crate) async fn validate(
    validation_slots: &FairSlots,
    call: &PipelineCall,
    schema_checked: SchemaCheckedCall,
) -> Result<ValidCall, Box<Refusal>> {
    let valid = match schema_checked.without_validators() {
        Ok(valid) => valid,
        // Boxed, like every rarely used branch: the future of each call is as large as its largest branch.
        Err(with_validators) => Box::pin(run_validators(validation_slots, call, with_validators)).await?,
    };
    let valid = valid.with_caller(&call.header.caller);
    secret_screening::refuse_blocked(&call.snapshot.policy, &valid)?;
    Ok(valid)
}

/// Runs the tool's validators, which run in a separate process and may be slow.
async fn run_validators(
    validation_slots: &FairSlots,
    call: &PipelineCall,
    schema_checked: SchemaCheckedCall,
) -> Result<ValidCall, Box<Refusal>> {
    let _timing = call.span.stage(Stage::Check);
    let validating = async {
        let _slot = validation_slots.acquire(&call.caller_key, CallLength::Short).await;
        schema_checked.run_validators().await
    };
    let ValidatedCall { call: valid, slow_validators: slow } = call.within_deadline(validating).await??;
    for (validator, took) in slow {
        let (tool, took_ms) = (call.tool_name.as_str(), u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        tracing::warn!(
            tool,
            validator = &*validator,
            took_ms,
            "a validator took longer than its target of 50 ms"
        );
    }
    Ok(valid)
}

/// Decides what needs no file: mode, category, rates and names as typed.
fn precheck(call: &PipelineCall, situation: &Situation<'_>, valid: ValidCall) -> Result<Prechecked, Denial> {
    call.time_stage(Stage::Precheck, || governance::precheck(&call.snapshot.policy, situation, valid))
}

/// Opens the paths that a call names. Opening can block forever on a dead mount or a permission dialog, so it
/// runs on the blocking pool, where a stuck thread can be abandoned. The number of these threads is limited:
/// when all of them are stuck, further calls are refused. Paths that are cached in memory are opened
/// directly. The time and the method of opening pad the response time of a denial.
async fn open(
    opening_slots: &FairSlots,
    call: &PipelineCall,
    prechecked: Prechecked,
) -> Result<(OpenedCall<Prechecked>, Opening), Box<Refusal>> {
    let _timing = call.span.stage(Stage::Open);
    let began = Instant::now();
    match file_access::try_open_cached(prechecked) {
        Ok(opened) => Ok((opened, Opening::Cached { began })),
        Err(prechecked) => {
            let opened = call.within_deadline(open_on_pool(opening_slots, call, prechecked)).await??;
            Ok((opened, Opening::BlockingPool { began }))
        }
    }
}

/// Opens paths on the blocking pool, within the timeout of the call.
async fn open_on_pool(
    opening_slots: &FairSlots,
    call: &PipelineCall,
    prechecked: Prechecked,
) -> Result<OpenedCall<Prechecked>, Box<Refusal>> {
    let limit = prechecked.timeout();
    let refuse =
        |code, detail: &str, reason: String| Refusal::new(&call.tool_name, code, reason).with_detail(detail);
    let opening = async {
        let slot = opening_slots.acquire(&call.caller_key, CallLength::Short).await;
        tokio::task::spawn_blocking(move || {
            let opened = file_access::open(prechecked);
            drop(slot);
            opened
        })
        .await
    };
    match tokio::time::timeout(limit, opening).await {
        Ok(Ok(Ok(opened))) => Ok(opened),
        Ok(Ok(Err(error))) => Err(Box::new(refuse(error.refusal_code(), error.detail(), error.to_string()))),
        Ok(Err(_)) => {
            let reason = "Sinew failed while opening a path".to_owned();
            let refusal = refuse(RefusalCode::ResourceExhausted, "open_crashed", reason);
            Err(Box::new(refusal.with_hint("nothing was run; see the daemon log for details")))
        }
        Err(_) => {
            let reason = format!(
                "opening a path took longer than {limit:?}; the cause may be a dead mount or an open permission dialog"
            );
            let refusal = refuse(RefusalCode::ResourceExhausted, "path_unresponsive", reason);
            Err(Box::new(
                refusal
                    .with_hint("nothing was run; try a path on another volume, or check for an open dialog"),
            ))
        }
    }
}

/// Judges the opened call by canonical names, sizes and links. The response time of a denial is padded.
async fn judge(
    call: &PipelineCall,
    situation: &Situation<'_>,
    opened: OpenedCall<Prechecked>,
    opening: Opening,
) -> Verdict {
    let verdict =
        call.time_stage(Stage::Judge, || governance::judge(&call.snapshot.policy, situation, opened));
    if matches!(verdict, Verdict::Denial(_)) {
        response_padding::pad_response(opening).await;
    }
    verdict
}

/// Asks the operator if the verdict requires it, and returns the permit with the approval it is based on. A
/// denied call is refused.
async fn approve(
    cx: &StageContext<'_>,
    verdict: Verdict,
) -> Result<(Permit, Option<ApprovalBasis>), PipelineHalt> {
    match verdict {
        Verdict::Permit(permit) => Ok((permit, None)),
        Verdict::Denial(denial) => Err(cx.call.refusal_for(denial).into()),
        Verdict::ApprovalRequired(question) => {
            // Boxed, like every rarely used branch: the future of each call is as large as its largest branch.
            let (permit, basis) = Box::pin(approval_stage::approve(cx, question)).await?;
            Ok((permit, Some(basis)))
        }
    }
}

/// Waits for a run slot and counts the call. If the mode or the rules change meanwhile, the call is judged
/// again, because a permit is valid only for the snapshot it was judged by.
async fn reserve(cx: &StageContext<'_>, permit: &Permit) -> Result<RunReservation, PipelineHalt> {
    let (call, limits) = (cx.call, &cx.capacity.limits);
    let _timing = call.span.stage(Stage::Reserve);
    let length = expected_length(cx.tool, permit);
    let slot = match limits.try_acquire_slot(call, length) {
        Some(slot) => Some(slot),
        None => {
            cx.active_calls.set_state(&call.tracker, CallState::Queued);
            sessions::cancel_if_closed(call);
            call.within_deadline(Box::pin(wait_for_slot(cx, length))).await??
        }
    };
    match slot {
        Some(slot) if !cx.current.has_changed_since(call) => {
            let counted_call =
                limits.count(&call.caller_key, permit).map_err(|denial| call.refusal_for(denial))?;
            Ok(RunReservation { slot, counted_call })
        }
        _ => Err(cx.rejudge(permit.call().arguments())),
    }
}

/// Expected duration of a call, by what its tool does.
fn expected_length(tool: &Tool, permit: &Permit) -> CallLength {
    if runs_in_daemon(tool, permit) { CallLength::Short } else { CallLength::Long }
}

/// Returns true if the call starts no process and reaches no other tool, server or host.
fn runs_in_daemon(tool: &Tool, permit: &Permit) -> bool {
    let definition = tool.definition();
    !definition.requires_sandbox()
        && definition.origin().is_none()
        && !tool.executor().makes_inner_calls()
        && !permit.is_outbound()
}

/// Waits for a run slot, and returns `None` as soon as the mode or the rules change.
async fn wait_for_slot(cx: &StageContext<'_>, length: CallLength) -> Result<Option<Slot>, Box<Refusal>> {
    let mut changes = cx.current.changes.subscribe();
    if cx.current.has_changed_since(cx.call) {
        return Ok(None);
    }
    tokio::select! {
        slot = cx.capacity.limits.acquire_slot(cx.call, length) => slot.map(Some),
        _ = changes.changed() => Ok(None),
    }
}

/// Records the decision in the ledger, as durably as the risk of the call requires, before anything runs. If
/// the call uses an operator approval, that use is recorded first. A call that only reads in the daemon has
/// one record, which the last stage writes.
async fn record_decision(
    cx: &StageContext<'_>,
    permit: Permit,
    basis: Option<ApprovalBasis>,
    reservation: &RunReservation,
) -> Result<Arc<RecordedPermit>, PipelineHalt> {
    let call = cx.call;
    let uncount = || cx.capacity.limits.uncount(&reservation.counted_call);
    let (permit, approval_id) = match &basis {
        None => (permit, None),
        Some(basis) => {
            let consuming = Box::pin(approval_stage::consume_approval(cx, permit, basis));
            let (permit, id) = consuming.await.inspect_err(|_| uncount())?;
            (permit, Some(id))
        }
    };
    let _timing = call.span.stage(Stage::RecordDecision);
    let decision = recorder::decision(call, &permit, approval_id);
    // The caller's deadline does not apply here: a recorded decision needs a recorded outcome. A call whose
    // deadline has passed is not started.
    let ledger = &cx.recorder.ledger;
    let intended = match runs_in_daemon(cx.tool, &permit) {
        true => ledger.intend_read(decision, permit).await,
        false => ledger.intend(decision, permit).await,
    };
    match intended {
        Ok(recorded_permit) => {
            if recorded_permit.receipt().is_some() {
                call.mark_decision_recorded();
            }
            if let Some(claim) = call.key_claim.get() {
                claim.remember(call.header.call_id);
            }
            Ok(Arc::new(recorded_permit))
        }
        Err(error) => {
            uncount();
            Err(recorder::ledger_unavailable(&call.tool_name, &error).into())
        }
    }
}
