//! What linters say, in one shape.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// One complaint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub(super) struct Complaint {
    /// The file, relative to the project.
    pub(super) file: String,
    /// The line, from 1.
    pub(super) line: Option<u64>,
    /// The column, from 1.
    pub(super) column: Option<u64>,
    /// What the linter calls it.
    pub(super) code: Option<String>,
    /// `error`, `warning` or `note`.
    pub(super) severity: &'static str,
    /// What is wrong.
    pub(super) message: String,
    /// What the linter would do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
}

/// `ruff check --output-format=json`: one array, or nothing where ruff did not come so far.
pub(super) fn of_ruff(folder: &Path, text: &str) -> Option<Vec<Complaint>> {
    let list: Vec<Value> = serde_json::from_str(text).ok()?;
    let one = |entry: &Value| {
        let file = entry.get("filename")?.as_str()?;
        let file = Path::new(file).strip_prefix(folder).unwrap_or(Path::new(file));
        let place = entry.get("location");
        Some(Complaint {
            file: file.to_string_lossy().into_owned(),
            line: place.and_then(|place| place.get("row")?.as_u64()),
            column: place.and_then(|place| place.get("column")?.as_u64()),
            code: text_of(entry, "code"),
            severity: severity(entry.get("severity").and_then(Value::as_str).unwrap_or("error")),
            message: text_of(entry, "message")?,
            fix: entry.get("fix").and_then(|fix| text_of(fix, "message")),
        })
    };
    Some(list.iter().filter_map(one).collect())
}

/// `mypy --output=json`: a line of JSON each. Some versions say in plain words that a file cannot be parsed.
pub(super) fn of_mypy(text: &str) -> Vec<Complaint> {
    text.lines().filter_map(|line| mypy_json(line).or_else(|| mypy_plain(line))).collect()
}

fn mypy_json(line: &str) -> Option<Complaint> {
    let entry: Value = serde_json::from_str(line).ok()?;
    Some(Complaint {
        file: text_of(&entry, "file")?,
        line: entry.get("line").and_then(Value::as_u64),
        // It counts columns from 0.
        column: entry.get("column").and_then(Value::as_u64).map(|column| column + 1),
        code: text_of(&entry, "code"),
        severity: severity(entry.get("severity").and_then(Value::as_str).unwrap_or("error")),
        message: text_of(&entry, "message")?,
        fix: text_of(&entry, "hint"),
    })
}

/// `FILE:LINE[:COLUMN]: error: MESSAGE  [CODE]`
fn mypy_plain(line: &str) -> Option<Complaint> {
    let (place, rest) = line.split_once(": error: ")?;
    let mut parts = place.split(':');
    let file = parts.next().filter(|file| !file.is_empty())?.to_owned();
    let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok());
    let (line, column) = (number()?, number());
    let (message, code) = match rest.rsplit_once("  [") {
        Some((message, code)) => (message, Some(code.trim_end_matches(']').to_owned())),
        None => (rest, None),
    };
    Some(Complaint {
        file,
        line: Some(line),
        column,
        code,
        severity: "error",
        message: message.to_owned(),
        fix: None,
    })
}

/// `cargo clippy --message-format=json`: a line of JSON each, of which only the compiler's messages about a place count.
pub(super) fn of_clippy(text: &str) -> Vec<Complaint> {
    let mut found: Vec<Complaint> = Vec::new();
    for complaint in text.lines().filter_map(clippy_line) {
        // Each target of a crate says the same again.
        if !found.contains(&complaint) {
            found.push(complaint);
        }
    }
    found
}

fn clippy_line(line: &str) -> Option<Complaint> {
    let entry: Value = serde_json::from_str(line).ok()?;
    let message = entry.get("message").filter(|_| is(&entry, "reason", "compiler-message"))?;
    let spans = message.get("spans")?.as_array()?;
    let span = spans.iter().find(|span| span.get("is_primary").and_then(Value::as_bool) == Some(true))?;
    let children = message.get("children").and_then(Value::as_array).into_iter().flatten();
    let fix = children.filter(|child| is(child, "level", "help")).find_map(clippy_help);
    Some(Complaint {
        file: text_of(span, "file_name")?,
        line: span.get("line_start").and_then(Value::as_u64),
        column: span.get("column_start").and_then(Value::as_u64),
        code: message.get("code").and_then(|code| text_of(code, "code")),
        severity: severity(message.get("level").and_then(Value::as_str).unwrap_or("error")),
        message: text_of(message, "message")?,
        fix,
    })
}

/// What help says is to be done, with the text it would put there. Where to read more is no help.
fn clippy_help(child: &Value) -> Option<String> {
    let message = text_of(child, "message").filter(|text| !text.starts_with("for further information"))?;
    let spans = child.get("spans").and_then(Value::as_array).into_iter().flatten();
    let mut texts = spans.filter_map(|span| text_of(span, "suggested_replacement"));
    match (texts.next(), texts.next()) {
        (Some(only), None) => Some(format!("{message}: `{only}`")),
        _ => Some(message),
    }
}

fn text_of(entry: &Value, key: &str) -> Option<String> {
    entry.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn is(entry: &Value, key: &str, word: &str) -> bool {
    entry.get(key).and_then(Value::as_str) == Some(word)
}

fn severity(word: &str) -> &'static str {
    match word {
        "warning" => "warning",
        "note" | "help" | "info" => "note",
        _ => "error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(found: &[Complaint]) -> Vec<String> {
        let number = |number: Option<u64>| number.map_or("?".to_owned(), |number| number.to_string());
        let one = |c: &Complaint| {
            let (line, column, code) = (number(c.line), number(c.column), c.code.as_deref().unwrap_or("?"));
            format!(
                "{}:{line}:{column} {} {code} {} [{}]",
                c.file,
                c.severity,
                c.message,
                c.fix.as_deref().unwrap_or("")
            )
        };
        found.iter().map(one).collect()
    }

    #[test]
    fn three_linters_speak_one_language() {
        let ruff = r#"[{"cell":null,"code":"F401","end_location":{"column":10,"row":1},"filename":"/w/p/src/a.py","fix":{"applicability":"safe","edits":[],"message":"Remove unused import: `os`"},"location":{"column":8,"row":1},"message":"`os` imported but unused","noqa_row":1,"severity":"error","url":"https://docs.astral.sh/ruff/rules/unused-import"}]"#;
        let found = of_ruff(Path::new("/w/p"), ruff).unwrap();
        assert_eq!(
            told(&found),
            ["src/a.py:1:8 error F401 `os` imported but unused [Remove unused import: `os`]"]
        );
        assert_eq!(of_ruff(Path::new("/w"), "ruff failed"), None);
        let mypy = "{\"file\": \"ok.py\", \"line\": 2, \"column\": 9, \"message\": \"Incompatible types\", \"hint\": null, \"code\": \"assignment\", \"severity\": \"error\"}\n\
                    bad.py:3: error: Invalid syntax  [syntax]\nbad.py:4:7: error: Expected\nFound 2 errors in 1 file (checked 1 source file)\n";
        assert_eq!(
            told(&of_mypy(mypy)),
            [
                "ok.py:2:10 error assignment Incompatible types []",
                "bad.py:3:? error syntax Invalid syntax []",
                "bad.py:4:7 error ? Expected []",
            ]
        );
        let clippy = r#"{"reason":"compiler-artifact","target":{}}
{"reason":"compiler-message","message":{"code":{"code":"clippy::needless_return"},"level":"warning","message":"unneeded `return` statement","spans":[{"file_name":"src/lib.rs","is_primary":true,"line_start":3,"column_start":5}],"children":[{"level":"note","message":"on by default"},{"level":"help","message":"for further information visit https://rust-lang.github.io/"},{"level":"help","message":"remove `return`","spans":[{"suggested_replacement":"x"}]}]}}
{"reason":"compiler-message","message":{"code":null,"level":"warning","message":"1 warning emitted","spans":[],"children":[]}}
{"reason":"build-finished","success":true}"#;
        let twice = format!("{clippy}\n{clippy}");
        assert_eq!(
            told(&of_clippy(&twice)),
            [
                "src/lib.rs:3:5 warning clippy::needless_return unneeded `return` statement [remove `return`: `x`]"
            ]
        );
    }
}
