//! No record: a permit alone does not run.

use std::sync::Arc;

use governance::Permit;
use registry::Tool;

fn walk(tool: &Tool, permit: Permit) {
    drop(tool.executor().run(Arc::new(permit)));
}

fn main() {}
