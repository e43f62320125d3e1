//! Guardrail: refuses malformed calls before they are judged or opened, and tells the caller how to fix them.
//!
//! A `Guardrail` turns arguments into a `SchemaCheckedCall`, or into a refusal that lists every problem and
//! shows an example of a valid call. The tool's own [`Validators`] turn a `SchemaCheckedCall` into a
//! [`ValidCall`], which no other code can construct. The guardrail checks the tool's [`InputSchema`],
//! compiled once per snapshot, and the curated map of `guardrails.yaml` (`CuratedGuardrails`), which also
//! covers names that no tool has. If a mistake has exactly one obvious repair, the rejection carries a
//! `RepairProposal`; the caller of this crate decides whether it may be offered, and nothing ever runs from
//! it.
//!
//! This crate consults no policy: a valid call may still be denied.

mod check;
mod curated;
mod curated_file;
mod example;
mod findings;
mod guard;
mod lore;
mod name;
mod nested;
mod nudge;
mod problem;
mod repair;
mod requirement;
mod schema;
mod synonym;
mod valid_call;
mod validators;

pub use check::{check, fits};
pub use curated::{Curated, CuratedChange, CuratedError, Demands, EMBEDDED};
pub use curated_file::{CuratedEntry, GuardrailsFile};
pub use guard::{FindTool, Guard, Known, Rejected};
pub use lore::{Lore, Mistake, Quirk};
pub use name::{without_host, without_markup};
pub use nudge::blames_arguments;
pub use problem::missing_fields;
pub use repair::{Offer, Proposal};
pub use requirement::Requirement;
pub use schema::{InputSchema, SchemaError};
pub use valid_call::{Fitting, ValidCall, Validated};
pub use validators::{Rule, Validators};
