//! Ready-made policies for projects and for the home. Each is shown as a table before it is written.

use std::path::Path;

use clap::ValueEnum;
use governance::files::PROJECT_POLICY;
use serde_json::Value;
use strict_yaml::{Document, YamlNode, YamlNodeKind};

use crate::exit::CommandError;
use crate::render;
use crate::table::Table;
use crate::terminal::{escape_invisible_line, print_message};

/// Purpose of a project, with the policy that fits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProjectPreset {
    /// Write code; ask before files are deleted; no tool changes the CI configuration, and programs do not see it.
    Coding,
    /// Read only.
    Review,
    /// Read and fetch, write notes, run no command.
    Research,
    /// Write only below docs/.
    Docs,
}

impl ProjectPreset {
    fn text(self) -> &'static str {
        match self {
            ProjectPreset::Coding => CODING,
            ProjectPreset::Review => REVIEW,
            ProjectPreset::Research => RESEARCH,
            ProjectPreset::Docs => DOCS,
        }
    }

    /// Shows the policy of the home as a table, and returns its text for `tools.yaml`.
    pub(crate) fn show_home_policy(self) -> Result<&'static str, CommandError> {
        let text = match self {
            ProjectPreset::Coding => HOME_CODING,
            ProjectPreset::Review => HOME_REVIEW,
            ProjectPreset::Research => HOME_RESEARCH,
            ProjectPreset::Docs => HOME_DOCS,
        };
        show("tools.yaml", text).map(|()| text)
    }

    /// Shows the policy as a table and writes it to a project that has none.
    pub(crate) fn write(self, project: &Path) -> Result<(), CommandError> {
        let file = project.join(PROJECT_POLICY);
        if std::fs::symlink_metadata(&file).is_ok() {
            let problem = CommandError::usage(format!("`{}` exists already", file.display()));
            return Err(problem.with_hint("edit it, or move it away first"));
        }
        show(PROJECT_POLICY, self.text())?;
        strict_yaml::replace_private_file(&file, self.text().as_bytes()).map_err(|error| {
            CommandError::configuration(format!("{} cannot be written: {error}", file.display()))
        })?;
        let shown = file.to_string_lossy().into_owned();
        print_message(format!("wrote {}: it can only tighten your policy", escape_invisible_line(&shown)));
        Ok(())
    }
}

/// Prints a policy as a table.
fn show(name: &str, text: &str) -> Result<(), CommandError> {
    let document = Document::from_text(name, text).map_err(CommandError::failed)?;
    let mut table = Table::default();
    table.set_header(["TOOL", "RULE", "VALUE"]);
    for row in rows(&document.tree().map_err(CommandError::failed)?, "") {
        table.add_row(row);
    }
    render::print_table(&table)
}

/// Returns one row for each rule: the tool, the key and its value.
fn rows(node: &YamlNode, tool: &str) -> Vec<[String; 3]> {
    let row = |(key, value): &(strict_yaml::Located<String>, YamlNode)| match (&value.kind, tool) {
        (YamlNodeKind::Mapping(_), _) if matches!(key.value.as_str(), "tools" | "tool_categories") => {
            rows(value, "")
        }
        (YamlNodeKind::Mapping(_), "") => rows(value, &key.value),
        _ => {
            let tool = if tool.is_empty() { "every tool" } else { tool };
            vec![[tool.to_owned(), key.value.clone(), flow_text(&value.to_json())]]
        }
    };
    node.entries().iter().flat_map(row).collect()
}

/// Returns a value as a file would state it in one line, without quotes.
fn flow_text(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(flow_text).collect::<Vec<_>>().join(", ")),
        Value::Object(entries) => {
            let entry = |(key, value): (&String, &Value)| format!("{key}: {}", flow_text(value));
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

const CODING: &str = "\
# Policy of this project: write code. It can only tighten your own policy. See docs/policy.md.
forbidden_paths: [\"**/.env\", \"**/.env.*\"]
tools:
  write_file: {forbidden_paths: [.github/**, .gitlab-ci.yml]}
  edit_file: {forbidden_paths: [.github/**, .gitlab-ci.yml]}
  create_directory: {forbidden_paths: [.github/**, .gitlab-ci.yml]}
  delete_file: {requires_approval: true, forbidden_paths: [.github/**, .gitlab-ci.yml]}
  run_command: {forbidden_paths: [.github/**, .gitlab-ci.yml]}
  run_tests: {forbidden_paths: [.github/**, .gitlab-ci.yml]}
";

const REVIEW: &str = "\
# Policy of this project: read only. It can only tighten your own policy. See docs/policy.md.
forbidden_paths: [\"**/.env\", \"**/.env.*\"]
tools:
  write_file: {allowed_paths: []}
";

const RESEARCH: &str = "\
# Policy of this project: read, fetch and take notes. It can only tighten your own policy. See docs/policy.md.
forbidden_paths: [\"**/.env\", \"**/.env.*\"]
tools:
  write_file: {allowed_paths: [notes/**]}
  run_command: {allowed_commands: []}
";

const DOCS: &str = "\
# Policy of this project: write documentation. It can only tighten your own policy. See docs/policy.md.
forbidden_paths: [\"**/.env\", \"**/.env.*\"]
tools:
  write_file: {allowed_paths: [docs/**]}
  delete_file: {requires_approval: true}
";

const HOME_CODING: &str = "\
# yaml-language-server: $schema=schema/tools.json
# Your policy: write code in the workspaces. It tightens the built-in policy. See docs/policy.md.
path_sets:
  ci: [\"**/.github/**\", \"**/.gitlab-ci.yml\"]
tools:
  write_file: {forbidden_paths: {add: [\"@ci\"]}}
  edit_file: {forbidden_paths: {add: [\"@ci\"]}}
  create_directory: {forbidden_paths: {add: [\"@ci\"]}}
  delete_file: {requires_approval: true, forbidden_paths: {add: [\"@ci\"]}}
  run_command: {forbidden_paths: {add: [\"@ci\"]}}
  run_tests: {forbidden_paths: {add: [\"@ci\"]}}
";

const HOME_REVIEW: &str = "\
# yaml-language-server: $schema=schema/tools.json
# Your policy: read only. Every change and every program needs your approval. See docs/policy.md.
tool_categories:
  system_write: {requires_approval_in_modes: [NORMAL, ALERT, DEGRADED, RECOVERY]}
tools: {}
";

const HOME_RESEARCH: &str = "\
# yaml-language-server: $schema=schema/tools.json
# Your policy: read and fetch. Every change needs your approval, and run_command starts nothing. See docs/policy.md.
tool_categories:
  system_write: {requires_approval_in_modes: [NORMAL, ALERT, DEGRADED, RECOVERY]}
tools:
  run_command: {allowed_commands: []}
";

const HOME_DOCS: &str = "\
# yaml-language-server: $schema=schema/tools.json
# Your policy: write documentation. run_command starts nothing, and deleting needs your approval. See docs/policy.md.
tools:
  run_command: {allowed_commands: []}
  delete_file: {requires_approval: true}
";
