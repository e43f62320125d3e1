//! Arguments that fit, on their way to be valid: a tool's own validators have not seen them yet.

use std::sync::Arc;
use std::time::Duration;

use tool::{Arguments, Refusal, RefusalCode, ToolDefinition};

use crate::ValidCall;
use crate::validators::Validators;

/// Arguments that the schema and the curated map let pass, defaults filled in. Only a [`Guard`](crate::Guard) makes one,
/// and only [`validated`](Fitting::validated) makes a [`ValidCall`] of it.
#[derive(Debug)]
pub struct Fitting {
    definition: Arc<ToolDefinition>,
    arguments: Arguments,
    validators: Option<Arc<Validators>>,
}

/// A valid call, and what its validators took.
#[derive(Debug)]
pub struct Validated {
    /// The call.
    pub call: ValidCall,
    /// Validators that took longer than they should, with their time.
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

    /// The arguments, defaults filled in.
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// Asks the tool's validators. One that gives no proper answer refuses the call like one that says no.
    pub async fn validated(self) -> Result<Validated, Box<Refusal>> {
        let slow = match &self.validators {
            Some(validators) => validators.ask(&self.definition, &self.arguments).await?,
            None => Vec::new(),
        };
        Ok(Validated { call: ValidCall::new(self.definition, self.arguments), slow })
    }

    /// The call of a tool that has no validators. Of one that has, nobody can say so without asking them.
    pub fn settled(self) -> Result<ValidCall, Fitting> {
        match self.validators {
            None => Ok(ValidCall::new(self.definition, self.arguments)),
            Some(_) => Err(self),
        }
    }

    /// What a caller is told where they cannot be asked.
    pub(crate) fn unasked(&self) -> Box<Refusal> {
        let reason = "the validators of this tool cannot be asked here";
        let refusal = Refusal::new(self.definition.name().as_str(), RefusalCode::ValidatorRejected, reason);
        Box::new(refusal.detail("validator_unavailable"))
    }
}
