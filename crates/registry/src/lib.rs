//! Registry of tools, and the contract by which they run.
//!
//! A `ToolRegistry` is filled once per configuration snapshot and does not change afterwards. It maps names
//! to executors. It does not decide whether a call may run: the `RecordedPermit` that an executor receives
//! proves that.

mod executor;
mod registry;

pub use executor::{
    CacheScope, CallPreview, ConfiguredService, ExecutionSite, ExecutorFuture, FileChange, RecordedPermit,
    ToolExecutor,
};
pub use registry::{RegistryError, Tool, ToolRegistry};
