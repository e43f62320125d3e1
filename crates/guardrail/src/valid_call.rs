//! The proof that a call's arguments passed the guardrail.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tool::{Arguments, Caller, Failure, FailureKind, SESSION_ARGUMENT, ToolDefinition};

/// A tool and arguments that fit it, with defaults filled in, and that its validators let pass. Only
/// [`Fitting::validated`](crate::Fitting::validated) makes one, and [`check`](crate::check) of a tool that has none.
#[derive(Debug)]
pub struct ValidCall {
    definition: Arc<ToolDefinition>,
    arguments: Arguments,
    /// The caller's own, where the tool wants it.
    session: Option<String>,
    /// On whose behalf it runs, in one word; empty while nobody has said.
    party: String,
}

impl ValidCall {
    pub(crate) fn new(definition: Arc<ToolDefinition>, arguments: Arguments) -> Self {
        ValidCall { definition, arguments, session: None, party: String::new() }
    }

    /// The tool.
    pub fn definition(&self) -> &Arc<ToolDefinition> {
        &self.definition
    }

    /// The same call by this caller: its worker session, which the tool is told if it wants to know, and whose it is.
    /// Nothing else can be added after the check.
    pub fn made_by(self, caller: &Caller) -> Self {
        let session = caller.session.clone().filter(|_| self.definition.wants_session());
        ValidCall { session, party: caller.party(), ..self }
    }

    /// On whose behalf it runs: what is kept for this word is for no other.
    pub fn party(&self) -> &str {
        &self.party
    }

    /// What the tool is handed: the arguments and, if it wants it, the session under `session_id`.
    pub fn handed_over(&self) -> Arguments {
        let mut arguments = self.arguments.clone();
        if let Some(session) = &self.session {
            arguments.insert(SESSION_ARGUMENT.to_owned(), Value::from(session.as_str()));
        }
        arguments
    }

    /// The arguments as they were checked, defaults filled in.
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// What the tool is handed, as the type its schema was derived from.
    ///
    /// The schema has already accepted them, so an error here means that type and schema disagree: a fault of the
    /// tool, reported as one.
    pub fn typed<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_value(Value::Object(self.handed_over())).map_err(|error| {
            let name = self.definition.name();
            Failure::new(FailureKind::Crashed, format!("{name} cannot read its own arguments: {error}"))
        })
    }
}
