//! Guardrail: refuses malformed calls before they are judged or opened, and informs the caller how to fix
//! them.
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

mod argument_complaints;
mod argument_names;
mod argument_problems;
mod check;
mod curated;
mod curated_file;
mod example;
mod guardrail;
mod guidance;
mod nested_calls;
mod problem;
mod repair;
mod requirement;
mod schema;
mod tool_name;
mod valid_call;
mod validators;

pub use argument_complaints::blames_arguments;
pub use check::{check, check_schema};
pub use curated::{CuratedChange, CuratedError, CuratedGuardrails, EMBEDDED_FILE, RequirementChange};
pub use curated_file::{CuratedEntry, GuardrailsFile};
pub use guardrail::{Guardrail, KnownTool, RejectedCall, ToolLookup};
pub use guidance::{KnownMistake, KnownQuirk, ToolGuidance};
pub use problem::missing_fields;
pub use repair::{RepairOffer, RepairProposal};
pub use requirement::Requirement;
pub use schema::{InputSchema, SchemaError};
pub use tool_name::{strip_host_prefix, strip_markup};
pub use valid_call::{SchemaCheckedCall, ValidCall, ValidatedCall};
pub use validators::{ValidatorRule, Validators};
