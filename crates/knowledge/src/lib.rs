//! Runs the JavaScript of a manifest (helpers, processors and validators) in isolated worker processes.
//!
//! The engine runs in a separate process that calls `serve`. The caller starts and sandboxes that process and
//! passes it in as two streams (`StartedWorker`); `WorkerPool` keeps a few of them warm. A function gets a
//! context whose memory is, byte for byte, as it was before any function ran, and its argument as JSON text,
//! and nothing else. When a function exceeds its time limit, the process is killed and the caller gets an
//! error.
//!
//! This crate starts no process, opens no file and loads no compiled code.

mod engine;
mod error;
mod function;
mod heap;
mod worker_pool;
mod worker_protocol;

pub use engine::serve;
pub use error::KnowledgeError;
pub use function::{FunctionKind, KnowledgeFunction, Validation};
pub use worker_pool::{StartWorker, StartWorkerFuture, StartedWorker, WorkerPool};
