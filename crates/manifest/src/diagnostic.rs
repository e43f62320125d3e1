//! Diagnostic about a manifest: stable code, severity, position and fix.

use std::fmt;

use serde_json::{Value, json};
use strict_yaml::DocumentError;

/// Kind of a diagnostic. The first seven are from the specification of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
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
}

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The manifest is not loaded.
    Error,
    /// The manifest is loaded.
    Warning,
}

impl Code {
    /// Returns the word used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::MissingRequiredField => "MISSING_REQUIRED_FIELD",
            Code::InvalidType => "INVALID_TYPE",
            Code::InvalidEnumValue => "INVALID_ENUM_VALUE",
            Code::InvalidSemver => "INVALID_SEMVER",
            Code::InvalidFunctionSyntax => "INVALID_FUNCTION_SYNTAX",
            Code::MissingScenario => "MISSING_SCENARIO",
            Code::NamingConvention => "NAMING_CONVENTION",
            Code::InvalidYaml => "INVALID_YAML",
            Code::UnknownField => "UNKNOWN_FIELD",
            Code::IgnoredField => "IGNORED_FIELD",
            Code::DuplicateId => "DUPLICATE_ID",
            Code::UnresolvedReference => "UNRESOLVED_REFERENCE",
            Code::InvalidValue => "INVALID_VALUE",
        }
    }

    /// Returns the fixed severity of this kind.
    pub fn severity(self) -> Severity {
        match self {
            Code::MissingScenario | Code::NamingConvention | Code::IgnoredField => Severity::Warning,
            Code::MissingRequiredField
            | Code::InvalidType
            | Code::InvalidEnumValue
            | Code::InvalidSemver
            | Code::InvalidFunctionSyntax
            | Code::InvalidYaml
            | Code::UnknownField
            | Code::DuplicateId
            | Code::UnresolvedReference
            | Code::InvalidValue => Severity::Error,
        }
    }
}

impl Severity {
    /// Returns the word used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// Problem with a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Kind of the problem.
    pub code: Code,
    /// Dotted path of the field: `tool.executable_knowledge.helpers[0].id`. Empty for the file as a whole.
    pub field: String,
    /// Position, message and fix.
    pub place: DocumentError,
}

impl Diagnostic {
    /// Creates the diagnostic of a file that cannot be read.
    pub(crate) fn unreadable(place: DocumentError) -> Self {
        let suggestion =
            place.suggestion.clone().unwrap_or_else(|| "correct the file at this position".to_owned());
        Diagnostic { code: Code::InvalidYaml, field: String::new(), place: place.suggest(suggestion) }
    }

    /// Returns the severity.
    pub fn severity(&self) -> Severity {
        self.code.severity()
    }

    /// Converts to JSON for programs.
    pub fn to_json(&self) -> Value {
        json!({"code": self.code.as_str(), "severity": self.severity().as_str(), "message": self.place.message,
            "file": self.place.file, "line": self.place.line, "column": self.place.column, "field": self.field,
            "excerpt": self.place.excerpt, "fix": self.place.suggestion})
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]: {}", self.severity().as_str(), self.code.as_str(), self.place)
    }
}
