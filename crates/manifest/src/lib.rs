//! Tools from YAML manifests (schema 1.0 and 2.0), with all errors of a file reported at once.
//!
//! A file is parsed into a tree with positions. The tree is checked against the JSON Schema that editors use,
//! then against rules that a schema cannot express. A file without errors becomes a `Manifest`; a broken file
//! does not affect others. This crate runs no script or program: the caller supplies the syntax check for
//! functions.

mod checked;
mod detect;
mod detection;
mod diagnostic;
mod findings;
mod folder;
mod knowledge_file;
mod load;
mod manifest_file;
mod mapping;
mod rules;
mod script;
mod shape;
mod spread;

pub use checked::{Function, Manifest, Validator};
pub use detect::SchemaVersion;
pub use diagnostic::{Code, Diagnostic, Severity};
pub use folder::{Loaded, load_all};
pub use knowledge_file::{AntiPattern, ApiComplexity, Check, Example, Format, PayloadSchema, Quirk};
pub use load::{CheckSyntax, SyntaxProblem, load};
pub use manifest_file::{
    ArgvPart, CliSection, Command, CommandEntry, Health, HealthMethod, KeyWish, KnowledgeStrategy,
    LocalRuntime, LocalSection, ManifestFile, McpSection, MetaSection, OutputForm, ToolType, Transport,
};
pub use mapping::FieldMapping;
pub use spread::spread;

#[cfg(test)]
mod tests;
