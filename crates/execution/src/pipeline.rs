//! The pipeline, from the first stage to the last. Each stage takes a value that only the stage before it can
//! construct, so the compiler rejects code that skips a stage.

use std::sync::Arc;
use std::time::Instant;

use approvals::{ApprovalBasis, ApprovalRef};
use file_access::OpenedCall;
use governance::{Denial, Permit, Prechecked, Situation, Verdict};
use guardrail::{KnownTool, RejectedCall, SchemaCheckedCall, ValidCall, ValidatedCall};
use registry::{RecordedPermit, Tool};
use serde_json::Value;
use telemetry::Stage;
use tool::{Arguments, CallId, Failure, Refusal, RefusalCode, ToolOutput, ToolResult};

use crate::approval_stage;
use crate::call::{CuratedMapCheck, PipelineCall};
use crate::calls::CallState;
use crate::idempotency::{self, EarlierCall};
use crate::layer::ToolExecutionLayer;
use crate::limits::{CallLimits, CountedCall};
use crate::look_up::look_up;
use crate::offload::offload_if_large;
use crate::recorder;
use crate::repair;
use crate::response_padding::{self, Opening};
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

/// Runs one call through every stage. `layer.rs` wraps it: it runs a halted call again, survives panics and
/// records refusals.
pub(crate) async fn execute(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    arguments: Value,
) -> Result<ToolResult, PipelineHalt> {
    admit(layer, call).await?;
    let tool = look_up(call, &arguments)?;
    let valid = check(layer, call, tool, arguments).await?;
    let situation = call.situation(layer.limits.counts(&call.caller_key, valid.definition().name()));
    let prechecked = precheck(call, &situation, valid).map_err(|denial| call.refusal_for(denial))?;
    let (opened, opening) = open(&layer.opening_slots, call, prechecked).await?;
    let verdict = judge(call, &situation, opened, opening).await;
    let (permit, approval) = approve(layer, call, tool, verdict).await?;
    let reservation = reserve(layer, call, tool, &permit).await?;
    let recorded_permit = record_decision(layer, call, tool, (permit, approval), &reservation).await?;
    let end = run::run(layer, call, tool, &recorded_permit, reservation).await?;
    Ok(recorder::record_outcome(layer, call, &recorded_permit, end))
}

/// Runs the stages from check to judge, for `explain` and for arguments that the operator edited.
pub(crate) async fn check_and_judge(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    tool: &Tool,
    arguments: Value,
) -> Result<Verdict, Box<Refusal>> {
    let valid = check(layer, call, tool, arguments).await?;
    judge_only((&layer.limits, &layer.opening_slots), call, valid).await
}

/// Runs the stages from pre-check to judge on a valid call that does not run here, such as a host call or the
/// proof of a repair. It has no side effects; the paths it opens are closed when the verdict is dropped.
pub(crate) async fn judge_only(
    (limits, opening_slots): (&CallLimits, &FairSlots),
    call: &PipelineCall,
    valid: ValidCall,
) -> Result<Verdict, Box<Refusal>> {
    let situation = call.situation(limits.counts(&call.caller_key, valid.definition().name()));
    match precheck(call, &situation, valid) {
        Ok(prechecked) => {
            let (opened, opening) = open(opening_slots, call, prechecked).await?;
            Ok(judge(call, &situation, opened, opening).await)
        }
        Err(denial) => Ok(Verdict::Denial(denial)),
    }
}

/// Admits the call: allowlist and budget of its session, then its idempotency key.
async fn admit(layer: &ToolExecutionLayer, call: &PipelineCall) -> Result<(), PipelineHalt> {
    sessions::admit(&layer.sessions, call)?;
    idempotency::claim_key(layer, call).await
}

/// Checks the arguments against the schema, the curated map and the validators of the tool. The refusal of a
/// malformed call offers a repair if the repaired call would be permitted.
async fn check(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    tool: &Tool,
    arguments: Value,
) -> Result<ValidCall, Box<Refusal>> {
    let (definition, schema) = (tool.definition(), tool.schema());
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
        Ok(schema_checked) => validate(layer, call, schema_checked).await,
        Err(rejected) => Err(Box::pin(repair::with_repair(layer, call, rejected)).await),
    }
}

/// Runs the tool's validators, if it has any, attaches the caller and refuses blocked secrets.
pub(crate) async fn validate(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    schema_checked: SchemaCheckedCall,
) -> Result<ValidCall, Box<Refusal>> {
    let valid = match schema_checked.without_validators() {
        Ok(valid) => valid,
        // Boxed, like every rarely used branch: the future of each call is as large as its largest branch.
        Err(with_validators) => Box::pin(run_validators(layer, call, with_validators)).await?,
    };
    let valid = valid.with_caller(&call.header.caller);
    secret_screening::refuse_blocked(&call.snapshot.policy, &valid)?;
    Ok(valid)
}

/// Runs the tool's validators, which run in a separate process and may be slow.
async fn run_validators(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    schema_checked: SchemaCheckedCall,
) -> Result<ValidCall, Box<Refusal>> {
    let _timing = call.span.stage(Stage::Check);
    let validating = async {
        let _slot = layer.validation_slots.acquire(&call.caller_key, CallLength::Short).await;
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
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    tool: &Arc<Tool>,
    verdict: Verdict,
) -> Result<(Permit, Option<ApprovalBasis>), PipelineHalt> {
    match verdict {
        Verdict::Permit(permit) => Ok((permit, None)),
        Verdict::Denial(denial) => Err(call.refusal_for(denial).into()),
        Verdict::ApprovalRequired(question) => {
            // Boxed, like every rarely used branch: the future of each call is as large as its largest branch.
            let (permit, basis) = Box::pin(approval_stage::approve(layer, call, tool, question)).await?;
            Ok((permit, Some(basis)))
        }
    }
}

/// Waits for a run slot and counts the call. If the mode or the rules change meanwhile, the call is judged
/// again, because a permit is valid only for the snapshot it was judged by.
async fn reserve(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    tool: &Tool,
    permit: &Permit,
) -> Result<RunReservation, PipelineHalt> {
    let _timing = call.span.stage(Stage::Reserve);
    let length = expected_length(tool, permit);
    let slot = match layer.limits.try_acquire_slot(call, length) {
        Some(slot) => Some(slot),
        None => {
            layer.active_calls.set_state(&call.tracker, CallState::Queued);
            sessions::cancel_if_closed(call);
            call.within_deadline(Box::pin(wait_for_slot(layer, call, length))).await??
        }
    };
    match slot {
        Some(slot) if !layer.has_changed_since(call) => {
            let counted =
                layer.limits.count(&call.caller_key, permit).map_err(|denial| call.refusal_for(denial))?;
            Ok(RunReservation { slot, counted_call: counted })
        }
        _ => Err(PipelineHalt::Rejudge(permit.call().arguments().clone(), call.approval_ref.clone())),
    }
}

/// Expected duration of a call, by what its tool does.
fn expected_length(tool: &Tool, permit: &Permit) -> CallLength {
    let waits_for_others = tool.definition().requires_sandbox()
        || tool.definition().origin().is_some()
        || tool.executor().makes_inner_calls()
        || permit.is_outbound();
    if waits_for_others { CallLength::Long } else { CallLength::Short }
}

/// Waits for a run slot, and returns `None` as soon as the mode or the rules change.
async fn wait_for_slot(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    length: CallLength,
) -> Result<Option<Slot>, Box<Refusal>> {
    let mut changes = layer.policy_changes.subscribe();
    if layer.has_changed_since(call) {
        return Ok(None);
    }
    tokio::select! {
        slot = layer.limits.acquire_slot(call, length) => slot.map(Some),
        _ = changes.changed() => Ok(None),
    }
}

/// Records the decision in the ledger, as durably as the risk of the call requires, before anything runs. If
/// the call uses an operator approval, that use is recorded first.
async fn record_decision(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    tool: &Arc<Tool>,
    (permit, basis): (Permit, Option<ApprovalBasis>),
    reservation: &RunReservation,
) -> Result<Arc<RecordedPermit>, PipelineHalt> {
    let uncount = || layer.limits.uncount(&reservation.counted_call);
    let (permit, approval_id) = match &basis {
        None => (permit, None),
        Some(basis) => {
            let consuming = Box::pin(approval_stage::consume_approval(layer, call, tool, permit, basis));
            let (permit, id) = consuming.await.inspect_err(|_| uncount())?;
            (permit, Some(id))
        }
    };
    let _timing = call.span.stage(Stage::RecordDecision);
    let decision = recorder::decision(call, &permit, approval_id);
    // The caller's deadline does not apply here: a recorded decision needs a recorded outcome. A call whose
    // deadline has passed is not started.
    match layer.ledger.intend(decision, permit).await {
        Ok(recorded_permit) => {
            call.mark_decision_recorded();
            Ok(Arc::new(recorded_permit))
        }
        Err(error) => {
            uncount();
            Err(recorder::ledger_unavailable(&call.tool_name, &error).into())
        }
    }
}
