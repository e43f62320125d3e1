//! Policy tests: a file of calls with expected verdicts, run by `sinew policy test`.

use std::path::Path;
use std::sync::Arc;

use governance::files::Expectation;
use governance::rules::expanded;
use governance::{
    Policy, PolicyError, Variables, Workspace, WorkspaceAccess, Workspaces, rehearsed_workspaces,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use strict_yaml::{Document, DocumentError, Located};
use tool::{Arguments, Mode, RefusalCode, ToolDefinition, nearest};

/// File of policy tests.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "policy tests")]
pub struct TrialsFile {
    /// Workspaces of the calls, which need not exist. Relative paths start in the first; without any there is
    /// one default workspace.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub workspaces: Vec<Located<String>>,
    /// Test cases.
    pub cases: Vec<Located<TrialEntry>>,
}

/// One test case.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialEntry {
    /// Tool name.
    pub tool: String,
    /// Arguments of the call.
    pub arguments: Arguments,
    /// Mode in which it is judged.
    pub mode: Mode,
    /// Expected verdict.
    pub expect: Expectation,
    /// Expected refusal code, if it matters.
    #[serde(default)]
    pub code: Option<RefusalCode>,
}

/// Parsed file of policy tests.
#[derive(Debug)]
pub struct Trials {
    document: Document,
    file: TrialsFile,
    workspaces: Workspaces,
    variables: Variables,
}

/// Result of one policy test.
#[derive(Clone, Debug)]
pub struct Tried {
    /// Line of the test case in the file.
    pub line: u64,
    /// Call in one line.
    pub call: String,
    /// Expected verdict.
    pub expect: Expectation,
    /// Actual verdict and its reason.
    pub found: String,
    /// True if the two agree.
    pub holds: bool,
}

impl Trials {
    /// Reads and checks a file.
    pub fn read(path: &Path, variables: &Variables) -> Result<Self, PolicyError> {
        let alone = |error| PolicyError::new(vec![error]);
        let document = Document::read(path).map_err(alone)?;
        let file: TrialsFile = document.parse().map_err(alone)?;
        let (mut list, mut errors) = (Vec::new(), Vec::new());
        for folder in &file.workspaces {
            match expanded(&Value::String(folder.value.clone()), variables) {
                Ok(Value::String(folder)) if folder.starts_with('/') => {
                    list.push(Workspace::supposed(&folder, WorkspaceAccess::ReadWrite));
                }
                Ok(_) => errors.push(error(&document, folder, "a workspace is an absolute path", None)),
                Err(bad) => errors.push(error(&document, folder, &bad.message, bad.suggestion)),
            }
        }
        if !errors.is_empty() {
            return Err(PolicyError::new(errors));
        }
        let workspaces = if list.is_empty() { rehearsed_workspaces() } else { Workspaces::new(list) };
        Ok(Trials { document, file, workspaces, variables: variables.clone() })
    }

    /// Runs every test case. Fails if a case names an unknown tool or is not a valid call.
    pub fn run(&self, policy: &Policy, tools: &[Arc<ToolDefinition>]) -> Result<Vec<Tried>, PolicyError> {
        let (mut tried, mut errors) = (Vec::new(), Vec::new());
        for entry in &self.file.cases {
            match self.try_one(entry, policy, tools) {
                Ok(one) => tried.push(one),
                Err((message, suggestion)) => {
                    errors.push(error(&self.document, entry, &message, suggestion));
                }
            }
        }
        if errors.is_empty() { Ok(tried) } else { Err(PolicyError::new(errors)) }
    }

    fn try_one(
        &self,
        entry: &Located<TrialEntry>,
        policy: &Policy,
        tools: &[Arc<ToolDefinition>],
    ) -> Result<Tried, (String, Option<String>)> {
        let Some(tool) = tools.iter().find(|tool| tool.name().as_str() == entry.tool) else {
            let near = nearest(&entry.tool, tools.iter().map(|tool| tool.name().as_str()));
            let suggestion = near.map(|near| format!("did you mean `{near}`?"));
            return Err((format!("no tool is called `{}`", entry.tool), suggestion));
        };
        let arguments = expanded(&Value::Object(entry.arguments.clone()), &self.variables);
        let arguments = match arguments.map_err(|bad| (bad.message, bad.suggestion))? {
            Value::Object(arguments) => arguments,
            _ => Arguments::new(),
        };
        let found = policy
            .try_out(tool, &arguments, entry.mode, &self.workspaces)
            .map_err(|reason| (format!("this is not a valid call of `{}`: {reason}", entry.tool), None))?;
        let code = found.refusal.as_ref().map(|refusal| refusal.code);
        let holds = found.verdict == entry.expect && entry.code.is_none_or(|wanted| Some(wanted) == code);
        let call = format!("{} {} in {}", entry.tool, Value::Object(arguments), entry.mode);
        let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
        let found = format!("{}{code}", found.summary());
        Ok(Tried { line: entry.line, call, expect: entry.expect, found, holds })
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
