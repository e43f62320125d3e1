//! What is wrong with a manifest: a stable code, how bad it is, where, and the way out.

use std::fmt;

use document::DocumentError;
use serde_json::{Value, json};

/// What kind of mistake it is. The first seven are those of the schema's document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// A required field is not there, or empty.
    MissingRequiredField,
    /// A field has another type.
    InvalidType,
    /// A word is not one of those that are known.
    InvalidEnumValue,
    /// A version is not a semantic one.
    InvalidSemver,
    /// A function cannot be parsed, or reaches for what it cannot have.
    InvalidFunctionSyntax,
    /// A scenario that each command should have is not there.
    MissingScenario,
    /// A name is not written as such names are.
    NamingConvention,
    /// The file is not YAML that has one meaning.
    InvalidYaml,
    /// A key is not known here: what it was meant to do would not happen.
    UnknownField,
    /// A key is not read.
    IgnoredField,
    /// Two things have the same name.
    DuplicateId,
    /// Something is named that is not there.
    UnresolvedReference,
    /// A value of the right type that cannot be used.
    InvalidValue,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The manifest is not loaded.
    Error,
    /// It is.
    Warning,
}

impl Code {
    /// The word on the wire.
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

    /// How bad a mistake of this kind is, always.
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
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// One thing that is wrong with a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Its kind.
    pub code: Code,
    /// Which field, by dots: `tool.executable_knowledge.helpers[0].id`. Empty for the file as a whole.
    pub field: String,
    /// Where, what, and what to do.
    pub place: DocumentError,
}

impl Diagnostic {
    /// A file that cannot be read at all.
    pub(crate) fn unreadable(place: DocumentError) -> Self {
        let suggestion =
            place.suggestion.clone().unwrap_or_else(|| "correct the file at this place".to_owned());
        Diagnostic { code: Code::InvalidYaml, field: String::new(), place: place.suggest(suggestion) }
    }

    /// How bad it is.
    pub fn severity(&self) -> Severity {
        self.code.severity()
    }

    /// The same for programs.
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
