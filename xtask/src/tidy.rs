//! `cargo xtask tidy`: project rules that neither rustc nor clippy checks. One file per rule; each check
//! takes the [`Tree`] and returns its findings, so that a test can show it fail on a few lines of text.

mod catalogue;
mod changelog;
mod decisions;
mod dependencies;
mod doc_comments;
mod edges;
mod exports;
mod file_heads;
mod forbidden_code;
mod leaks;
mod lib_files;
mod links;
mod lints;
mod names;
mod promises;
pub(crate) mod rust_source;
mod sizes;
mod tool_lists;
mod type_names;
mod words;

use anyhow::{Result, bail};

use crate::project::{self, Graph};
use crate::tree::{Root, Tree};
use crate::{docs, soak};

/// Severity of a finding; only an error fails the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Warning,
    Error,
}

/// One place where a rule is broken, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn error(path: &str, line: usize, message: impl Into<String>) -> Self {
        Finding { severity: Severity::Error, path: path.to_owned(), line, message: message.into() }
    }

    pub(crate) fn warning(path: &str, line: usize, message: impl Into<String>) -> Self {
        Finding { severity: Severity::Warning, ..Finding::error(path, line, message) }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{word}: {}:{}: {}", self.path, self.line, self.message)
    }
}

const CHECKS: &[fn(&Tree) -> Vec<Finding>] = &[
    catalogue::check,
    changelog::check,
    decisions::check,
    dependencies::check,
    doc_comments::check,
    exports::check,
    file_heads::check,
    forbidden_code::check,
    leaks::check,
    lib_files::check,
    links::check,
    lints::check,
    names::check,
    promises::check,
    sizes::check,
    soak::drift,
    tool_lists::check,
    type_names::check,
    words::check,
];

/// Runs all checks. Those of the sources report first, so that they do so even if the program does not build.
pub(crate) fn command(root: &Root) -> Result<()> {
    let tree = root.read_tree()?;
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    findings.extend(edges::check(&tree, &Graph::read(root)?));
    let mut errors = report(findings);

    let pages = docs::generate(root, &project::build_binary(root, project::Profile::Dev)?)?;
    errors += report(docs::drift(&pages, &tree));
    if errors > 0 {
        bail!("tidy found {errors} to fix");
    }
    println!("tidy: {} files are in order", tree.files().count());
    Ok(())
}

/// Prints the findings by file and line, and returns how many of them are errors.
fn report(mut findings: Vec<Finding>) -> usize {
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    for finding in &findings {
        println!("{finding}");
    }
    findings.iter().filter(|finding| finding.severity == Severity::Error).count()
}

/// Asserts the path, line and a part of the message of every finding. For tests of the checks.
#[cfg(test)]
pub(crate) fn assert_findings(findings: &[Finding], expect: &[(&str, usize, &str)]) {
    let shown: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(findings.len(), expect.len(), "{shown:#?}");
    for (finding, (path, line, part)) in findings.iter().zip(expect) {
        assert_eq!((finding.path.as_str(), finding.line), (*path, *line), "{shown:#?}");
        assert!(finding.message.contains(part), "`{part}` is not in: {}", finding.message);
    }
}
