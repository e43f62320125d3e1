//! Parameters of a method, read field by field, so that an error names the field and no value is guessed.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tool::definition::ToolFormat;
use tool::{Category, Mode};

use super::RpcError;
use super::error::type_of;

/// Parameters of a request. [`Params::finish`] refuses those that the method did not read.
#[derive(Debug, Default)]
pub(crate) struct Params {
    given: Map<String, Value>,
    known: Vec<&'static str>,
}

/// Type of a parameter.
pub(crate) trait ParameterValue: DeserializeOwned {
    /// Description of valid values, for the error message.
    const EXPECTED: &'static str;

    /// Converts the value, if it has this type.
    fn read(value: Value) -> Option<Self> {
        serde_json::from_value(value).ok()
    }
}

impl Params {
    pub(crate) fn read(value: Option<Value>) -> Result<Self, RpcError> {
        match value {
            None => Ok(Params::default()),
            Some(Value::Object(given)) => Ok(Params { given, known: Vec::new() }),
            Some(other) => Err(RpcError::wrong_type("params", "an object", &other)),
        }
    }

    /// Reads a required parameter.
    pub(crate) fn required<T: ParameterValue>(&mut self, field: &'static str) -> Result<T, RpcError> {
        self.optional(field)?.ok_or_else(|| RpcError::missing(field, T::EXPECTED))
    }

    /// Reads an optional parameter. Null does not count as absent; it is a value of the wrong type.
    pub(crate) fn optional<T: ParameterValue>(&mut self, field: &'static str) -> Result<Option<T>, RpcError> {
        let Some(value) = self.take(field) else { return Ok(None) };
        // The type is determined before the value is moved; the value itself never appears in an error.
        let got = type_of(&value);
        T::read(value).map(Some).ok_or_else(|| RpcError::unexpected_type(field, T::EXPECTED, got))
    }

    /// Reads an optional parameter of any type.
    pub(crate) fn take(&mut self, field: &'static str) -> Option<Value> {
        self.known.push(field);
        self.given.remove(field)
    }

    /// Refuses a parameter of the protocol that this version does not support. Ignoring it would suggest
    /// support.
    pub(crate) fn refuse_unsupported(&mut self, field: &'static str) -> Result<(), RpcError> {
        match self.given.remove(field) {
            Some(_) => Err(RpcError::not_supported_yet(field)),
            None => Ok(()),
        }
    }

    /// Reads the only parameter of a method.
    pub(crate) fn only<T: ParameterValue>(mut self, field: &'static str) -> Result<T, RpcError> {
        let value = self.required(field)?;
        self.finish()?;
        Ok(value)
    }

    /// Refuses parameters that were not read.
    pub(crate) fn finish(self) -> Result<(), RpcError> {
        match self.given.keys().next() {
            Some(unknown) => Err(RpcError::unknown_parameter(unknown, &self.known)),
            None => Ok(()),
        }
    }
}

impl ParameterValue for String {
    const EXPECTED: &'static str = "a string";
}

impl ParameterValue for bool {
    const EXPECTED: &'static str = "true or false";
}

impl ParameterValue for u64 {
    const EXPECTED: &'static str = "a non-negative integer";
}

impl ParameterValue for u32 {
    const EXPECTED: &'static str = u64::EXPECTED;
}

impl ParameterValue for f64 {
    const EXPECTED: &'static str = "a number";
}

impl ParameterValue for Vec<String> {
    const EXPECTED: &'static str = "a list of strings";
}

impl ParameterValue for Map<String, Value> {
    const EXPECTED: &'static str = "an object";

    // Deserialising would build the whole tree again.
    fn read(value: Value) -> Option<Self> {
        if let Value::Object(map) = value { Some(map) } else { None }
    }
}

impl ParameterValue for PathBuf {
    const EXPECTED: &'static str = "an absolute path";

    fn read(value: Value) -> Option<Self> {
        value.as_str().map(PathBuf::from).filter(|path| path.is_absolute())
    }
}

impl ParameterValue for Mode {
    const EXPECTED: &'static str = "NORMAL, ALERT, DEGRADED, LOCKDOWN or RECOVERY";
}

impl ParameterValue for Category {
    const EXPECTED: &'static str = "a category name, such as read_only";
}

impl ParameterValue for ToolFormat {
    const EXPECTED: &'static str = "native, mcp, openai or anthropic";
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(params: Value) -> Result<(String, Option<u64>, Option<Mode>), RpcError> {
        let mut params = Params::read(Some(params))?;
        let read = (params.required("name")?, params.optional("count")?, params.optional("mode")?);
        params.refuse_unsupported("later")?;
        params.finish()?;
        Ok(read)
    }

    #[test]
    fn invalid_fields_are_named_in_the_error() {
        let good = read(json!({"name": "a", "count": 3, "mode": "ALERT"})).unwrap();
        assert_eq!(good, ("a".to_owned(), Some(3), Some(Mode::Alert)));
        assert_eq!(read(json!({"name": ""})).unwrap(), (String::new(), None, None));
        let check = |params: Value, field: &str, message: &str| {
            let error = read(params.clone()).unwrap_err();
            assert_eq!(error.code, -32602, "{params}");
            assert!(error.message.contains(message), "{params}: {}", error.message);
            assert_eq!(error.data["field"], field, "{params}");
            assert!(!error.message.contains("secret"), "a value is never shown: {}", error.message);
        };
        check(json!({}), "name", "`name` is missing: it must be a string");
        check(json!({"name": 5}), "name", "`name` must be a string; got a number");
        check(json!({"name": null}), "name", "got null");
        for count in [json!(-1), json!(1.0), json!("secret"), json!([]), json!(true), json!(null)] {
            check(json!({"name": "a", "count": count}), "count", "`count` must be a non-negative integer");
        }
        check(json!({"name": "a", "mode": "secret"}), "mode", "`mode` must be NORMAL, ALERT");
        check(json!({"name": "a", "cuont": 1}), "cuont", "did you mean `count`?");
        check(json!({"name": "a", "zebra": 1}), "zebra", "known: name, count, mode");
        check(json!({"name": "a", "later": false}), "later", "not supported yet");
    }
}
