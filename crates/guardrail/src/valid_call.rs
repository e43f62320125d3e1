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
    /// On whose behalf it runs, once somebody has said.
    caller: Option<Arc<Caller>>,
}

impl ValidCall {
    pub(crate) fn new(definition: Arc<ToolDefinition>, arguments: Arguments) -> Self {
        ValidCall { definition, arguments, session: None, caller: None }
    }

    /// The tool.
    pub fn definition(&self) -> &Arc<ToolDefinition> {
        &self.definition
    }

    /// The same call by this caller: its worker session, which the tool is told if it wants to know, and whose it is.
    /// Nothing else can be added after the check.
    pub fn made_by(self, caller: &Arc<Caller>) -> Self {
        let session = caller.session.clone().filter(|_| self.definition.wants_session());
        ValidCall { session, caller: Some(Arc::clone(caller)), ..self }
    }

    /// On whose behalf it runs, in one word: what is kept for it is for no other. Empty while nobody has said.
    pub fn party(&self) -> String {
        self.caller.as_ref().map(|caller| caller.party()).unwrap_or_default()
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
        let mut arguments = Value::Object(self.handed_over());
        write_whole_numbers_plainly(&mut arguments);
        serde_json::from_value(arguments).map_err(|error| {
            let name = self.definition.name();
            Failure::new(FailureKind::Crashed, format!("{name} cannot read its own arguments: {error}"))
        })
    }
}

/// To a schema `1.0` is an integer, to a type of ours only `1` is. Beyond what a float tells apart, numbers stay as they are.
fn write_whole_numbers_plainly(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let float = number.as_f64().filter(|float| number.is_f64() && float.abs() <= LARGEST_EXACT);
            if let Some(whole) = float.filter(|float| float.fract() == 0.0) {
                // In range by the comparison above, so nothing is cut off.
                *number = serde_json::Number::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_whole_numbers_plainly),
        Value::Object(map) => map.values_mut().for_each(write_whole_numbers_plainly),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Up to here every integer has a float of its own.
const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::{Category, Door, RiskLevel, ToolSpec};

    use super::*;

    #[test]
    fn t015_a_whole_number_is_an_integer_however_it_is_written() {
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Wanted {
            head: u64,
            below: Option<i64>,
            share: f64,
            pages: Vec<u8>,
        }
        let check = |text: &str| {
            let spec = ToolSpec::new("note", "A tool", Category::READ_ONLY, RiskLevel::Low);
            let arguments: Arguments = serde_json::from_str(text).unwrap();
            ValidCall::new(Arc::new(spec.check().unwrap()), arguments).typed::<Wanted>()
        };
        let wanted = Wanted { head: 1, below: Some(-2), share: 3.0, pages: vec![4, 5] };
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
    fn b151_b153_a_tool_that_wants_it_is_handed_the_callers_own_session() {
        let check = |wants: bool, session: Option<&str>, expect: Value| {
            let mut spec = ToolSpec::new("note", "A tool", Category::READ_ONLY, RiskLevel::Low);
            spec.wants_session = wants;
            let arguments = Arguments::from_iter([("text".to_owned(), json!("x"))]);
            let session = session.map(str::to_owned);
            let caller =
                Caller { uid: 1, pid: None, door: Door::Socket, connection: 1, client: None, session };
            let caller = Arc::new(caller);
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
