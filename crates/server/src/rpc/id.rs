//! Request id: a short string or an integer. It is unique only among the open requests of its connection.

use serde::Serialize;
use serde_json::{Number, Value};

use super::RpcError;

const LONGEST: usize = 256;

/// Id that the reply repeats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum Id {
    Integer(Number),
    Text(String),
}

impl Id {
    pub(crate) fn read(value: Value) -> Result<Self, RpcError> {
        match value {
            Value::Number(number) if number.is_i64() || number.is_u64() => Ok(Id::Integer(number)),
            Value::String(text) if text.len() <= LONGEST => Ok(Id::Text(text)),
            Value::String(text) => {
                let message = format!("`id` has {} bytes; it must be at most {LONGEST}", text.len());
                Err(RpcError::invalid_request(&message))
            }
            _ => Err(RpcError::invalid_request(
                "`id` must be a string or an integer; leave it out in a notification",
            )),
        }
    }
}
