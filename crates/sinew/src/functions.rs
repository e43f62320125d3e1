//! The functions of manifests: workers behind walls that run them, and whether a text can be parsed as one.

use std::time::Duration;

use knowledge::{KnowledgeError, Started, Workers};
use manifest::SyntaxProblem;
use sandbox::{Sandbox, Task};
use tokio::runtime::Handle;

/// What a worker that runs functions is called.
pub(crate) const TASK: &str = "knowledge";

/// Eight megabytes of the function's own, the engine, and the pages of this program that it touches.
const MEMORY: u64 = 64 << 20;
/// Workers are replaced long before.
const LIFETIME: Duration = Duration::from_secs(60 * 60);

/// Workers behind the walls of this sandbox. None is started before it is needed.
pub(crate) fn workers(sandbox: &Sandbox) -> Workers {
    let sandbox = sandbox.clone();
    Workers::new(move || {
        let sandbox = sandbox.clone();
        Box::pin(async move {
            let task = Task { name: TASK, memory_bytes: MEMORY, processes: 4, lifetime: LIFETIME };
            let worker = sandbox.start(&task).await.map_err(std::io::Error::other)?;
            let (to, from, life) = worker.apart();
            Ok(Started { from: Box::new(from), to: Box::new(to), life: Box::new(life) })
        })
    })
}

/// Whether a text can be parsed. Whoever asks is not a task of the runtime, but waits for one. What cannot be tried is
/// not taken on trust.
pub(crate) fn parses(workers: &Workers, runtime: &Handle, text: &str) -> Result<(), SyntaxProblem> {
    runtime.block_on(workers.parse(text)).map_err(|error| match error {
        KnowledgeError::Syntax { line, column, message } => SyntaxProblem { line, column, message },
        other => SyntaxProblem { line: 1, column: 1, message: other.to_string() },
    })
}
