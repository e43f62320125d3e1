//! Parsers for linter output, with a common result type.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;

use schemars::JsonSchema;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::untrusted_text::{sanitize, sanitize_option};

/// Problem reported by a linter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub(super) struct LintFinding {
    /// File, relative to the project.
    pub(super) file: String,
    /// Line, from 1.
    pub(super) line: Option<u64>,
    /// Column, from 1.
    pub(super) column: Option<u64>,
    /// Rule code of the linter.
    pub(super) code: Option<String>,
    /// `error`, `warning` or `note`.
    pub(super) severity: &'static str,
    /// Description of the problem.
    pub(super) message: String,
    /// Fix suggested by the linter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
}

impl LintFinding {
    /// Sanitizes the texts, which may quote the code of the project. The file keeps its name.
    pub(super) fn sanitized(self) -> LintFinding {
        LintFinding {
            code: sanitize_option(self.code),
            message: sanitize(&self.message),
            fix: sanitize_option(self.fix),
            ..self
        }
    }
}

/// Entry of ruff's output. Other fields are skipped and not stored, because the project controls their size.
#[derive(Deserialize)]
struct RuffEntry {
    filename: String,
    location: Option<RuffLocation>,
    code: Option<String>,
    severity: Option<String>,
    message: String,
    fix: Option<RuffFix>,
}

#[derive(Deserialize)]
struct RuffLocation {
    row: Option<u64>,
    column: Option<u64>,
}

#[derive(Deserialize)]
struct RuffFix {
    message: Option<String>,
}

/// Parses `ruff check --output-format=json`: one array, or nothing if ruff failed before it. If the output
/// was cut, returns the entries before the cut.
pub(super) fn parse_ruff(folder: &Path, text: &str, is_cut: bool) -> Option<Vec<LintFinding>> {
    let mut list = RuffVisitor { folder, findings: Vec::new() };
    let mut reader = serde_json::Deserializer::from_str(text);
    match reader.deserialize_seq(&mut list).and_then(|()| reader.end()) {
        Ok(()) => Some(list.findings),
        Err(error) => (is_cut && error.is_eof() && !list.findings.is_empty()).then_some(list.findings),
    }
}

/// Visitor that converts one entry at a time, so that the parsed list is not held twice.
struct RuffVisitor<'f> {
    folder: &'f Path,
    findings: Vec<LintFinding>,
}

impl<'de> Visitor<'de> for &mut RuffVisitor<'_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a list of linter findings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(entry) = list.next_element::<RuffEntry>()? {
            let file = Path::new(&entry.filename);
            let file = file.strip_prefix(self.folder).unwrap_or(file);
            let location = entry.location.as_ref();
            self.findings.push(LintFinding {
                file: file.to_string_lossy().into_owned(),
                line: location.and_then(|location| location.row),
                column: location.and_then(|location| location.column),
                code: entry.code.and_then(non_empty),
                severity: severity(entry.severity.as_deref()),
                message: entry.message,
                fix: entry.fix.and_then(|fix| fix.message).and_then(non_empty),
            });
        }
        Ok(())
    }
}

/// Parses `mypy --output=json`: one JSON object per line. Some versions report syntax errors as plain text.
pub(super) fn parse_mypy(text: &str) -> Vec<LintFinding> {
    text.lines().filter_map(|line| parse_mypy_json(line).or_else(|| parse_mypy_text(line))).collect()
}

#[derive(Deserialize)]
struct MypyEntry {
    file: String,
    /// Line; -1 for problems without a line.
    line: Option<i64>,
    column: Option<i64>,
    code: Option<String>,
    severity: Option<String>,
    message: String,
    hint: Option<String>,
}

fn parse_mypy_json(line: &str) -> Option<LintFinding> {
    let entry: MypyEntry = serde_json::from_str(line).ok()?;
    Some(LintFinding {
        file: non_empty(entry.file)?,
        line: entry.line.and_then(|line| u64::try_from(line).ok()),
        // mypy counts columns from 0.
        column: entry.column.and_then(|column| u64::try_from(column).ok()).map(|column| column + 1),
        code: entry.code.and_then(non_empty),
        severity: severity(entry.severity.as_deref()),
        message: non_empty(entry.message)?,
        fix: entry.hint.and_then(non_empty),
    })
}

/// Parses `FILE:LINE[:COLUMN]: error: MESSAGE  [CODE]`.
fn parse_mypy_text(line: &str) -> Option<LintFinding> {
    let (location, rest) = line.split_once(": error: ")?;
    let mut parts = location.split(':');
    let file = parts.next().filter(|file| !file.is_empty())?.to_owned();
    let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok());
    let (line, column) = (number()?, number());
    let (message, code) = match rest.rsplit_once("  [") {
        Some((message, code)) => (message, Some(code.trim_end_matches(']').to_owned())),
        None => (rest, None),
    };
    Some(LintFinding {
        file,
        line: Some(line),
        column,
        code,
        severity: "error",
        message: message.to_owned(),
        fix: None,
    })
}

#[derive(Deserialize)]
struct CargoMessage {
    reason: String,
    message: Option<CompilerMessage>,
}

#[derive(Deserialize)]
struct CompilerMessage {
    code: Option<LintCode>,
    level: Option<String>,
    message: String,
    #[serde(default)]
    spans: Vec<CompilerSpan>,
    #[serde(default)]
    children: Vec<CompilerNote>,
}

#[derive(Deserialize)]
struct LintCode {
    code: Option<String>,
}

#[derive(Deserialize)]
struct CompilerSpan {
    file_name: String,
    #[serde(default)]
    is_primary: bool,
    line_start: Option<u64>,
    column_start: Option<u64>,
}

#[derive(Deserialize)]
struct CompilerNote {
    level: String,
    message: String,
    #[serde(default)]
    spans: Vec<SuggestedReplacement>,
}

#[derive(Deserialize)]
struct SuggestedReplacement {
    suggested_replacement: Option<String>,
}

/// Parses `cargo clippy --message-format=json`: one JSON object per line. Only compiler messages with a
/// location count.
pub(super) fn parse_clippy(text: &str) -> Vec<LintFinding> {
    // Clippy repeats a message for each target of a crate.
    let mut seen: HashSet<LintFinding> = HashSet::new();
    text.lines().filter_map(parse_clippy_line).filter(|complaint| seen.insert(complaint.clone())).collect()
}

fn parse_clippy_line(line: &str) -> Option<LintFinding> {
    let entry: CargoMessage = serde_json::from_str(line).ok()?;
    let message = entry.message.filter(|_| entry.reason == "compiler-message")?;
    let span = message.spans.into_iter().find(|span| span.is_primary)?;
    let fix = message.children.into_iter().filter(|child| child.level == "help").find_map(help_text);
    Some(LintFinding {
        file: non_empty(span.file_name)?,
        line: span.line_start,
        column: span.column_start,
        code: message.code.and_then(|lint| lint.code).and_then(non_empty),
        severity: severity(message.level.as_deref()),
        message: non_empty(message.message)?,
        fix,
    })
}

/// Returns the help text with its suggested replacement. Links to further information are not a fix.
fn help_text(child: CompilerNote) -> Option<String> {
    let message = non_empty(child.message).filter(|text| !text.starts_with("for further information"))?;
    let mut texts = child.spans.into_iter().filter_map(|span| span.suggested_replacement.and_then(non_empty));
    match (texts.next(), texts.next()) {
        (Some(only), None) => Some(format!("{message}: `{only}`")),
        _ => Some(message),
    }
}

/// Returns nothing for an empty text.
fn non_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn severity(word: Option<&str>) -> &'static str {
    match word {
        Some("warning") => "warning",
        Some("note" | "help" | "info") => "note",
        _ => "error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format_findings(found: &[LintFinding]) -> Vec<String> {
        let number = |number: Option<u64>| number.map_or("?".to_owned(), |number| number.to_string());
        let one = |c: &LintFinding| {
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
    fn all_linters_are_parsed_into_one_format() {
        let ruff = r#"[{"cell":null,"code":"F401","end_location":{"column":10,"row":1},"filename":"/w/p/src/a.py","fix":{"applicability":"safe","edits":[],"message":"Remove unused import: `os`"},"location":{"column":8,"row":1},"message":"`os` imported but unused","noqa_row":1,"severity":"error","url":"https://docs.astral.sh/ruff/rules/unused-import"}]"#;
        let found = parse_ruff(Path::new("/w/p"), ruff, false).unwrap();
        assert_eq!(
            format_findings(&found),
            ["src/a.py:1:8 error F401 `os` imported but unused [Remove unused import: `os`]"]
        );
        assert_eq!(parse_ruff(Path::new("/w"), "ruff failed", false), None);
        let mypy = "{\"file\": \"ok.py\", \"line\": 2, \"column\": 9, \"message\": \"Incompatible types\", \"hint\": null, \"code\": \"assignment\", \"severity\": \"error\"}\n\
                    bad.py:3: error: Invalid syntax  [syntax]\nbad.py:4:7: error: Expected\nFound 2 errors in 1 file (checked 1 source file)\n";
        assert_eq!(
            format_findings(&parse_mypy(mypy)),
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
            format_findings(&parse_clippy(&twice)),
            [
                "src/lib.rs:3:5 warning clippy::needless_return unneeded `return` statement [remove `return`: `x`]"
            ]
        );
    }

    #[test]
    fn entries_before_a_cut_are_kept() {
        let one = r#"{"filename":"/w/a.py","message":"m","location":{"row":1,"column":2}}"#;
        let check = |text: &str, is_cut: bool, expect: Option<usize>| {
            let found = parse_ruff(Path::new("/w"), text, is_cut).map(|found| found.len());
            assert_eq!(found, expect, "{text} {is_cut}");
        };
        check(&format!("[{one},{one}]"), false, Some(2));
        check(&format!("[{one},{one},{{\"filen"), true, Some(2));
        check(&format!("[{one},{one},{{\"filen"), false, None);
        check("[{\"filen", true, None);
        check(&format!("[{one},nonsense"), true, None);
        check(&format!("[{one}] and more"), true, None);
    }

    /// A linear search for duplicates took minutes on this input.
    #[test]
    fn many_findings_are_parsed_in_linear_time() {
        const TIMES: usize = 20_000;
        let one = |number: usize| {
            let span = r#"{"file_name":"a.rs","is_primary":true}"#;
            format!(
                "{{\"reason\":\"compiler-message\",\"message\":{{\"message\":\"m{number}\",\"spans\":[{span}]}}}}\n"
            )
        };
        let text: String = (0..TIMES).map(one).collect();
        assert_eq!(parse_clippy(&text).len(), TIMES);
    }

    #[test]
    fn finding_without_a_line_has_none() {
        let line = r#"{"file": "a.py", "line": -1, "column": -1, "message": "m", "hint": null, "code": null, "severity": "note"}"#;
        assert_eq!(format_findings(&parse_mypy(line)), ["a.py:?:? note ? m []"]);
    }
}
