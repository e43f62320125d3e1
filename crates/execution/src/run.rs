//! Running an order: within its deadline, and never taking the daemon down.

use std::sync::Arc;

use registry::{Order, Tool};
use telemetry::Stage;
use telemetry::metrics::Level;
use tool::{Failure, FailureKind, Output};

use crate::call::Call;
use crate::recorder;

/// Runs the tool in a task of its own, so that a panic is a failed call and a stuck thread can be left behind.
pub(crate) async fn run(call: &Call, tool: &Tool, order: &Arc<Order>) -> Result<Output, Failure> {
    recorder::announce_start(call, order);
    let _timing = call.span.stage(Stage::Run);
    let _counted = Level::ToolsRunning.hold();
    let limit = call.time_left(order.value().timeout());
    let mut work = tokio::spawn(tool.executor().run(Arc::clone(order)));
    match tokio::time::timeout(limit, &mut work).await {
        Ok(Ok(end)) => end,
        Ok(Err(crash)) => Err(crashed(&crash)),
        Err(_) => {
            work.abort();
            let message = format!("{} timed out after {:.1} s", call.tool_name, limit.as_secs_f64());
            Err(Failure::new(FailureKind::TimedOut, message))
        }
    }
}

/// The panic's own words may hold arguments, so they stay in the log of the process, not in the reply.
fn crashed(crash: &tokio::task::JoinError) -> Failure {
    let what = if crash.is_panic() { "panicked" } else { "was cancelled" };
    Failure::new(FailureKind::Crashed, format!("the tool {what}"))
        .hint("this is a fault in the tool, not in the call")
}
