//! Output processing: extracts the payload from its envelope and mapped fields from the payload, runs the
//! manifest's processor, and validates the result against the output schema.

use std::sync::Arc;

use guardrail::InputSchema;
use knowledge::{KnowledgeError, KnowledgeFunction, WorkerPool};
use manifest::{ApiComplexity, FieldMapping};
use serde_json::{Map, Value, json};
use tool::{Failure, FailureKind, ToolOutput};

use crate::bounded_json;

/// Output processor of a command.
#[derive(Clone, Debug)]
pub(crate) struct OutputProcessor {
    pub(crate) api: Arc<ApiComplexity>,
    /// Field mappings, each with its extraction helper.
    pub(crate) fields: Arc<[(FieldMapping, Option<KnowledgeFunction>)]>,
    pub(crate) processor: Option<KnowledgeFunction>,
    /// Output schema of the manifest.
    pub(crate) schema: Option<Arc<InputSchema>>,
    pub(crate) workers: WorkerPool,
}

impl OutputProcessor {
    pub(crate) async fn process(&self, output: ToolOutput) -> Result<ToolOutput, Failure> {
        let raw = output.value.clone();
        let failed = |error: KnowledgeError| {
            let message = format!("the tool ran, but its output could not be processed: {error}");
            Failure { output: Some(raw.clone()), ..Failure::new(FailureKind::Crashed, message) }
        };
        let (kind, payload) = match self.api.payload_of(&output.value) {
            Some((kind, payload)) => (Some(kind), payload.clone()),
            None => (None, output.value.clone()),
        };
        let found = self.extract_fields(&payload).await.map_err(failed)?;
        let is_processed = kind.is_some() || !found.is_empty() || self.processor.is_some();
        let mut value = match kind {
            Some(kind) => json!({"payload_type": kind, "payload": payload}),
            None => payload,
        };
        if let (Some(fields), false) = (value.as_object_mut(), found.is_empty()) {
            fields.extend(found);
        }
        let value = match &self.processor {
            Some(processor) => {
                bounded_json::compute(&self.workers, processor, &value).await.map_err(failed)?
            }
            None => value,
        };
        let value = into_object(value);
        match self.schema.as_ref().and_then(|schema| schema.first_error(&value)) {
            // The blocks of a server show what the processor has replaced; a model gets the processed value.
            None if is_processed => Ok(ToolOutput { value, content: Vec::new(), ..output }),
            None => Ok(ToolOutput { value, ..output }),
            Some(objection) => {
                let message = format!(
                    "the tool's output does not match its manifest (tool_protocol_error): {objection}"
                );
                Err(Failure { output: Some(raw), ..Failure::new(FailureKind::Crashed, message) })
            }
        }
    }

    /// Extracts the mapped fields of a payload and the problems found in them.
    async fn extract_fields(&self, payload: &Value) -> Result<Map<String, Value>, KnowledgeError> {
        let (mut found, mut problems) = (Map::new(), Vec::new());
        for (mapping, helper) in self.fields.iter() {
            let group_name = mapping.group.as_deref().unwrap_or(&mapping.name);
            let Some(group_value) = payload.get(group_name) else { continue };
            let value = match helper {
                Some(helper) => {
                    let input = json!({"id": mapping.name, "data": payload, group_name: group_value});
                    bounded_json::compute(&self.workers, helper, &input).await?
                }
                None if mapping.group.is_some() => {
                    group_value.get(&mapping.name).cloned().unwrap_or_default()
                }
                None => group_value.clone(),
            };
            if value.is_null() {
                continue;
            }
            problems.extend(mapping.structure_mismatch(&value).map(Value::from));
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

/// Wraps a value that is not an object.
fn into_object(value: Value) -> Value {
    if value.is_object() { value } else { json!({"value": value}) }
}
