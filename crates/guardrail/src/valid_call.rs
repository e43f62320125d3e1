//! Proofs that a call passed the guardrail: first its schema, then its validators.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tool::definition::SESSION_ARGUMENT;
use tool::{Arguments, Caller, Failure, FailureKind, Refusal, RefusalCode, ToolDefinition};

use crate::validators::Validators;

/// Call whose arguments passed the schema and the curated map, with defaults filled in. Only a `Guardrail`
/// creates one. `run_validators`, or `without_validators` for a tool that has none, turns it into a
/// [`ValidCall`].
#[derive(Debug)]
pub struct SchemaCheckedCall {
    definition: Arc<ToolDefinition>,
    arguments: Arguments,
    validators: Option<Arc<Validators>>,
}

/// Valid call with the run times of its slow validators.
#[derive(Debug)]
pub struct ValidatedCall {
    /// Valid call.
    pub call: ValidCall,
    /// Validators that exceeded the time limit for a warning, with their run time.
    pub slow_validators: Vec<(Arc<str>, Duration)>,
}

impl SchemaCheckedCall {
    pub(crate) fn new(
        definition: Arc<ToolDefinition>,
        arguments: Arguments,
        validators: Option<Arc<Validators>>,
    ) -> Self {
        SchemaCheckedCall { definition, arguments, validators }
    }

    /// Returns the arguments, with defaults filled in.
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// Runs the tool's validators. One that fails refuses the call, like one that rejects it.
    pub async fn run_validators(self) -> Result<ValidatedCall, Box<Refusal>> {
        let slow = match &self.validators {
            Some(validators) => validators.run(&self.definition, &self.arguments).await?,
            None => Vec::new(),
        };
        Ok(ValidatedCall { call: ValidCall::new(self.definition, self.arguments), slow_validators: slow })
    }

    /// Returns the valid call if the tool has no validators, else the unchanged schema-checked call.
    pub fn without_validators(self) -> Result<ValidCall, SchemaCheckedCall> {
        match self.validators {
            None => Ok(ValidCall::new(self.definition, self.arguments)),
            Some(_) => Err(self),
        }
    }

    /// Creates the refusal for a context in which validators cannot be run.
    pub(crate) fn validators_unavailable(&self) -> Box<Refusal> {
        let reason = "the validators of this tool cannot be run here";
        let refusal = Refusal::new(self.definition.name().as_str(), RefusalCode::ValidatorRejected, reason);
        Box::new(refusal.with_detail("validator_unavailable"))
    }
}

/// Tool and arguments that passed its schema and its validators, with defaults filled in. Only
/// `SchemaCheckedCall` creates one: `run_validators`, or `without_validators` for a tool that has none.
#[derive(Debug)]
pub struct ValidCall {
    definition: Arc<ToolDefinition>,
    arguments: Arguments,
    /// Session of the caller, if the tool wants it.
    session: Option<String>,
    /// Caller, once `with_caller` has set it.
    caller: Option<Arc<Caller>>,
}

impl ValidCall {
    pub(crate) fn new(definition: Arc<ToolDefinition>, arguments: Arguments) -> Self {
        ValidCall { definition, arguments, session: None, caller: None }
    }

    /// Returns the definition of the tool.
    pub fn definition(&self) -> &Arc<ToolDefinition> {
        &self.definition
    }

    /// Sets the caller, and its session if the tool wants it. Nothing else can be added after the check.
    pub fn with_caller(self, caller: &Arc<Caller>) -> Self {
        let session = caller.session.clone().filter(|_| self.definition.wants_session());
        ValidCall { session, caller: Some(Arc::clone(caller)), ..self }
    }

    /// Returns the key of the caller, which separates stored state between callers. Empty if no caller is
    /// set.
    pub fn party(&self) -> String {
        self.caller.as_ref().map(|caller| caller.party_digest()).unwrap_or_default()
    }

    /// Returns the arguments as the tool receives them: with the session under `session_id`, if the tool
    /// wants it.
    pub fn tool_arguments(&self) -> Arguments {
        let mut arguments = self.arguments.clone();
        if let Some(session) = &self.session {
            arguments.insert(SESSION_ARGUMENT.to_owned(), Value::from(session.as_str()));
        }
        arguments
    }

    /// Returns the arguments as they were checked, with defaults filled in.
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// Deserializes the arguments, as the tool receives them, into the type its schema was derived from.
    ///
    /// The schema has already accepted them, so an error means that type and schema disagree. It is reported
    /// as a crash of the tool.
    pub fn typed<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        // Most arguments need no change, and are read without copying them.
        if self.session.is_none()
            && let Ok(typed) = T::deserialize(&self.arguments)
        {
            return Ok(typed);
        }
        let mut arguments = Value::Object(self.tool_arguments());
        normalize_whole_numbers(&mut arguments);
        serde_json::from_value(arguments).map_err(|error| {
            let name = self.definition.name();
            Failure::new(FailureKind::Crashed, format!("{name} cannot read its own arguments: {error}"))
        })
    }
}

/// Rewrites whole floats as integers: a JSON schema accepts `1.0` as an integer, a Rust integer type does
/// not. Numbers beyond the exact range of a float are unchanged.
fn normalize_whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let float = number.as_f64().filter(|float| number.is_f64() && float.abs() <= MAX_EXACT_INTEGER);
            if let Some(whole) = float.filter(|float| float.fract() == 0.0) {
                // The comparison above keeps it in range, so the cast is exact.
                *number = serde_json::Number::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize_whole_numbers),
        Value::Object(map) => map.values_mut().for_each(normalize_whole_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Largest magnitude up to which every integer has an exact float (2^53).
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::{CallerEndpoint, Category, RiskLevel, ToolSpec};

    use super::*;

    #[test]
    fn whole_float_is_accepted_as_an_integer() {
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct TypedArguments {
            head: u64,
            below: Option<i64>,
            share: f64,
            pages: Vec<u8>,
        }
        let check = |text: &str| {
            let spec = ToolSpec::new("note", "A tool", Category::READ_ONLY, RiskLevel::Low);
            let arguments: Arguments = serde_json::from_str(text).unwrap();
            ValidCall::new(Arc::new(spec.check().unwrap()), arguments).typed::<TypedArguments>()
        };
        let wanted = TypedArguments { head: 1, below: Some(-2), share: 3.0, pages: vec![4, 5] };
        for text in [
            r#"{"head": 1, "below": -2, "share": 3, "pages": [4, 5]}"#,
            r#"{"head": 1.0, "below": -2.0, "share": 3.0, "pages": [4e0, 50e-1]}"#,
        ] {
            assert_eq!(check(text).unwrap(), wanted, "{text}");
        }
        let zero = check(r#"{"head": -0.0, "share": 0.5, "pages": []}"#).unwrap();
        assert_eq!((zero.head, zero.share), (0, 0.5));
        for wrong in ["1.5", "1e30", "-1.0"] {
            let text = format!("{{\"head\": {wrong}, \"share\": 0, \"pages\": []}}");
            assert_eq!(check(&text).unwrap_err().kind, FailureKind::Crashed, "{wrong}");
        }
    }

    #[test]
    fn session_is_passed_only_to_tools_that_want_it() {
        let check = |wants: bool, session: Option<&str>, expect: Value| {
            let mut spec = ToolSpec::new("note", "A tool", Category::READ_ONLY, RiskLevel::Low);
            spec.wants_session = wants;
            let arguments = Arguments::from_iter([("text".to_owned(), json!("x"))]);
            let session = session.map(str::to_owned);
            let caller = Caller {
                uid: 1,
                pid: None,
                endpoint: CallerEndpoint::Socket,
                connection: 1,
                client: None,
                session,
                account: None,
            };
            let caller = Arc::new(caller);
            let call = ValidCall::new(Arc::new(spec.check().unwrap()), arguments).with_caller(&caller);
            assert_eq!(Value::Object(call.tool_arguments()), expect);
            assert_eq!(call.typed::<Value>().unwrap(), expect);
            assert_eq!(Value::Object(call.arguments().clone()), json!({"text": "x"}), "as they were checked");
            assert_eq!(call.party(), caller.party_digest());
        };
        check(true, Some("s-1"), json!({"text": "x", "session_id": "s-1"}));
        check(true, None, json!({"text": "x"}));
        check(false, Some("s-1"), json!({"text": "x"}));
    }
}
