//! Without a verdict: an opened call can be recorded, but no tool accepts it.

use std::sync::Arc;

use governance::Prechecked;
use ledger::{RecordedDecision, Ledger};
use registry::Tool;
use file_access::OpenedCall;

async fn execute(tool: &Tool, ledger: &Ledger, decision: RecordedDecision, opened: OpenedCall<Prechecked>) {
    let Ok(order) = ledger.intend(decision, opened).await else { return };
    let order = Arc::new(order);
    drop(tool.executor().run(order));
}

fn main() {}
