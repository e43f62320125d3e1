//! The proof that a call's arguments passed the guardrail.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tool::{Arguments, Failure, FailureKind, ToolDefinition};

/// A tool and arguments that fit it, with defaults filled in. Only [`check`](crate::check) makes one.
#[derive(Debug)]
pub struct ValidCall {
    definition: Arc<ToolDefinition>,
    arguments: Arguments,
}

impl ValidCall {
    pub(crate) fn new(definition: Arc<ToolDefinition>, arguments: Arguments) -> Self {
        ValidCall { definition, arguments }
    }

    /// The tool.
    pub fn definition(&self) -> &Arc<ToolDefinition> {
        &self.definition
    }

    /// The arguments, defaults filled in.
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// The arguments as the type their schema was derived from.
    ///
    /// The schema has already accepted them, so an error here means that type and schema disagree: a fault of the
    /// tool, reported as one.
    pub fn typed<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_value(Value::Object(self.arguments.clone())).map_err(|error| {
            let name = self.definition.name();
            Failure::new(FailureKind::Crashed, format!("{name} cannot read its own arguments: {error}"))
        })
    }
}
