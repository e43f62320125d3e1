//! Checks of functions: valid syntax, a function to call, and no use of modules or files.

use strict_yaml::{Document, YamlNode};

use super::{RuleInput, functions};
use crate::diagnostic::DiagnosticCode;
use crate::diagnostic_collector::{DiagnosticCollector, FieldPosition};
use crate::{forbidden_calls, missing_export};

pub(super) fn check(subject: &RuleInput<'_>, findings: &mut DiagnosticCollector<'_>) {
    for kind in ["helpers", "processors", "validators"] {
        for (index, entry) in functions(subject.tool, kind) {
            let Some(function) = entry.get("function") else { continue };
            let Some(text) = function.text().filter(|text| !text.trim().is_empty()) else { continue };
            let id = entry.get("id").and_then(YamlNode::text).unwrap_or("?");
            let field = format!("tool.executable_knowledge.{kind}[{index}].function");
            let singular = kind.trim_end_matches('s');
            if let Some(reach) = forbidden_calls::find_forbidden_call(text) {
                let message =
                    format!("the {singular} `{id}` uses {}, which is not available", reach.capability);
                let at = position_in_file(subject.document, function, (reach.line, reach.column), &field);
                findings.add(
                    DiagnosticCode::InvalidFunctionSyntax,
                    at,
                    &message,
                    "a function is self-contained: remove it",
                );
            } else if let Some(reason) = missing_export::find_missing_export(text) {
                let message = format!("the {singular} `{id}` gives no function to call: {reason}");
                let at = FieldPosition::node(function, &field);
                let fix = "end it with `module.exports = { NAME };`, where NAME is its function";
                findings.add(DiagnosticCode::UnresolvedReference, at, &message, fix);
            } else if let Err(problem) = (subject.syntax)(text) {
                let message = format!("the {singular} `{id}` cannot be parsed: {}", problem.message);
                let inside = (problem.line.saturating_sub(1), problem.column.saturating_sub(1));
                let at = position_in_file(subject.document, function, inside, &field);
                findings.add(
                    DiagnosticCode::InvalidFunctionSyntax,
                    at,
                    &message,
                    "it must be plain JavaScript (ES2023)",
                );
            }
        }
    }
}

/// Converts a position in a function to one in the file. Only a block scalar keeps the text unchanged; a
/// quoted function is reported at its start.
fn position_in_file<'f>(
    document: &Document,
    function: &YamlNode,
    inside: (usize, usize),
    field: &'f str,
) -> FieldPosition<'f> {
    let at = FieldPosition::node(function, field);
    let index = usize::try_from(function.line.saturating_sub(1)).unwrap_or(usize::MAX);
    let indent = usize::try_from(function.column.saturating_sub(1)).unwrap_or(0);
    let stands = document.text().lines().nth(index).map(|line| line.chars().skip(indent).collect::<String>());
    let first = function.text().and_then(|text| text.lines().next());
    match stands.as_deref() == first {
        true => FieldPosition { line: at.line + inside.0 as u64, column: at.column + inside.1 as u64, ..at },
        false => at,
    }
}
