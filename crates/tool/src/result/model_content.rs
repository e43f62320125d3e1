//! Form in which a language model receives an output. Programs use the JSON value of the output.

use std::fmt;

use serde_json::{Value, json};

/// Form of an output for a language model.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ModelContent {
    /// The JSON value as text.
    #[default]
    Json,
    /// Text that the tool's own function makes from the value, when a client needs it.
    Text(ModelText),
    /// MCP content blocks of the server behind the tool, passed on.
    Blocks(Vec<Value>),
}

impl ModelContent {
    /// Creates the form of an output with these content blocks, which may be none.
    pub(super) fn from_blocks(blocks: Vec<Value>) -> Self {
        if blocks.is_empty() { ModelContent::Json } else { ModelContent::Blocks(blocks) }
    }
}

/// Function that renders the JSON value of an output, complete or partial, as text for a language model. It
/// returns `None` for a value of another form.
#[derive(Clone, Copy)]
pub struct ModelText(pub fn(&Value) -> Option<String>);

impl ModelText {
    /// Rendering of the report of a program: exit code, standard output and standard error. An output with
    /// other fields is not rendered.
    pub const PROGRAM_REPORT: ModelText = ModelText(program_report);
}

fn program_report(output: &Value) -> Option<String> {
    let fields = output.as_object().filter(|fields| fields.len() == 4)?;
    let text = |key: &str| fields.get(key)?.as_str();
    let (exit_code, timed_out) = (fields.get("exit_code")?.as_i64()?, fields.get("timed_out")?.as_bool()?);
    let end = match (timed_out, exit_code) {
        (true, _) => Some("timed out".to_owned()),
        (false, 0) => None,
        (false, code) => Some(format!("exit code {code}")),
    };
    Some(crate::text::program_output(end.as_deref(), text("stdout")?, text("stderr")?))
}

impl PartialEq for ModelText {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl fmt::Debug for ModelText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ModelText")
    }
}

/// Creates an MCP content block with a text.
pub fn text_block(text: impl Into<String>) -> Value {
    json!({"type": "text", "text": text.into()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_report_is_text_and_other_outputs_are_not() {
        let ModelText(render) = ModelText::PROGRAM_REPORT;
        let run = |code: i64, stdout: &str, stderr: &str| json!({"exit_code": code, "timed_out": false, "stdout": stdout, "stderr": stderr});
        let check = |output: Value, expect: Option<&str>| assert_eq!(render(&output).as_deref(), expect);
        check(run(0, "", ""), Some("exit code 0, no output"));
        check(run(3, "", ""), Some("exit code 3, no output"));
        check(run(0, "a\n", ""), Some("a\n"));
        check(run(1, "a", "b"), Some("exit code 1\na\nstderr:\nb"));
        check(json!({"exit_code": 0, "timed_out": false, "stdout": "", "stderr": "", "more": 1}), None);
        check(json!({"text": "a"}), None);
    }
}
