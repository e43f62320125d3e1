//! Sandboxed workers that run the JavaScript functions of manifests, and a syntax check for such functions.

use std::io;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

use knowledge::{KnowledgeError, StartedWorker, WorkerPool};
use manifest::{CheckSyntax, SyntaxProblem};
use sandbox::{Sandbox, WorkerTask};

/// Sandbox task name of a worker that runs functions.
pub(crate) const KNOWLEDGE_TASK: &str = "knowledge";

/// Memory limit: 8 MiB for the function, the rest for the engine and the pages of this program that it
/// touches.
const MEMORY_LIMIT: u64 = 64 << 20;
/// Upper bound only: the pool replaces workers much earlier.
const MAX_WORKER_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// Creates a pool of workers in this sandbox. A worker starts when it is first needed.
fn worker_pool(sandbox: &Sandbox) -> WorkerPool {
    let sandbox = sandbox.clone();
    WorkerPool::new(move || {
        let sandbox = sandbox.clone();
        Box::pin(async move {
            let task = WorkerTask {
                name: KNOWLEDGE_TASK,
                memory_bytes: MEMORY_LIMIT,
                processes: 4,
                lifetime: MAX_WORKER_LIFETIME,
            };
            let worker = sandbox.start_worker(&task).await.map_err(io::Error::other)?;
            let (to, from, life) = worker.into_parts();
            Ok(StartedWorker { from: Box::new(from), to: Box::new(to), kill_guard: Box::new(life) })
        })
    })
}

/// Returns the worker pool of this process. Its workers live as long as the runtime that runs the calls.
pub(crate) fn shared_workers() -> &'static WorkerPool {
    static SHARED: OnceLock<WorkerPool> = OnceLock::new();
    SHARED.get_or_init(|| worker_pool(Sandbox::of_this_process()))
}

/// Runs `work` with a function parser. The parser has its own runtime, because manifests are also loaded
/// outside of one, and its workers end with it. A function that cannot be parsed for any reason is reported
/// as invalid.
pub(crate) fn with_parser<T>(work: impl FnOnce(&CheckSyntax<'_>) -> T) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let workers = worker_pool(&Sandbox::of_this_process().with_own_launchers());
    let parse = |text: &str| {
        runtime.handle().block_on(workers.parse(text)).map_err(|error| match error {
            KnowledgeError::Syntax { line, column, message } => SyntaxProblem { line, column, message },
            other => SyntaxProblem { line: 1, column: 1, message: other.to_string() },
        })
    };
    Ok(work(&parse))
}

/// Runs this program as a sandboxed worker: serves the requests of a task on standard input until it closes. A
/// worker knows no settings, policy or socket.
pub(crate) fn serve_task(task: &str) -> ExitCode {
    let done = match task {
        KNOWLEDGE_TASK => knowledge::serve(io::stdin().lock(), io::stdout().lock()),
        toolbox::PAGE_WORKER => web_content::serve(io::stdin().lock(), io::stdout().lock()),
        _ => return ExitCode::FAILURE,
    };
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
