//! Tools from YAML manifests (schema 1.0 and 2.0), with all errors of a file reported at once.
//!
//! A file is parsed into a tree with positions. The tree is checked against the JSON Schema that editors use,
//! then against rules that a schema cannot express. A file without errors becomes a `Manifest`; a broken file
//! does not affect others. This crate runs no script or program: the caller supplies the syntax check for
//! functions.

mod api;
mod checked;
mod detect;
mod diagnostic;
mod findings;
mod folder;
mod knowledge_file;
mod load;
mod manifest_file;
mod rules;
mod script;
mod shape;

pub use api::FieldMapping;
pub use checked::Manifest;
pub use detect::SchemaVersion;
pub use diagnostic::{Code, Diagnostic, Severity};
pub use folder::{Loaded, load_all, spread};
pub use knowledge_file::{AntiPattern, ApiComplexity, Check, Example, PayloadSchema, Quirk, ValidatorFile};
pub use load::{CheckSyntax, SyntaxProblem, load};
pub use manifest_file::{
    ArgvPart, CliSection, Command, CommandEntry, Health, HealthMethod, KeyWish, KnowledgeStrategy,
    LocalRuntime, LocalSection, ManifestFile, McpSection, MetaSection, OutputForm, ToolType, Transport,
};

#[cfg(test)]
mod tests;
