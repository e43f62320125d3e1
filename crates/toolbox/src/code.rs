//! Tools that run programs, each in its own sandbox.

mod git;
mod git_diff;
mod git_log;
mod git_status;
mod junit;
mod lint_findings;
pub(crate) mod output_encoding;
mod quarantine;
mod read_output;
mod run_command;
mod run_linter;
mod run_tests;
mod script_failures;
mod test_results;
mod toolchain;

use std::path::{Path, PathBuf};

use file_access::ObjectKind;
use governance::Permit;
use sandbox::Sandbox;
use serde_json::json;
use tool::{Failure, FailureKind};

use crate::tool_registration::ToolRegistration;

/// Returns the tools of this area.
pub(crate) fn tools(sandbox: &Sandbox) -> Vec<ToolRegistration> {
    vec![
        run_command::tool(sandbox),
        git_status::tool(sandbox),
        git_diff::tool(sandbox),
        git_log::tool(sandbox),
        read_output::tool(),
        run_linter::tool(sandbox),
        run_tests::tool(sandbox),
    ]
}

/// Returns the directory of the `path` argument.
fn path_directory(permit: &Permit) -> Result<PathBuf, Failure> {
    let missing = || Failure::new(FailureKind::Crashed, "the permit has no opened `path`");
    let opened = permit.path("path").ok_or_else(missing)?;
    if opened.kind() != ObjectKind::Directory {
        // Listing an object that is not a directory fails with the same message as in the other tools.
        opened.list(1)?;
    }
    Ok(opened.canonical().to_owned())
}

/// Returns the innermost granted directory that contains a directory.
fn granted_root<'a>(permit: &'a Permit, folder: &'a Path) -> &'a Path {
    let roots = permit.sandbox_folders().iter().map(|granted| granted.root());
    let root = roots.filter(|root| folder.starts_with(root)).max_by_key(|root| root.components().count());
    root.unwrap_or(folder)
}

/// Adds an `outcome` code to the output of a failure, so that programs can distinguish failures.
fn with_outcome(failure: Failure, word: &str) -> Failure {
    Failure { output: Some(json!({"outcome": word})), ..failure }
}
