//! No verdict: what was only opened can be recorded, but no tool takes it.

use std::sync::Arc;

use governance::Cleared;
use ledger::{Decision, Ledger};
use registry::Tool;
use resources::Opened;

async fn walk(tool: &Tool, ledger: &Ledger, decision: Decision, opened: Opened<Cleared>) {
    let Ok(order) = ledger.intend(decision, opened).await else { return };
    drop(tool.executor().run(Arc::new(order)));
}

fn main() {}
