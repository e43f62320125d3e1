//! Tools from YAML manifests (schema 1.0 and 2.0), with all errors of a file reported at once.
//!
//! A file is parsed into a tree with positions. The tree is checked against the JSON Schema that editors use,
//! then against rules that a schema cannot express. A file without errors becomes a `Manifest`; a broken file
//! does not affect others. This crate runs no script or program: the caller supplies the syntax check for
//! functions.

mod api;
mod checked_manifest;
mod compatibility;
mod diagnostic;
mod diagnostic_collector;
mod forbidden_calls;
mod knowledge_file;
mod load;
mod load_all;
mod manifest_file;
mod missing_export;
mod rules;
mod schema_check;
mod schema_version;

pub use api::FieldMapping;
pub use checked_manifest::{ARGS_ARGUMENT, CommandLine, Manifest};
pub use diagnostic::{Diagnostic, DiagnosticSeverity};
pub use knowledge_file::{ApiComplexity, CommandExample, DeclarativeCheck};
pub use load::{CheckSyntax, SyntaxProblem, load};
pub use load_all::{ManifestLoadResult, load_all, parallel_map};
pub use manifest_file::{
    ArgvPart, CliSection, HealthCheck, HealthMethod, KeyRequirement, KnowledgeStrategy, LocalRuntime,
    LocalSection, ManifestCommandSpec, ManifestFile, McpSection, McpServerTransport, OutputForm, ToolType,
};

#[cfg(test)]
mod tests;
