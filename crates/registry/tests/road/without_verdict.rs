//! Without a verdict: an opened call can be recorded, but no tool accepts it.

use std::sync::Arc;

use governance::Cleared;
use ledger::{Decision, Ledger};
use registry::Tool;
use file_access::Opened;

async fn walk(tool: &Tool, ledger: &Ledger, decision: Decision, opened: Opened<Cleared>) {
    let Ok(order) = ledger.intend(decision, opened).await else { return };
    let order = Arc::new(order);
    drop(tool.executor().run(order));
}

fn main() {}
