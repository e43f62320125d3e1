//! The pipeline, from the first stage to the last. Each stage takes a value that only the stage before it can
//! construct, so the compiler rejects code that skips a stage.

use std::sync::Arc;
use std::time::Instant;

use approvals::{ApprovalBasis, ApprovalRef};
use file_access::OpenedCall;
use governance::{Permit, Prechecked, Verdict};
use guardrail::{InputSchema, KnownTool, RejectedCall, SchemaCheckedCall, ValidCall, ValidatedCall};
use registry::{RecordedPermit, Tool};
use serde_json::Value;
use telemetry::Stage;
use tool::{Arguments, Failure, Refusal, RefusalCode, ToolDefinition, ToolOutput};

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
use crate::response_padding::{self, OpenMethod};
use crate::run::{self, StaleDecision};
use crate::secret_screening;
use crate::sessions;
use crate::slots::{FairSlots, Slot};

/// Result of the pipeline for a call whose decision is recorded in the ledger.
pub(crate) struct ExecutedCall {
    pub(crate) order: Arc<RecordedPermit>,
    pub(crate) execution_end: ExecutionEnd,
}

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
    /// The call was stopped before the tool was started.
    NotStarted(Failure),
}

/// Counters and slots that the decision stages need. The daemon and the host hook provide different ones.
#[derive(Clone, Copy)]
pub(crate) struct DecisionContext<'a> {
    pub(crate) limits: &'a CallLimits,
    pub(crate) opening_slots: &'a FairSlots,
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

/// Runs one call through the pipeline.
pub(crate) async fn execute(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    arguments: Value,
) -> Result<ExecutedCall, PipelineHalt> {
    sessions::admit(&layer.sessions, call)?;
    idempotency::claim_key(layer, call).await?;
    let tool = look_up(call, &arguments)?;
    let (permit, approved) = match judge(layer, call, tool.definition(), tool.schema(), arguments).await? {
        Verdict::Permit(permit) => (permit, None),
        Verdict::ApprovalRequired(question) => {
            let (permit, approved) = Box::pin(approval_stage::approve(layer, call, tool, question)).await?;
            (permit, Some(approved))
        }
        Verdict::Denial(denial) => return Err(call.refusal_for(denial).into()),
    };
    let (permit, reservation) = reserve(layer, call, permit).await?;
    let order = Arc::new(
        record_decision(layer, call, tool, permit, (approved.as_ref(), &reservation.counted_call)).await?,
    );
    match run::run(layer, call, tool, &order, reservation).await {
        Ok(end) => Ok(ExecutedCall { order, execution_end: end }),
        Err(StaleDecision) => {
            recorder::record_not_started(layer, call, &order);
            Err(PipelineHalt::Rejudge(order.value().call().arguments().clone(), call.approval_ref.clone()))
        }
    }
}

/// Checks and judges a call without side effects. Running a call and explaining a call share this function,
/// so an explanation describes the decision that the call would get.
pub(crate) async fn judge(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    definition: &Arc<ToolDefinition>,
    schema: &InputSchema,
    arguments: Value,
) -> Result<Verdict, Box<Refusal>> {
    let known = KnownTool { definition, schema };
    let check = |arguments| match call.curated_map {
        CuratedMapCheck::Applied => call.snapshot.with_guard(|guard| guard.check(known, arguments)),
        CuratedMapCheck::Skipped => {
            recorder::announce_guardrail_skipped(call, definition);
            guardrail::check_schema(definition, schema, arguments).map_err(RejectedCall::without_proposal)
        }
    };
    let checked = call.time_stage(Stage::Check, || offload_if_large(arguments, check));
    match checked {
        Ok(schema_checked) => {
            let valid = validate(layer, call, schema_checked).await?;
            decide(layer.decision_context(), call, valid).await
        }
        Err(rejected) => Err(Box::pin(repair::with_repair(layer, call, rejected)).await),
    }
}

/// Runs the tool's validators, if it has any, and attaches the caller to the call.
pub(crate) async fn validate(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    schema_checked: SchemaCheckedCall,
) -> Result<ValidCall, Box<Refusal>> {
    let valid = match schema_checked.without_validators() {
        Ok(valid) => valid,
        // Boxed, like every rarely used branch: the future of each call is as large as its largest branch.
        Err(unasked) => Box::pin(run_validators(layer, call, unasked)).await?,
    };
    Ok(valid.with_caller(&call.caller))
}

/// Runs the tool's validators, which run in a separate process and may be slow.
async fn run_validators(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    schema_checked: SchemaCheckedCall,
) -> Result<ValidCall, Box<Refusal>> {
    let _timing = call.span.stage(Stage::Check);
    let validating = async {
        let _slot = layer.validation_slots.acquire(call.caller.connection).await;
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

/// Decides a valid call. It has no side effects; the paths it opens are closed when the verdict is dropped.
pub(crate) async fn decide(
    context: DecisionContext<'_>,
    call: &PipelineCall,
    valid: ValidCall,
) -> Result<Verdict, Box<Refusal>> {
    let policy = &call.snapshot.policy;
    secret_screening::refuse_blocked(policy, &valid)?;
    let situation = call.situation(context.limits.counts(valid.definition().name()));
    let prechecked = match call.time_stage(Stage::Judge, || governance::precheck(policy, &situation, valid)) {
        Ok(prechecked) => prechecked,
        Err(denial) => return Ok(Verdict::Denial(denial)),
    };
    let began = Instant::now();
    let (opened, way) = call.within_deadline(open(context, call, prechecked)).await??;
    let verdict = call.time_stage(Stage::Judge, || governance::judge(policy, &situation, opened));
    if matches!(verdict, Verdict::Denial(_)) {
        response_padding::pad_response(began, way).await;
    }
    Ok(verdict)
}

/// Opens the paths that a call names. Opening can block forever on a dead mount or a permission dialog, so it
/// runs on the blocking pool, where a stuck thread can be abandoned. The number of these threads is limited:
/// when all of them are stuck, further calls are refused. Paths that are cached in memory are opened
/// directly.
async fn open(
    context: DecisionContext<'_>,
    call: &PipelineCall,
    prechecked: Prechecked,
) -> Result<(OpenedCall<Prechecked>, OpenMethod), Box<Refusal>> {
    let _timing = call.span.stage(Stage::Open);
    let prechecked = match file_access::try_open_cached(prechecked) {
        Ok(opened) => return Ok((opened, OpenMethod::Prefetched)),
        Err(prechecked) => prechecked,
    };
    let limit = prechecked.timeout();
    let refuse =
        |code, detail: &str, reason: String| Refusal::new(&call.tool_name, code, reason).with_detail(detail);
    let opening = async {
        let slot = context.opening_slots.acquire(call.caller.connection).await;
        tokio::task::spawn_blocking(move || {
            let opened = file_access::open(prechecked);
            drop(slot);
            opened
        })
        .await
    };
    match tokio::time::timeout(limit, opening).await {
        Ok(Ok(Ok(opened))) => Ok((opened, OpenMethod::BlockingPool)),
        Ok(Ok(Err(error))) => Err(Box::new(refuse(error.refusal_code(), error.detail(), error.to_string()))),
        Ok(Err(_)) => {
            let reason = "Sinew failed while opening a path".to_owned();
            let refusal = refuse(RefusalCode::ResourceExhausted, "open_crashed", reason);
            Err(Box::new(refusal.with_hint("nothing was run; see the daemon log for details")))
        }
        Err(_) => {
            let reason =
                format!("opening a path took longer than {limit:?}: a dead mount or a permission dialog?");
            let refusal = refuse(RefusalCode::ResourceExhausted, "path_unresponsive", reason);
            Err(Box::new(
                refusal
                    .with_hint("nothing was run; try a path on another volume, or check for an open dialog"),
            ))
        }
    }
}

/// Waits for a run slot and counts the call. If the mode or the rules change meanwhile, the call is judged
/// again, because a permit is valid only for the snapshot it was judged by.
async fn reserve(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    permit: Permit,
) -> Result<(Permit, RunReservation), PipelineHalt> {
    let slot = match layer.limits.try_acquire_slot(call) {
        Some(slot) => Some(slot),
        None => {
            layer.active_calls.set_state(&call.tracker, CallState::Queued);
            sessions::cancel_if_closed(call);
            call.within_deadline(Box::pin(wait_for_slot(layer, call))).await??
        }
    };
    match slot {
        Some(slot) if !layer.has_changed_since(call) => {
            let counted = layer.limits.count(&permit).map_err(|denial| call.refusal_for(denial))?;
            Ok((permit, RunReservation { slot, counted_call: counted }))
        }
        _ => Err(PipelineHalt::Rejudge(permit.call().arguments().clone(), call.approval_ref.clone())),
    }
}

/// Waits for a run slot, and returns `None` as soon as the mode or the rules change.
async fn wait_for_slot(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
) -> Result<Option<Slot>, Box<Refusal>> {
    let mut changes = layer.policy_changes.subscribe();
    if layer.has_changed_since(call) {
        return Ok(None);
    }
    tokio::select! {
        slot = layer.limits.acquire_slot(call) => slot.map(Some),
        _ = changes.changed() => Ok(None),
    }
}

/// Records the decision in the ledger, as durably as the risk of the call requires, before anything runs. If
/// the call uses an operator approval, that use is recorded first.
async fn record_decision(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    tool: &Arc<Tool>,
    permit: Permit,
    (approved, counted): (Option<&ApprovalBasis>, &CountedCall),
) -> Result<RecordedPermit, PipelineHalt> {
    let (permit, approval_id) = match approved {
        None => (permit, None),
        Some(approved) => {
            let confirmed =
                Box::pin(approval_stage::consume_approval(layer, call, tool, permit, approved)).await;
            let (permit, id) = confirmed.inspect_err(|_| layer.limits.uncount(counted))?;
            (permit, Some(id))
        }
    };
    let _timing = call.span.stage(Stage::Record);
    let decision = recorder::decision(call, &permit, approval_id);
    // The caller's deadline does not apply here: a recorded decision needs a recorded outcome. A call whose
    // deadline has passed is not started.
    let recorded = layer.ledger.intend(decision, permit).await;
    let order = recorded.map_err(|error| recorder::ledger_unavailable(&call.tool_name, &error));
    match &order {
        Ok(_) => call.mark_decision_recorded(),
        Err(_) => layer.limits.uncount(counted),
    }
    Ok(order?)
}
