//! The road, top to bottom. Each line hands the next a value that only it can make, so a line cannot be left out.

use std::sync::Arc;

use governance::{Cleared, Permit, Verdict};
use registry::{Order, Tool};
use resources::Opened;
use serde_json::Value;
use telemetry::Stage;
use tool::{Failure, Output, Refusal, RefusalCode};

use crate::call::Call;
use crate::layer::ToolExecutionLayer;
use crate::recorder;
use crate::run;

/// A call that was started, and how it ended.
pub(crate) struct Ran {
    pub(crate) order: Arc<Order>,
    pub(crate) end: Result<Output, Failure>,
}

/// Walks one call along the road.
pub(crate) async fn walk(
    layer: &ToolExecutionLayer,
    call: &Call,
    arguments: Value,
) -> Result<Ran, Box<Refusal>> {
    let world = &call.world;
    let tool = look_up(call)?;
    let valid = call.timed(Stage::Check, || guardrail::check(tool.definition(), tool.schema(), arguments))?;
    let counts = layer.limits.counts(tool.definition().name());
    let situation = call.situation(counts);
    let cleared = call.timed(Stage::Judge, || governance::clear(&world.policy, &situation, valid))?;
    let opened = open(call, cleared).await?;
    let permit = match call.timed(Stage::Judge, || governance::judge(&world.policy, &situation, opened)) {
        Verdict::Permit(permit) => permit,
        Verdict::Question(question) => return Err(Box::new(question.unanswered())),
        Verdict::Denial(denial) => return Err(denial.into()),
    };
    let slot = layer.limits.reserve(call, &permit).await?;
    let order = Arc::new(intend(layer, call, permit).await?);
    let end = run::run(call, tool, &order).await;
    drop(slot);
    Ok(Ran { order, end })
}

/// The decision is on record, as durably as its risk asks, before anything happens.
async fn intend(layer: &ToolExecutionLayer, call: &Call, permit: Permit) -> Result<Order, Box<Refusal>> {
    let _timing = call.span.stage(Stage::Record);
    let intent = layer.ledger.intend(recorder::decision(call, &permit), permit).await;
    intent.map_err(|error| recorder::unavailable(&call.tool_name, &error))
}

fn look_up(call: &Call) -> Result<&Arc<Tool>, Box<Refusal>> {
    let registry = &call.world.registry;
    registry.get(&call.tool_name).ok_or_else(|| {
        let name = &call.tool_name;
        let refusal =
            Refusal::new(name, RefusalCode::UnknownTool, format!("Tool {} not found", name.escape_debug()));
        Box::new(match registry.nearest(name) {
            Some(near) => refusal.hint(format!("did you mean `{near}`?")),
            None => refusal.hint("`sinew tools list` shows the tools there are"),
        })
    })
}

/// Opening can block for ever on a dead mount or a permission dialog, so it happens on a thread that can be left
/// behind, within the call's own deadline.
async fn open(call: &Call, cleared: Cleared) -> Result<Opened<Cleared>, Box<Refusal>> {
    let _timing = call.span.stage(Stage::Open);
    let limit = call.time_left(cleared.timeout());
    let name = call.tool_name.clone();
    let opening = tokio::task::spawn_blocking(move || resources::open(cleared));
    let refuse =
        |code, detail: &str, reason: String| Box::new(Refusal::new(&name, code, reason).detail(detail));
    match tokio::time::timeout(limit, opening).await {
        Ok(Ok(Ok(opened))) => Ok(opened),
        Ok(Ok(Err(error))) => Err(refuse(error.refusal_code(), error.detail(), error.to_string())),
        Ok(Err(_)) => {
            let reason = "Sinew failed while opening a path".to_owned();
            Err(refuse(RefusalCode::ResourceExhausted, "open_crashed", reason))
        }
        Err(_) => Err(refuse(
            RefusalCode::ResourceExhausted,
            "path_unresponsive",
            format!(
                "opening a path took longer than {} s: a dead mount or a permission dialog?",
                limit.as_secs()
            ),
        )),
    }
}
