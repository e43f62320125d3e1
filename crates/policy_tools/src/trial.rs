//! Policy tests: a file of calls with expected verdicts, run by `sinew policy test`.

use std::path::Path;
use std::sync::Arc;

use governance::dry_run::dry_run_workspaces;
use governance::files::VerdictKind;
use governance::policy_environment::PathVariables;
use governance::rules::expand_variables;
use governance::{Policy, PolicyError, Workspace, WorkspaceAccess, Workspaces};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use strict_yaml::{Document, DocumentError, Located};
use tool::text::nearest_word;
use tool::{Arguments, Mode, RefusalCode, ToolDefinition};

/// File of policy tests.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "policy tests")]
pub struct PolicyTestsFile {
    /// Workspaces of the calls, which need not exist. Relative paths start in the first; without any there is
    /// one default workspace.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub workspaces: Vec<Located<String>>,
    /// Test cases.
    pub cases: Vec<Located<PolicyTestCase>>,
}

/// One test case.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyTestCase {
    /// Tool name.
    pub tool: String,
    /// Arguments of the call.
    pub arguments: Arguments,
    /// Mode in which it is judged.
    pub mode: Mode,
    /// Expected verdict.
    pub expect: VerdictKind,
    /// Expected refusal code, if it matters.
    #[serde(default)]
    pub code: Option<RefusalCode>,
}

/// Parsed file of policy tests.
#[derive(Debug)]
pub struct PolicyTests {
    document: Document,
    file: PolicyTestsFile,
    workspaces: Workspaces,
    variables: PathVariables,
}

/// Result of one policy test.
#[derive(Clone, Debug)]
pub struct PolicyTestResult {
    /// Line of the test case in the file.
    pub line: u64,
    /// Call in one line.
    pub call: String,
    /// Expected verdict.
    pub expect: VerdictKind,
    /// Actual verdict and its reason.
    pub actual: String,
    /// True if the two agree.
    pub passed: bool,
}

impl PolicyTests {
    /// Reads and checks a file.
    pub fn read(path: &Path, variables: &PathVariables) -> Result<Self, PolicyError> {
        let alone = |error| PolicyError::new(vec![error]);
        let document = Document::read(path).map_err(alone)?;
        let file: PolicyTestsFile = document.parse().map_err(alone)?;
        let (mut list, mut errors) = (Vec::new(), Vec::new());
        for folder in &file.workspaces {
            match expand_variables(&Value::String(folder.value.clone()), variables) {
                Ok(Value::String(folder)) if folder.starts_with('/') => {
                    list.push(Workspace::hypothetical(&folder, WorkspaceAccess::ReadWrite));
                }
                Ok(_) => errors.push(error(&document, folder, "a workspace is an absolute path", None)),
                Err(bad) => errors.push(error(&document, folder, &bad.message, bad.suggestion)),
            }
        }
        if !errors.is_empty() {
            return Err(PolicyError::new(errors));
        }
        let workspaces = if list.is_empty() { dry_run_workspaces() } else { Workspaces::new(list) };
        Ok(PolicyTests { document, file, workspaces, variables: variables.clone() })
    }

    /// Runs every test case. Fails if a case names an unknown tool or is not a valid call.
    pub fn run(
        &self,
        policy: &Policy,
        tools: &[Arc<ToolDefinition>],
    ) -> Result<Vec<PolicyTestResult>, PolicyError> {
        let (mut tried, mut errors) = (Vec::new(), Vec::new());
        for entry in &self.file.cases {
            match self.run_case(entry, policy, tools) {
                Ok(one) => tried.push(one),
                Err((message, suggestion)) => {
                    errors.push(error(&self.document, entry, &message, suggestion));
                }
            }
        }
        if errors.is_empty() { Ok(tried) } else { Err(PolicyError::new(errors)) }
    }

    fn run_case(
        &self,
        entry: &Located<PolicyTestCase>,
        policy: &Policy,
        tools: &[Arc<ToolDefinition>],
    ) -> Result<PolicyTestResult, (String, Option<String>)> {
        let Some(tool) = tools.iter().find(|tool| tool.name().as_str() == entry.tool) else {
            let near = nearest_word(&entry.tool, tools.iter().map(|tool| tool.name().as_str()));
            let suggestion = near.map(|near| format!("did you mean `{near}`?"));
            return Err((format!("no tool is called `{}`", entry.tool), suggestion));
        };
        let arguments = expand_variables(&Value::Object(entry.arguments.clone()), &self.variables);
        let arguments = match arguments.map_err(|bad| (bad.message, bad.suggestion))? {
            Value::Object(arguments) => arguments,
            _ => Arguments::new(),
        };
        let found = policy
            .dry_run_arguments(tool, &arguments, entry.mode, &self.workspaces)
            .map_err(|reason| (format!("this is not a valid call of `{}`: {reason}", entry.tool), None))?;
        let code = found.refusal.as_ref().map(|refusal| refusal.code);
        let holds = found.verdict == entry.expect && entry.code.is_none_or(|wanted| Some(wanted) == code);
        let call = format!("{} {} in {}", entry.tool, Value::Object(arguments), entry.mode);
        let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
        let found = format!("{}{code}", found.summary());
        Ok(PolicyTestResult { line: entry.line, call, expect: entry.expect, actual: found, passed: holds })
    }
}

fn error<T>(
    document: &Document,
    at: &Located<T>,
    message: &str,
    suggestion: Option<String>,
) -> DocumentError {
    DocumentError { suggestion, ..document.error_at(at.line, at.column, message) }
}
