//! Calls that passed the schema check and whose validators have not run yet.

use std::sync::Arc;
use std::time::Duration;

use tool::{Arguments, Refusal, RefusalCode, ToolDefinition};

use crate::ValidCall;
use crate::validators::Validators;

/// Call whose arguments passed the schema and the curated map, with defaults filled in. Only a `Guardrail`
/// creates one. `run_validators`, or `without_validators` for a tool that has none, turns it into a
/// [`ValidCall`].
#[derive(Debug)]
pub struct Fitting {
    definition: Arc<ToolDefinition>,
    arguments: Arguments,
    validators: Option<Arc<Validators>>,
}

/// Valid call with the run times of its slow validators.
#[derive(Debug)]
pub struct Validated {
    /// Valid call.
    pub call: ValidCall,
    /// Validators that exceeded the time limit for a warning, with their run time.
    pub slow: Vec<(Arc<str>, Duration)>,
}

impl Fitting {
    pub(crate) fn new(
        definition: Arc<ToolDefinition>,
        arguments: Arguments,
        validators: Option<Arc<Validators>>,
    ) -> Self {
        Fitting { definition, arguments, validators }
    }

    /// Arguments, with defaults filled in.
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// Runs the tool's validators. One that fails refuses the call, like one that rejects it.
    pub async fn validated(self) -> Result<Validated, Box<Refusal>> {
        let slow = match &self.validators {
            Some(validators) => validators.ask(&self.definition, &self.arguments).await?,
            None => Vec::new(),
        };
        Ok(Validated { call: ValidCall::new(self.definition, self.arguments), slow })
    }

    /// Returns the valid call if the tool has no validators, else the unchanged schema-checked call.
    pub fn settled(self) -> Result<ValidCall, Fitting> {
        match self.validators {
            None => Ok(ValidCall::new(self.definition, self.arguments)),
            Some(_) => Err(self),
        }
    }

    /// Refusal for a context in which validators cannot be run.
    pub(crate) fn unasked(&self) -> Box<Refusal> {
        let reason = "the validators of this tool cannot be run here";
        let refusal = Refusal::new(self.definition.name().as_str(), RefusalCode::ValidatorRejected, reason);
        Box::new(refusal.detail("validator_unavailable"))
    }
}
