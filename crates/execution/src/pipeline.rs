//! The road, top to bottom. Each line hands the next a value that only it can make, so a line cannot be left out.

use std::sync::Arc;
use std::time::Instant;

use governance::{Cleared, Permit, Verdict};
use guardrail::{Fitting, InputSchema, Known, Rejected, ValidCall, Validated};
use registry::{Order, Tool};
use resources::Opened;
use serde_json::Value;
use telemetry::Stage;
use tool::{Arguments, Failure, Output, Refusal, RefusalCode, ToolDefinition, canonical};

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

/// A call that was started, and how it ended.
pub(crate) struct Ran {
    pub(crate) order: Arc<Order>,
    pub(crate) end: Ending,
}

/// What a tool answered, within its bounds.
pub(crate) struct Answered {
    pub(crate) output: Output,
    /// The one byte form of its value: measured once, and what the record's digest is of.
    pub(crate) canonical: canonical::ForNow,
}

/// How far a permitted and recorded call came.
pub(crate) enum Ending {
    /// The tool ran, to its end or not.
    Ran {
        /// How it ended, the last time.
        end: Result<Answered, Failure>,
        /// How often it was tried.
        attempts: u32,
    },
    /// It was given up before the tool was started.
    NotStarted(Failure),
}

/// What a decision takes from whoever makes it: how much has run, and the threads that may block.
#[derive(Clone, Copy)]
pub(crate) struct Deciding<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) openings: &'a Slots,
}

/// A place to run in, and the count of whoever runs in it.
pub(crate) struct Place {
    pub(crate) slot: Slot,
    pub(crate) counted: Counted,
}

/// Why a call did not get to the end of the road.
pub(crate) enum Halt {
    /// It is not run.
    Refused(Box<Refusal>),
    /// The mode, the rules or a human's answer came while it waited: it walks again, with what it has in hand.
    Again(Arguments, Option<Hand>),
    /// A human changed what it asks for: that walks instead.
    Edited(Arguments, Option<Hand>),
    /// It was run before, and is not run again.
    Repeated(Box<Earlier>),
}

impl<R: Into<Box<Refusal>>> From<R> for Halt {
    fn from(refusal: R) -> Self {
        Halt::Refused(refusal.into())
    }
}

/// Walks one call along the road.
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
    let (permit, place) = reserve(layer, call, permit).await?;
    let order = Arc::new(intend(layer, call, tool, permit, (approved.as_ref(), &place.counted)).await?);
    match run::run(layer, call, tool, &order, place).await {
        Ok(end) => Ok(Ran { order, end }),
        Err(Overtaken) => {
            recorder::overtaken(layer, call, &order);
            Err(Halt::Again(order.value().call().arguments().clone(), call.hand.clone()))
        }
    }
}

/// The part of the road that decides and changes nothing. Running a call and explaining one share it, so that what
/// is explained is what would happen.
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

/// The call of this caller, once the tool's own validators have nothing against it, where it has some.
pub(crate) async fn valid(
    layer: &ToolExecutionLayer,
    call: &Call,
    fitting: Fitting,
) -> Result<ValidCall, Box<Refusal>> {
    let valid = match fitting.settled() {
        Ok(valid) => valid,
        // Apart from the rest, like every part that few calls come to: each call carries the room of all others.
        Err(unasked) => Box::pin(validate(layer, call, unasked)).await?,
    };
    Ok(valid.made_by(&call.caller))
}

/// Asks the tool's own validators, which run in a process of their own and may take their time.
async fn validate(
    layer: &ToolExecutionLayer,
    call: &Call,
    fitting: Fitting,
) -> Result<ValidCall, Box<Refusal>> {
    let _timing = call.span.stage(Stage::Check);
    let validating = async {
        let _place = layer.validations.take(call.caller.connection).await;
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

/// What would become of a valid call. It changes nothing, and whatever it opened is closed with the verdict.
pub(crate) async fn decide(
    deciding: Deciding<'_>,
    call: &Call,
    valid: ValidCall,
) -> Result<Verdict, Box<Refusal>> {
    let policy = &call.world.policy;
    content::refuse_blocked(policy, &valid)?;
    let situation = call.situation(deciding.limits.counts(valid.definition().name()));
    let cleared = match call.timed(Stage::Judge, || governance::clear(policy, &situation, valid)) {
        Ok(cleared) => cleared,
        Err(denial) => return Ok(Verdict::Denial(denial)),
    };
    let began = Instant::now();
    let (opened, way) = call.in_time(open(deciding, call, cleared)).await??;
    let verdict = call.timed(Stage::Judge, || governance::judge(policy, &situation, opened));
    if matches!(verdict, Verdict::Denial(_)) {
        pace::even_out(began, way).await;
    }
    Ok(verdict)
}

/// Opening can block for ever on a dead mount or a permission dialog, so it happens on a thread that can be left
/// behind. Such threads are few: when all of them are stuck, further calls are refused rather than piled up.
/// What the kernel has in memory needs none.
async fn open(
    deciding: Deciding<'_>,
    call: &Call,
    cleared: Cleared,
) -> Result<(Opened<Cleared>, Way), Box<Refusal>> {
    let _timing = call.span.stage(Stage::Open);
    let cleared = match resources::open_at_hand(cleared) {
        Ok(opened) => return Ok((opened, Way::AtHand)),
        Err(cleared) => cleared,
    };
    let limit = cleared.timeout();
    let refuse =
        |code, detail: &str, reason: String| Refusal::new(&call.tool_name, code, reason).detail(detail);
    let opening = async {
        let place = deciding.openings.take(call.caller.connection).await;
        tokio::task::spawn_blocking(move || {
            let opened = resources::open(cleared);
            drop(place);
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
            Err(Box::new(refusal.hint("nothing was run; the log has the place")))
        }
        Err(_) => {
            let reason =
                format!("opening a path took longer than {limit:?}: a dead mount or a permission dialog?");
            let refusal = refuse(RefusalCode::ResourceExhausted, "path_unresponsive", reason);
            Err(Box::new(
                refusal.hint("nothing was run; try a path on another volume, or look at the screen"),
            ))
        }
    }
}

/// Waits for a place to run in. What changed meanwhile decides anew: a permit is only as good as its moment.
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

/// Waits in turn. Nobody waits on under a mode or rules that hold no more: whoever does is judged again at once.
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

/// The decision is on record, as durably as its risk asks, before anything happens; and before it, that the answer of a
/// human was used up.
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
    // Not within the caller's patience: what is on record must have its end there, and a late call is not started.
    let recorded = layer.ledger.intend(decision, permit).await;
    let order = recorded.map_err(|error| recorder::unavailable(&call.tool_name, &error));
    match &order {
        Ok(_) => call.mark_intended(),
        Err(_) => layer.limits.uncount(counted),
    }
    Ok(order?)
}
