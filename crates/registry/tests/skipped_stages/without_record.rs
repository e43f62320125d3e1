//! Without a recorded decision: a permit alone does not run.

use std::sync::Arc;

use governance::Permit;
use registry::Tool;

fn execute(tool: &Tool, permit: Permit) {
    let order: Arc<Permit> = Arc::new(permit);
    drop(tool.executor().run(order));
}

fn main() {}
