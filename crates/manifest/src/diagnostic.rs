//! Diagnostic about a manifest: stable code, severity, position and fix.

use std::fmt;

use serde_json::{Value, json};
use strict_yaml::DocumentError;

/// Kind of a diagnostic. The first seven are from the specification of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiagnosticCode {
    /// A required field is missing or empty.
    MissingRequiredField,
    /// A field has the wrong type.
    InvalidType,
    /// A value is not one of the allowed words.
    InvalidEnumValue,
    /// A version is not a semantic version.
    InvalidSemver,
    /// A function cannot be parsed, or uses something that is unavailable.
    InvalidFunctionSyntax,
    /// A scenario that each command should have is missing.
    MissingScenario,
    /// A name does not follow the naming convention.
    NamingConvention,
    /// The file is not unambiguous YAML.
    InvalidYaml,
    /// A key is unknown, so its intended effect would not happen.
    UnknownField,
    /// A key is ignored.
    IgnoredField,
    /// Two items have the same name.
    DuplicateId,
    /// A reference has no target.
    UnresolvedReference,
    /// A value of the right type is not usable.
    InvalidValue,
    /// The manifest has no commands, so it adds no tool.
    NoCommands,
    /// A function failed on an example of its own manifest.
    FunctionFailed,
}

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiagnosticSeverity {
    /// The manifest is not loaded.
    Error,
    /// The manifest is loaded.
    Warning,
}

impl DiagnosticCode {
    /// Returns the word used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            DiagnosticCode::MissingRequiredField => "MISSING_REQUIRED_FIELD",
            DiagnosticCode::InvalidType => "INVALID_TYPE",
            DiagnosticCode::InvalidEnumValue => "INVALID_ENUM_VALUE",
            DiagnosticCode::InvalidSemver => "INVALID_SEMVER",
            DiagnosticCode::InvalidFunctionSyntax => "INVALID_FUNCTION_SYNTAX",
            DiagnosticCode::MissingScenario => "MISSING_SCENARIO",
            DiagnosticCode::NamingConvention => "NAMING_CONVENTION",
            DiagnosticCode::InvalidYaml => "INVALID_YAML",
            DiagnosticCode::UnknownField => "UNKNOWN_FIELD",
            DiagnosticCode::IgnoredField => "IGNORED_FIELD",
            DiagnosticCode::DuplicateId => "DUPLICATE_ID",
            DiagnosticCode::UnresolvedReference => "UNRESOLVED_REFERENCE",
            DiagnosticCode::InvalidValue => "INVALID_VALUE",
            DiagnosticCode::NoCommands => "NO_COMMANDS",
            DiagnosticCode::FunctionFailed => "FUNCTION_FAILED",
        }
    }

    /// Returns the fixed severity of this kind.
    pub fn severity(self) -> DiagnosticSeverity {
        match self {
            DiagnosticCode::MissingScenario
            | DiagnosticCode::NamingConvention
            | DiagnosticCode::IgnoredField
            | DiagnosticCode::NoCommands
            | DiagnosticCode::FunctionFailed => DiagnosticSeverity::Warning,
            DiagnosticCode::MissingRequiredField
            | DiagnosticCode::InvalidType
            | DiagnosticCode::InvalidEnumValue
            | DiagnosticCode::InvalidSemver
            | DiagnosticCode::InvalidFunctionSyntax
            | DiagnosticCode::InvalidYaml
            | DiagnosticCode::UnknownField
            | DiagnosticCode::DuplicateId
            | DiagnosticCode::UnresolvedReference
            | DiagnosticCode::InvalidValue => DiagnosticSeverity::Error,
        }
    }
}

impl DiagnosticSeverity {
    /// Returns the word used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            DiagnosticSeverity::Error => "error",
            DiagnosticSeverity::Warning => "warning",
        }
    }
}

/// Problem with a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Kind of the problem.
    pub code: DiagnosticCode,
    /// Dotted path of the field: `tool.executable_knowledge.helpers[0].id`. Empty for the file as a whole.
    pub field: String,
    /// Position, message and fix.
    pub error: DocumentError,
}

impl Diagnostic {
    /// Creates the diagnostic of a file that cannot be read.
    pub(crate) fn unreadable(error: DocumentError) -> Self {
        let suggestion = error.suggestion.clone().unwrap_or_else(|| match error.line {
            0 => "give the path of a manifest that you can read; `sinew manifest new` writes one".to_owned(),
            _ => "correct the file at this position".to_owned(),
        });
        Diagnostic {
            code: DiagnosticCode::InvalidYaml,
            field: String::new(),
            error: error.with_suggestion(suggestion),
        }
    }

    /// Returns the severity.
    pub fn severity(&self) -> DiagnosticSeverity {
        self.code.severity()
    }

    /// Converts to JSON for programs.
    pub fn to_json(&self) -> Value {
        json!({"code": self.code.as_str(), "severity": self.severity().as_str(), "message": self.error.message,
            "file": self.error.file, "line": self.error.line, "column": self.error.column, "field": self.field,
            "excerpt": self.error.excerpt, "fix": self.error.suggestion})
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]: {}", self.severity().as_str(), self.code.as_str(), self.error)
    }
}
