//! Running an order: within its deadline and its bounds, and never taking the daemon down.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use registry::{Order, Tool};
use telemetry::Stage;
use telemetry::metrics::Level;
use tool::{Failure, FailureKind, Output, canonical};

use crate::call::Call;
use crate::content;
use crate::layer::ToolExecutionLayer;
use crate::pipeline::Ending;
use crate::recorder;
use crate::slots::Slot;

/// Runs the tool in a task of its own, so that a panic is a failed call. Past its deadline the task is left to itself:
/// a thread in a system call cannot be stopped, and until it ends it keeps its place among the running.
pub(crate) async fn run(
    layer: &ToolExecutionLayer,
    call: &Call,
    tool: &Tool,
    order: &Arc<Order>,
    slot: Slot,
) -> Ending {
    let limit = call.time_left(order.value().timeout());
    let overtaken =
        |kind, message: &str| Ending::NotStarted(Failure::new(kind, message).hint("nothing was run"));
    if limit.is_zero() {
        return overtaken(FailureKind::TimedOut, "the deadline passed before the tool was started");
    }
    // Putting the decision on disk takes time, and a human may have said stop meanwhile.
    if layer.has_changed_since(call) {
        return overtaken(
            FailureKind::Cancelled,
            "the mode or the rules changed before the tool was started",
        );
    }
    Ending::Ran(within_limit(call, tool, order, slot, limit).await)
}

async fn within_limit(
    call: &Call,
    tool: &Tool,
    order: &Arc<Order>,
    slot: Slot,
    limit: Duration,
) -> Result<Output, Failure> {
    recorder::announce_start(call, order);
    let _timing = call.span.stage(Stage::Run);
    let running = tool.executor().run(Arc::clone(order));
    let work = AssertUnwindSafe(async move {
        let (_place, _counted) = (slot, Level::ToolsRunning.hold());
        running.await
    });
    let mut work = Box::pin(work.catch_unwind());
    let end = match poll_fn(|context| Poll::Ready(work.poll_unpin(context))).await {
        // Most looks at files end here: a task and a timer would cost them more than they do.
        Poll::Ready(end) => Ok(Ok(end)),
        Poll::Pending => tokio::time::timeout(limit, tokio::spawn(work)).await,
    };
    match end {
        Ok(Ok(Ok(end))) => end.and_then(|output| within_bounds(order, output)),
        Ok(Ok(Err(_panic))) => Err(crashed("panicked")),
        Ok(Err(_cancelled)) => Err(crashed("was cancelled")),
        Err(_) => {
            let message = format!("{} timed out after {:.1} s", call.tool_name, limit.as_secs_f64());
            Err(Failure::new(FailureKind::TimedOut, message)
                .hint("its effect may still happen: look before trying again"))
        }
    }
}

/// An answer larger than policy allows is not cut blindly: only the tool knows where that makes sense.
fn within_bounds(order: &Order, output: Output) -> Result<Output, Failure> {
    if let Some(failure) = content::withheld(&output.value) {
        return Err(failure);
    }
    let (bytes, most) = (canonical::bytes(&output.value).len() as u64, order.value().max_output_bytes());
    if bytes > most {
        let message = format!("the answer has {bytes} bytes; policy allows {most}");
        return Err(
            Failure::new(FailureKind::TooLarge, message).hint("ask for less, or raise max_output_bytes")
        );
    }
    Ok(output)
}

/// The panic's own words may hold arguments, so they stay in the log of the process, not in the reply.
fn crashed(how: &str) -> Failure {
    Failure::new(FailureKind::Crashed, format!("the tool {how}"))
        .hint("this is a fault in the tool, not in the call")
}
