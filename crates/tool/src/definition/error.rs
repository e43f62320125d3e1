//! Errors of a tool definition, worded for the author of the tool.

use super::spec::{LONGEST_DESCRIPTION, LONGEST_TIMEOUT};

/// Reason why a tool definition is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum DefinitionError {
    #[error(transparent)]
    Name(#[from] crate::name::InvalidToolName),
    #[error("version `{0}` is not a semantic version: write three numbers, such as 1.0.0")]
    Version(String),
    #[error("the description is empty")]
    NoDescription,
    #[error("the description has {0} bytes; the limit is {LONGEST_DESCRIPTION}")]
    LongDescription(usize),
    #[error("timeout_seconds is {0}: it must be between 1 and {LONGEST_TIMEOUT}")]
    Timeout(u64),
    #[error("state either `parameters` or `input_schema`, not both")]
    ParametersAndSchema,
    #[error("the input schema must have `type: object`")]
    NotAnObject,
    #[error("parameter name `{0}` must have 1 to 128 bytes")]
    ParameterName(String),
    #[error("a tool with `wants_session` must not declare `session_id`: Sinew fills it in after the check")]
    ReservedSessionParameter,
    #[error("parameter `{0}` is stated twice")]
    DuplicateParameter(String),
    #[error("the default of parameter `{name}` is not of type {kind}")]
    Default { name: String, kind: &'static str },
    #[error(
        "`format: path` at `{0}` is not covered by the path rules: declare each path as an argument of its own, or as \
         the `items` of an array argument"
    )]
    MisplacedPath(String),
    #[error(
        "the path at `{0}` must have `type: string`, or `type: array` with `format: path` in its `items`: a value \
         of another type is not covered by the path rules"
    )]
    PathType(String),
    #[error(
        "the reference at `{0}` may lead to a path argument, which the path rules do not cover there: refer \
         to `#/$defs/…` only"
    )]
    PathReference(String),
    #[error("`x-sinew-access` at `{at}` is `{stated}`; it takes read, write or remove{suggestion}")]
    Access { at: String, stated: String, suggestion: String },
    #[error("`x-sinew-access` at `{0}` has no effect without `format: path` beside it")]
    AccessWithoutPath(String),
    #[error(
        "the command or address at `{0}` is not covered by any rule: declare it as an argument of its own with \
         `type: string`, a command also as `type: array` of strings, addresses also as the `items` of an array"
    )]
    MisplacedExternalTarget(String),
}
