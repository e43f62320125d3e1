//! Problem with one argument of a call.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Value of `got` for a missing field. Part of the wire format; only `is_missing` compares it.
const GOT_NOTHING: &str = "nothing";

/// Problem with one argument of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArgumentProblem {
    /// JSON pointer to the value, or to the position where it is missing.
    pub pointer: String,
    /// Expected type or value.
    pub expected: String,
    /// Type or count that was given, never the value itself.
    pub got: String,
    /// Message that states both.
    pub message: String,
}

impl ArgumentProblem {
    /// Creates the problem of a value that does not meet the schema.
    pub fn new(
        pointer: impl Into<String>,
        expected: impl Into<String>,
        got: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        ArgumentProblem {
            pointer: pointer.into(),
            expected: expected.into(),
            got: got.into(),
            message: message.into(),
        }
    }

    /// Creates the problem of a missing required value; the pointer states where it belongs.
    pub fn missing(
        pointer: impl Into<String>,
        expected: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self::new(pointer, expected, GOT_NOTHING, message)
    }

    /// Returns true if a required value is missing.
    pub fn is_missing(&self) -> bool {
        self.got == GOT_NOTHING
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_value_round_trips_on_the_wire() {
        let absent = ArgumentProblem::missing("/path", "string", "`path` is required");
        let wire = json!({"pointer": "/path", "expected": "string", "got": "nothing",
            "message": "`path` is required"});
        assert_eq!(serde_json::to_value(&absent).unwrap(), wire);
        assert!(serde_json::from_value::<ArgumentProblem>(wire).unwrap().is_missing());
        assert!(
            !ArgumentProblem::new("/path", "string", "null", "/path must be string, not null").is_missing()
        );
    }
}
