//! Malformed calls are caught here, before anything is judged or opened, and the caller is told how to fix them.
//!
//! A [`Guard`] turns arguments into a [`ValidCall`], which nothing else can make, or into a refusal that lists every
//! problem and shows a call that works. It goes by the tool's own [`InputSchema`], compiled once per snapshot, and by
//! the [`Curated`] map of `guardrails.yaml`, which also answers for names that no tool has. Where the mistake has one
//! obvious repair it comes with a [`Proposal`]; whether that may be offered is for others to judge, and nothing ever
//! runs from it. No policy is consulted here: a valid call may still be denied.

mod check;
mod curated;
mod curated_file;
mod entry;
mod example;
mod findings;
mod guard;
mod name;
mod nested;
mod nudge;
mod problem;
mod refusal;
mod repair;
mod schema;
mod synonym;
mod valid_call;

pub use check::check;
pub use curated::{Curated, CuratedError, EMBEDDED};
pub use curated_file::{CuratedEntry, GuardrailsFile};
pub use guard::{FindTool, Guard, Known, Rejected};
pub use name::{before_markup, without_host};
pub use nudge::blames_arguments;
pub use problem::missing_fields;
pub use repair::{Offer, Proposal};
pub use schema::{InputSchema, SchemaError};
pub use valid_call::ValidCall;
