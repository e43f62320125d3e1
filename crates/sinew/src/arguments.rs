//! Parses `key=value` words into a JSON arguments object. The tool's schema decides the type of a value.

use serde_json::Value;
use tool::definition::ParameterType;
use tool::{Arguments, ToolDefinition, strict_json};

use crate::exit::CommandError;

/// Tool and arguments of `sinew call`, from its words and `--json`.
pub(crate) struct CallInput {
    pub(crate) tool: String,
    pub(crate) words: Vec<String>,
    pub(crate) json_arguments: Option<Value>,
    pub(crate) wants_json: bool,
}

impl CallInput {
    /// Reads the words and the value of `--json`. That value is optional, so clap assigns a plain word after
    /// `--json` to it; such a word is moved back.
    pub(crate) fn new(mut words: Vec<String>, json: Option<&str>) -> Result<CallInput, CommandError> {
        let wants_json = json.is_some();
        let object = match json {
            None | Some("") => None,
            Some("-") => Some(read_json_from_stdin()?),
            Some(text) if text.trim_start().starts_with(['{', '[', '"']) => Some(parse_object(text)?),
            Some(word) if word.contains('=') => {
                words.push(word.to_owned());
                None
            }
            Some(word) => {
                words.insert(0, word.to_owned());
                None
            }
        };
        if words.is_empty() {
            return Err(
                CommandError::usage("no tool is named").with_hint("`sinew tools list` shows the tools")
            );
        }
        let tool = words.remove(0);
        if object.is_some() && !words.is_empty() {
            return Err(CommandError::usage(
                "give the arguments either as key=value words or after --json, not both",
            ));
        }
        Ok(CallInput { tool, words, json_arguments: object, wants_json })
    }

    /// Converts the words into arguments, with the types of the tool's definition if it is known.
    pub(crate) fn into_arguments(self, definition: Option<&ToolDefinition>) -> Result<Value, CommandError> {
        if let Some(object) = self.json_arguments {
            return Ok(object);
        }
        let mut arguments = Arguments::new();
        for word in &self.words {
            let (key, value) = parse_pair(word, definition)?;
            if arguments.contains_key(&key) {
                return Err(CommandError::usage(format!("`{key}` is given twice")));
            }
            arguments.insert(key, value);
        }
        Ok(Value::Object(arguments))
    }
}

fn parse_pair(word: &str, definition: Option<&ToolDefinition>) -> Result<(String, Value), CommandError> {
    let Some((key, text)) = word.split_once('=') else {
        let example = "write key=value, such as path=README.md";
        return Err(CommandError::usage(format!("`{word}` is not an argument")).with_hint(example));
    };
    if let Some(key) = key.strip_suffix(':') {
        let value = strict_json::parse(text)
            .map_err(|error| CommandError::usage(format!("the value of `{key}` is not JSON: {error}")))?;
        return Ok((key.to_owned(), value));
    }
    let parameter = definition.and_then(|d| d.parameters().iter().find(|p| p.name == key));
    // A value whose type is not a string is parsed as JSON; if that fails, it is passed as text and the
    // guardrail refuses it.
    let value = match parameter.map(|p| p.kind) {
        None | Some(ParameterType::String) => None,
        Some(_) => strict_json::parse(text).ok(),
    };
    Ok((key.to_owned(), value.unwrap_or_else(|| Value::String(text.to_owned()))))
}

fn parse_object(text: &str) -> Result<Value, CommandError> {
    strict_json::parse(text)
        .map_err(|error| CommandError::usage(format!("the value of --json is not acceptable JSON: {error}")))
}

fn read_json_from_stdin() -> Result<Value, CommandError> {
    let text = std::io::read_to_string(std::io::stdin())
        .map_err(|error| CommandError::usage(format!("standard input cannot be read: {error}")))?;
    parse_object(&text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::definition::ToolParameter;
    use tool::{Category, RiskLevel, ToolSpec};

    use super::*;

    fn definition() -> ToolDefinition {
        let mut spec = ToolSpec::new("t", "d", Category::READ_ONLY, RiskLevel::Low);
        let kinds = [
            ("path", ParameterType::String),
            ("count", ParameterType::Integer),
            ("tags", ParameterType::Array),
        ];
        spec.parameters = kinds.map(|(name, kind)| ToolParameter::new(name, kind, "")).to_vec();
        spec.check().unwrap()
    }

    fn check(words: &[&str], json: Option<&str>, expect: Result<Value, &str>) {
        let words = words.iter().map(ToString::to_string).collect();
        let input = CallInput::new(words, json);
        let got = input.and_then(|input| {
            assert_eq!(input.tool, "t");
            input.into_arguments(Some(&definition()))
        });
        match (got, expect) {
            (Ok(value), Ok(expected)) => assert_eq!(value, expected),
            (Err(problem), Err(part)) => assert!(problem.message.contains(part), "{}", problem.message),
            (got, expect) => panic!("{got:?} instead of {expect:?}"),
        }
    }

    #[test]
    fn values_take_the_type_from_the_schema() {
        check(&["t", "path=1", "count=3"], None, Ok(json!({"path": "1", "count": 3})));
        check(&["t", "path=a=b"], None, Ok(json!({"path": "a=b"})));
        check(&["t", "count=many"], None, Ok(json!({"count": "many"})));
        check(&["t", r#"tags=["x"]"#, "extra:=true"], None, Ok(json!({"tags": ["x"], "extra": true})));
        check(&["t", "loose"], None, Err("not an argument"));
        check(&["t", "path=a", "path=b"], None, Err("twice"));
        check(&["t", "extra:={"], None, Err("not JSON"));
    }

    #[test]
    fn json_is_a_flag_or_the_arguments() {
        check(&["t"], Some(r#"{"path":"a"}"#), Ok(json!({"path": "a"})));
        check(&["t", "path=a"], Some(""), Ok(json!({"path": "a"})));
        check(&["path=a"], Some("t"), Ok(json!({"path": "a"})));
        check(&["t"], Some("path=a"), Ok(json!({"path": "a"})));
        check(&["t", "path=a"], Some("{}"), Err("not both"));
        check(&["t"], Some(r#"{"path":1,"path":2}"#), Err("duplicate key"));
    }
}
