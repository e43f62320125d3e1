//! What an answer goes through before the caller gets it: the payload is taken out of its wrapping, fields of their own
//! kind out of the payload, the manifest's processor makes of it what it says, and it must be what was promised.

use std::sync::Arc;

use guardrail::InputSchema;
use knowledge::{Function, KnowledgeError, Workers};
use manifest::{ApiComplexity, FieldMapping};
use serde_json::{Map, Value, json};
use tool::{Failure, FailureKind, Output};

use crate::parsed;

/// What an answer goes through.
#[derive(Clone, Debug)]
pub(crate) struct After {
    pub(crate) api: Arc<ApiComplexity>,
    /// The fields of their own kind, each with the helper that takes it out.
    pub(crate) fields: Arc<[(FieldMapping, Option<Function>)]>,
    pub(crate) processor: Option<Function>,
    /// What was promised.
    pub(crate) schema: Option<Arc<InputSchema>>,
    pub(crate) workers: Workers,
}

impl After {
    pub(crate) async fn process(&self, output: Output) -> Result<Output, Failure> {
        let raw = output.value.clone();
        let failed = |error: KnowledgeError| {
            let message = format!("the tool ran, and its answer could not be processed: {error}");
            Failure { output: Some(raw.clone()), ..Failure::new(FailureKind::Crashed, message) }
        };
        let (kind, payload) = match self.api.payload_of(&output.value) {
            Some((kind, payload)) => (Some(kind), payload.clone()),
            None => (None, output.value.clone()),
        };
        let found = self.fields_of(&payload).await.map_err(failed)?;
        let mut value = match kind {
            Some(kind) => json!({"payload_type": kind, "payload": payload}),
            None => payload,
        };
        if let (Some(fields), false) = (value.as_object_mut(), found.is_empty()) {
            fields.extend(found);
        }
        let value = match &self.processor {
            Some(processor) => parsed::computed(&self.workers, processor, &value).await.map_err(failed)?,
            None => value,
        };
        let value = wrapped(value);
        match self.schema.as_ref().and_then(|schema| schema.objection(&value)) {
            None => Ok(Output { value, ..output }),
            Some(objection) => {
                let message = format!(
                    "the tool's answer is not what its manifest promises (tool_protocol_error): {objection}"
                );
                Err(Failure { output: Some(raw), ..Failure::new(FailureKind::Crashed, message) })
            }
        }
    }

    /// The fields of their own kind that a payload has, and what is wrong with them.
    async fn fields_of(&self, payload: &Value) -> Result<Map<String, Value>, KnowledgeError> {
        let (mut found, mut problems) = (Map::new(), Vec::new());
        for (mapping, helper) in self.fields.iter() {
            let holder = mapping.group.as_deref().unwrap_or(&mapping.name);
            let Some(held) = payload.get(holder) else { continue };
            let value = match helper {
                Some(helper) => {
                    let input = json!({"id": mapping.name, "data": payload, holder: held});
                    parsed::computed(&self.workers, helper, &input).await?
                }
                None if mapping.group.is_some() => held.get(&mapping.name).cloned().unwrap_or_default(),
                None => held.clone(),
            };
            if value.is_null() {
                continue;
            }
            problems.extend(mapping.problem(&value).map(Value::from));
            if helper.is_some() {
                found.insert(mapping.name.clone(), value);
            }
        }
        let parts = [("fields", Value::Object(found)), ("field_problems", Value::Array(problems))];
        let is_some = |value: &Value| {
            value.as_object().is_some_and(|it| !it.is_empty())
                || value.as_array().is_some_and(|it| !it.is_empty())
        };
        Ok(parts
            .into_iter()
            .filter(|(_, value)| is_some(value))
            .map(|(key, value)| (key.to_owned(), value))
            .collect())
    }
}

/// An output is an object.
fn wrapped(value: Value) -> Value {
    if value.is_object() { value } else { json!({"value": value}) }
}
