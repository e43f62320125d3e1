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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::{Category, Door, RiskLevel, ToolSpec};

    use super::*;

    #[test]
    fn b151_b153_a_tool_that_wants_it_is_handed_the_callers_own_session() {
        let check = |wants: bool, session: Option<&str>, expect: Value| {
            let mut spec = ToolSpec::new("note", "A tool", Category::READ_ONLY, RiskLevel::Low);
            spec.wants_session = wants;
            let arguments = Arguments::from_iter([("text".to_owned(), json!("x"))]);
            let session = session.map(str::to_owned);
            let caller =
                Caller { uid: 1, pid: None, door: Door::Socket, connection: 1, client: None, session };
            let call = ValidCall::new(Arc::new(spec.check().unwrap()), arguments).made_by(&caller);
            assert_eq!(Value::Object(call.handed_over()), expect);
            assert_eq!(call.typed::<Value>().unwrap(), expect);
            assert_eq!(Value::Object(call.arguments().clone()), json!({"text": "x"}), "as they were checked");
            assert_eq!(call.party(), caller.party());
        };
        check(true, Some("s-1"), json!({"text": "x", "session_id": "s-1"}));
        check(true, None, json!({"text": "x"}));
        check(false, Some("s-1"), json!({"text": "x"}));
    }
}
