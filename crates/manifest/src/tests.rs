//! Tests of whole manifests and their diagnostics.

mod core_fields;
mod knowledge;
mod many;
mod odd_shapes;
mod public_files;
mod required_keys;

use strict_yaml::Document;

use crate::diagnostic::DiagnosticCode;
use crate::{Diagnostic, DiagnosticSeverity, Manifest, SyntaxProblem, load};

/// Checks the syntax in place of the parser: only `%%` is an error.
fn syntax(text: &str) -> Result<(), SyntaxProblem> {
    let Some(at) = text.find("%%") else { return Ok(()) };
    let line = text[..at].matches('\n').count();
    let column = at - text[..at].rfind('\n').map_or(0, |end| end + 1);
    Err(SyntaxProblem { line: line + 1, column: column + 1, message: "unexpected token".into() })
}

fn read(text: &str) -> (Option<Manifest>, Vec<Diagnostic>) {
    load(&Document::from_text("t.yaml", text).unwrap(), &syntax)
}

/// Asserts that the manifest has exactly these diagnostics: code, line and field of each.
#[track_caller]
fn check(text: &str, expect: &[(DiagnosticCode, u64, &str)]) {
    let (manifest, found) = read(text);
    let reported: Vec<_> = found.iter().map(|one| (one.code, one.error.line, one.field.as_str())).collect();
    assert_eq!(reported, expect, "{text}\n{}", shown(&found));
    for one in &found {
        let is_hidden =
            ["tool.mcp_specific.key", "tool.mcp_specific.url"].iter().any(|at| one.field.starts_with(at));
        assert!(one.error.column >= 1 && (is_hidden || !one.error.excerpt.is_empty()), "{one}");
        assert!(one.error.suggestion.is_some(), "{one}");
    }
    let blocks = |one: &Diagnostic| {
        let informs = ["tool.api_complexity", "tool.anti_patterns", "tool.examples"]
            .iter()
            .any(|at| one.field.starts_with(at));
        one.severity() == DiagnosticSeverity::Error && (!informs || one.code == DiagnosticCode::InvalidValue)
    };
    assert_eq!(
        manifest.is_none(),
        found.iter().any(blocks),
        "an error outside the sections that only inform, and nothing else, keeps it from loading\n{}",
        shown(&found)
    );
}

fn shown(found: &[Diagnostic]) -> String {
    found.iter().map(|one| format!("{one}\n")).collect()
}

/// Returns a valid 2.0 manifest with `more` added below `tool`.
fn good(more: &str) -> String {
    format!(
        "tool:\n  schema_version: 2.0\n  id: task-board\n  type: mcp\n  name: Tasks\n  version: 1.0.0\n  \
         description: Tasks on a board\n{more}"
    )
}
