//! The pipeline, from the first stage to the last. Each stage takes a value that only the stage before it can
//! construct, so the compiler rejects code that skips a stage.

use std::sync::Arc;
use std::time::Instant;

use file_access::Opened;
use governance::{Cleared, Permit, Verdict};
use guardrail::{Fitting, InputSchema, Known, Rejected, ValidCall, Validated};
use registry::{Order, Tool};
use serde_json::Value;
use telemetry::Stage;
use tool::{Arguments, Failure, Output, Refusal, RefusalCode, ToolDefinition};

use crate::approvals::{self, Approved, Hand};
use crate::aside::aside_if_large;
use crate::call::{Call, CuratedMap};
use crate::calls::Standing;
use crate::content;
use crate::layer::ToolExecutionLayer;
use crate::limits::{Counted, Limits};
use crate::look_up::look_up;
use crate::pace::{self, Way};
use crate::recorder;
use crate::repair;
use crate::repeats::{self, Earlier};
use crate::run::{self, Overtaken};
use crate::sessions;
use crate::slots::{Slot, Slots};

/// Result of the pipeline for a call whose decision is recorded in the ledger.
pub(crate) struct Ran {
    pub(crate) order: Arc<Order>,
    pub(crate) end: Ending,
}

/// Output of a tool, checked against the size limit and the secret patterns.
pub(crate) struct Answered {
    pub(crate) output: Output,
    /// Canonical JSON of the value. It is computed once, for the size check and for the digest in the ledger.
    pub(crate) canonical: Vec<u8>,
}

/// Result of the run stage.
pub(crate) enum Ending {
    /// The tool was started; it succeeded or failed.
    Ran {
        /// Result of the last attempt.
        end: Result<Answered, Failure>,
        /// Number of attempts.
        attempts: u32,
    },
    /// The call was stopped before the tool was started.
    NotStarted(Failure),
}

/// Counters and slots that the decision stages need. The daemon and the host hook provide different ones.
#[derive(Clone, Copy)]
pub(crate) struct Deciding<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) openings: &'a Slots,
}

/// Run slot of a call, together with its entry in the rate windows.
pub(crate) struct Place {
    pub(crate) slot: Slot,
    pub(crate) counted: Counted,
}

/// Reason why a call left the pipeline before the end.
pub(crate) enum Halt {
    /// The call is refused.
    Refused(Box<Refusal>),
    /// The mode or the rules changed, or the operator decided, while the call waited. It runs through the
    /// pipeline again with this approval reference.
    Again(Arguments, Option<Hand>),
    /// The operator edited the arguments. The call runs through the pipeline again with the edited ones.
    Edited(Arguments, Option<Hand>),
    /// A call with the same idempotency key was run before; this one is not run.
    Repeated(Box<Earlier>),
}

impl<R: Into<Box<Refusal>>> From<R> for Halt {
    fn from(refusal: R) -> Self {
        Halt::Refused(refusal.into())
    }
}

/// Runs one call through the pipeline.
pub(crate) async fn walk(layer: &ToolExecutionLayer, call: &Call, arguments: Value) -> Result<Ran, Halt> {
    sessions::admit(layer, call)?;
    repeats::stop_repeat(layer, call).await?;
    let tool = look_up(call, &arguments)?;
    let (permit, approved) = match judge(layer, call, tool.definition(), tool.schema(), arguments).await? {
        Verdict::Permit(permit) => (permit, None),
        Verdict::Question(question) => {
            let (permit, approved) = Box::pin(approvals::approve(layer, call, tool, question)).await?;
            (permit, Some(approved))
        }
        Verdict::Denial(denial) => return Err(call.denied(denial).into()),
    };
    let (permit, reservation) = reserve(layer, call, permit).await?;
    let order = Arc::new(intend(layer, call, tool, permit, (approved.as_ref(), &reservation.counted)).await?);
    match run::run(layer, call, tool, &order, reservation).await {
        Ok(end) => Ok(Ran { order, end }),
        Err(Overtaken) => {
            recorder::overtaken(layer, call, &order);
            Err(Halt::Again(order.value().call().arguments().clone(), call.hand.clone()))
        }
    }
}

/// Checks and judges a call without side effects. Running a call and explaining a call share this function,
/// so an explanation describes the decision that the call would get.
pub(crate) async fn judge(
    layer: &ToolExecutionLayer,
    call: &Call,
    definition: &Arc<ToolDefinition>,
    schema: &InputSchema,
    arguments: Value,
) -> Result<Verdict, Box<Refusal>> {
    let known = Known { definition, schema };
    let check = |arguments| match call.curated_map {
        CuratedMap::Asked => call.world.guarded(|guard| guard.check(known, arguments)),
        CuratedMap::LeftOut => {
            recorder::announce_unguarded(call, definition);
            guardrail::fits(definition, schema, arguments).map_err(Rejected::without_proposal)
        }
    };
    let checked = call.timed(Stage::Check, || aside_if_large(arguments, check));
    match checked {
        Ok(fitting) => {
            let valid = valid(layer, call, fitting).await?;
            decide(layer.deciding(), call, valid).await
        }
        Err(rejected) => Err(Box::pin(repair::offered(layer, call, rejected)).await),
    }
}

/// Runs the tool's validators, if it has any, and attaches the caller to the call.
pub(crate) async fn valid(
    layer: &ToolExecutionLayer,
    call: &Call,
    fitting: Fitting,
) -> Result<ValidCall, Box<Refusal>> {
    let valid = match fitting.settled() {
        Ok(valid) => valid,
        // Boxed, like every rarely used branch: the future of each call is as large as its largest branch.
        Err(unasked) => Box::pin(validate(layer, call, unasked)).await?,
    };
    Ok(valid.made_by(&call.caller))
}

/// Runs the tool's validators, which run in a separate process and may be slow.
async fn validate(
    layer: &ToolExecutionLayer,
    call: &Call,
    fitting: Fitting,
) -> Result<ValidCall, Box<Refusal>> {
    let _timing = call.span.stage(Stage::Check);
    let validating = async {
        let _slot = layer.validations.take(call.caller.connection).await;
        fitting.validated().await
    };
    let Validated { call: valid, slow } = call.in_time(validating).await??;
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
    context: Deciding<'_>,
    call: &Call,
    valid: ValidCall,
) -> Result<Verdict, Box<Refusal>> {
    let policy = &call.world.policy;
    content::refuse_blocked(policy, &valid)?;
    let situation = call.situation(context.limits.counts(valid.definition().name()));
    let cleared = match call.timed(Stage::Judge, || governance::clear(policy, &situation, valid)) {
        Ok(cleared) => cleared,
        Err(denial) => return Ok(Verdict::Denial(denial)),
    };
    let began = Instant::now();
    let (opened, way) = call.in_time(open(context, call, cleared)).await??;
    let verdict = call.timed(Stage::Judge, || governance::judge(policy, &situation, opened));
    if matches!(verdict, Verdict::Denial(_)) {
        pace::even_out(began, way).await;
    }
    Ok(verdict)
}

/// Opens the paths that a call names. Opening can block forever on a dead mount or a permission dialog, so it
/// runs on the blocking pool, where a stuck thread can be abandoned. The number of these threads is limited:
/// when all of them are stuck, further calls are refused. Paths that are cached in memory are opened
/// directly.
async fn open(
    context: Deciding<'_>,
    call: &Call,
    cleared: Cleared,
) -> Result<(Opened<Cleared>, Way), Box<Refusal>> {
    let _timing = call.span.stage(Stage::Open);
    let cleared = match file_access::open_at_hand(cleared) {
        Ok(opened) => return Ok((opened, Way::AtHand)),
        Err(cleared) => cleared,
    };
    let limit = cleared.timeout();
    let refuse =
        |code, detail: &str, reason: String| Refusal::new(&call.tool_name, code, reason).detail(detail);
    let opening = async {
        let slot = context.openings.take(call.caller.connection).await;
        tokio::task::spawn_blocking(move || {
            let opened = file_access::open(cleared);
            drop(slot);
            opened
        })
        .await
    };
    match tokio::time::timeout(limit, opening).await {
        Ok(Ok(Ok(opened))) => Ok((opened, Way::OnThread)),
        Ok(Ok(Err(error))) => Err(Box::new(refuse(error.refusal_code(), error.detail(), error.to_string()))),
        Ok(Err(_)) => {
            let reason = "Sinew failed while opening a path".to_owned();
            let refusal = refuse(RefusalCode::ResourceExhausted, "open_crashed", reason);
            Err(Box::new(refusal.hint("nothing was run; see the daemon log for details")))
        }
        Err(_) => {
            let reason =
                format!("opening a path took longer than {limit:?}: a dead mount or a permission dialog?");
            let refusal = refuse(RefusalCode::ResourceExhausted, "path_unresponsive", reason);
            Err(Box::new(
                refusal.hint("nothing was run; try a path on another volume, or check for an open dialog"),
            ))
        }
    }
}

/// Waits for a run slot and counts the call. If the mode or the rules change meanwhile, the call is judged
/// again, because a permit is valid only for the snapshot it was judged by.
async fn reserve(layer: &ToolExecutionLayer, call: &Call, permit: Permit) -> Result<(Permit, Place), Halt> {
    let slot = match layer.limits.place_at_once(call) {
        Some(slot) => Some(slot),
        None => {
            layer.calls.enter(&call.track, Standing::Queued);
            sessions::end_if_closed(call);
            call.in_time(Box::pin(place_unless_changed(layer, call))).await??
        }
    };
    match slot {
        Some(slot) if !layer.has_changed_since(call) => {
            let counted = layer.limits.count(&permit).map_err(|denial| call.denied(denial))?;
            Ok((permit, Place { slot, counted }))
        }
        _ => Err(Halt::Again(permit.call().arguments().clone(), call.hand.clone())),
    }
}

/// Waits for a run slot, and returns `None` as soon as the mode or the rules change.
async fn place_unless_changed(layer: &ToolExecutionLayer, call: &Call) -> Result<Option<Slot>, Box<Refusal>> {
    let mut changes = layer.changes.subscribe();
    if layer.has_changed_since(call) {
        return Ok(None);
    }
    tokio::select! {
        slot = layer.limits.place(call) => slot.map(Some),
        _ = changes.changed() => Ok(None),
    }
}

/// Records the decision in the ledger, as durably as the risk of the call requires, before anything runs. If
/// the call uses an operator approval, that use is recorded first.
async fn intend(
    layer: &ToolExecutionLayer,
    call: &Call,
    tool: &Arc<Tool>,
    permit: Permit,
    (approved, counted): (Option<&Approved>, &Counted),
) -> Result<Order, Halt> {
    let (permit, approval_id) = match approved {
        None => (permit, None),
        Some(approved) => {
            let confirmed = Box::pin(approvals::confirm(layer, call, tool, permit, approved)).await;
            let (permit, id) = confirmed.inspect_err(|_| layer.limits.uncount(counted))?;
            (permit, Some(id))
        }
    };
    let _timing = call.span.stage(Stage::Record);
    let decision = recorder::decision(call, &permit, approval_id);
    // The caller's deadline does not apply here: a recorded decision needs a recorded outcome. A call whose
    // deadline has passed is not started.
    let recorded = layer.ledger.intend(decision, permit).await;
    let order = recorded.map_err(|error| recorder::unavailable(&call.tool_name, &error));
    match &order {
        Ok(_) => call.mark_intended(),
        Err(_) => layer.limits.uncount(counted),
    }
    Ok(order?)
}
