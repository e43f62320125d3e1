//! Malformed calls are caught here, before anything is judged or opened, and the caller is told how to fix them.
//!
//! A [`Guard`] turns arguments into a [`Fitting`] or into a refusal that lists every problem and shows a call that
//! works; the tool's own [`Validators`] turn that into a [`ValidCall`], which nothing else can make. The guard goes by the tool's own [`InputSchema`], compiled once per snapshot, and by
//! the [`Curated`] map of `guardrails.yaml`, which also answers for names that no tool has. Where the mistake has one
//! obvious repair it comes with a [`Proposal`]; whether that may be offered is for others to judge, and nothing ever
//! runs from it. No policy is consulted here: a valid call may still be denied.

mod check;
mod curated;
mod curated_file;
mod entry;
mod example;
mod findings;
mod fitting;
mod guard;
mod lore;
mod name;
mod nested;
mod nudge;
mod problem;
mod refusal;
mod repair;
mod requirement;
mod schema;
mod synonym;
mod valid_call;
mod validators;

pub use check::{check, fits};
pub use curated::{Curated, CuratedChange, CuratedError, Demands, EMBEDDED};
pub use curated_file::{CuratedEntry, GuardrailsFile};
pub use fitting::{Fitting, Validated};
pub use guard::{FindTool, Guard, Known, Rejected};
pub use lore::{Lore, Mistake, Quirk};
pub use name::{without_host, without_markup};
pub use nudge::blames_arguments;
pub use problem::missing_fields;
pub use repair::{Offer, Proposal};
pub use requirement::{Form, Requirement};
pub use schema::{InputSchema, SchemaError};
pub use valid_call::ValidCall;
pub use validators::{Rule, Validators};
