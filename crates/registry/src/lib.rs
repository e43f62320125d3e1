//! Which tools there are, and the contract by which they run.
//!
//! A [`ToolRegistry`] is filled once per snapshot and never changed afterwards. It knows names and executors; whether
//! a call may run is decided elsewhere, and shows in the [`Order`] an executor is handed.

mod executor;
mod registry;

pub use executor::{AtWork, Change, Order, Preview, Running, ToolExecutor, Whose};
pub use registry::{RegistryError, Tool, ToolRegistry};
