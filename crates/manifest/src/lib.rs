//! Tools from YAML files: schema 1.0 and 2.0, read into checked manifests, every mistake of a file reported at once.
//!
//! A file is read into a tree with places; the tree is held against the JSON Schema that editors use too, then against
//! the rules a schema cannot state. What has no error becomes a [`Manifest`]. A broken file stops only itself.
//! Nothing here runs a script or a program: whether a function can be parsed is asked of whoever loads.

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
