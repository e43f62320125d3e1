//! The functions of manifests: workers behind walls that run them, and whether a text can be parsed as one.

use std::sync::OnceLock;
use std::time::Duration;

use knowledge::{KnowledgeError, Started, Workers};
use manifest::{CheckSyntax, SyntaxProblem};
use sandbox::{Sandbox, Task};

/// What a worker that runs functions is called.
pub(crate) const TASK: &str = "knowledge";

/// Eight megabytes of the function's own, the engine, and the pages of this program that it touches.
const MEMORY: u64 = 64 << 20;
/// Workers are replaced long before.
const LIFETIME: Duration = Duration::from_secs(60 * 60);

/// Workers behind the walls of this sandbox. None is started before it is needed.
fn workers(sandbox: &Sandbox) -> Workers {
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

/// The workers of this process: they live as long as the runtime that calls run in.
pub(crate) fn of_this_process() -> &'static Workers {
    static SHARED: OnceLock<Workers> = OnceLock::new();
    SHARED.get_or_init(|| workers(Sandbox::of_this_process()))
}

/// Does something with a parser of functions. It has a runtime of its own, because manifests are read where there is
/// none, and takes its workers with it when it is done. What cannot be tried is not taken on trust.
pub(crate) fn with_parser<T>(work: impl FnOnce(&CheckSyntax<'_>) -> T) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let workers = workers(&Sandbox::of_this_process().with_own_launchers());
    let parse = |text: &str| {
        runtime.handle().block_on(workers.parse(text)).map_err(|error| match error {
            KnowledgeError::Syntax { line, column, message } => SyntaxProblem { line, column, message },
            other => SyntaxProblem { line: 1, column: 1, message: other.to_string() },
        })
    };
    Ok(work(&parse))
}
