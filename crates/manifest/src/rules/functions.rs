//! Checks of functions: valid syntax, and no use of modules or files.

use strict_yaml::{Document, Node};

use super::{Subject, functions};
use crate::diagnostic::Code;
use crate::findings::{At, Findings};
use crate::script;

pub(super) fn check(subject: &Subject<'_>, findings: &mut Findings<'_>) {
    for kind in ["helpers", "processors", "validators"] {
        for (index, entry) in functions(subject.tool, kind) {
            let Some(function) = entry.get("function") else { continue };
            let Some(text) = function.text().filter(|text| !text.trim().is_empty()) else { continue };
            let id = entry.get("id").and_then(Node::text).unwrap_or("?");
            let field = format!("tool.executable_knowledge.{kind}[{index}].function");
            let singular = kind.trim_end_matches('s');
            if let Some(reach) = script::reaches(text) {
                let message = format!("the {singular} `{id}` uses {}, which is not available", reach.what);
                let at = place(subject.document, function, (reach.line, reach.column), &field);
                findings.add(
                    Code::InvalidFunctionSyntax,
                    at,
                    &message,
                    "a function is self-contained: remove it",
                );
            } else if let Err(problem) = (subject.syntax)(text) {
                let message = format!("the {singular} `{id}` cannot be parsed: {}", problem.message);
                let inside = (problem.line.saturating_sub(1), problem.column.saturating_sub(1));
                let at = place(subject.document, function, inside, &field);
                findings.add(
                    Code::InvalidFunctionSyntax,
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
fn place<'f>(document: &Document, function: &Node, inside: (usize, usize), field: &'f str) -> At<'f> {
    let at = At::node(function, field);
    let index = usize::try_from(function.line.saturating_sub(1)).unwrap_or(usize::MAX);
    let indent = usize::try_from(function.column.saturating_sub(1)).unwrap_or(0);
    let stands = document.text().lines().nth(index).map(|line| line.chars().skip(indent).collect::<String>());
    let first = function.text().and_then(|text| text.lines().next());
    match stands.as_deref() == first {
        true => At { line: at.line + inside.0 as u64, column: at.column + inside.1 as u64, ..at },
        false => at,
    }
}
