//! What an answer goes through before the caller gets it: the payload is taken out of its wrapping, and the manifest's
//! processor makes of it what it says.

use std::sync::Arc;

use knowledge::{Function, Workers};
use manifest::ApiComplexity;
use serde_json::{Value, json};
use tool::{Failure, FailureKind, Output};

/// What an answer goes through.
#[derive(Clone, Debug)]
pub(crate) struct After {
    pub(crate) api: Arc<ApiComplexity>,
    pub(crate) processor: Option<Function>,
    pub(crate) workers: Workers,
}

impl After {
    pub(crate) async fn process(&self, output: Output) -> Result<Output, Failure> {
        let value = match self.api.payload_of(&output.value) {
            Some((kind, payload)) => json!({"payload_type": kind, "payload": payload}),
            None => output.value,
        };
        let value = match &self.processor {
            Some(processor) => self.workers.compute(processor, &value).await.map_err(|error| {
                let message = format!("the tool ran, and its answer could not be processed: {error}");
                Failure { output: Some(value.clone()), ..Failure::new(FailureKind::Crashed, message) }
            })?,
            None => value,
        };
        Ok(Output { value: wrapped(value), ..output })
    }
}

/// An output is an object.
fn wrapped(value: Value) -> Value {
    if value.is_object() { value } else { json!({"value": value}) }
}
