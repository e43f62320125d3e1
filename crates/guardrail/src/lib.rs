//! Malformed calls are caught here, before anything is judged or opened, and the caller is told how to fix them.
//!
//! [`InputSchema`] is a tool's input schema, compiled once per snapshot. [`check`] turns arguments into a
//! [`ValidCall`], which nothing else can make, or into a refusal that lists every problem and shows a call that
//! works. No policy is consulted here: a valid call may still be denied.

mod check;
mod example;
mod findings;
mod problem;
mod refusal;
mod schema;
mod valid_call;

pub use check::check;
pub use schema::{InputSchema, SchemaError};
pub use valid_call::ValidCall;
