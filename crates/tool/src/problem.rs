//! One thing that is wrong with the arguments of a call.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What came where a required field should have been. On the wire, and nowhere else compared.
const NOTHING: &str = "nothing";

/// One thing that is wrong with the arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// JSON pointer to the value, or to where it should be.
    pub pointer: String,
    /// What was wanted.
    pub expected: String,
    /// What came: a type or a count, never the value itself.
    pub got: String,
    /// Both, in a sentence.
    pub message: String,
}

impl Problem {
    /// A value that is not what was wanted.
    pub fn new(
        pointer: impl Into<String>,
        expected: impl Into<String>,
        got: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Problem {
            pointer: pointer.into(),
            expected: expected.into(),
            got: got.into(),
            message: message.into(),
        }
    }

    /// A required value that is not there; the pointer says where it should be.
    pub fn missing(
        pointer: impl Into<String>,
        expected: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self::new(pointer, expected, NOTHING, message)
    }

    /// Whether a required value is not there.
    pub fn is_missing(&self) -> bool {
        self.got == NOTHING
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_says_so_on_the_wire_and_back() {
        let absent = Problem::missing("/path", "string", "`path` is required");
        let wire = json!({"pointer": "/path", "expected": "string", "got": "nothing",
            "message": "`path` is required"});
        assert_eq!(serde_json::to_value(&absent).unwrap(), wire);
        assert!(serde_json::from_value::<Problem>(wire).unwrap().is_missing());
        assert!(!Problem::new("/path", "string", "null", "/path must be string, not null").is_missing());
    }
}
