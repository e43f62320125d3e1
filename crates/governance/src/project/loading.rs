//! Loads the policies of projects into the policy of the home, from their files or from accepted texts.

use std::path::Path;
use std::sync::Arc;

use strict_yaml::{Document, DocumentError};
use tool::{RefusalCode, RuleRef, ToolDefinition};

use super::{PROJECT_POLICY, ProjectRules};
use crate::denial_reason::{DenialReason, display_text, rule_location};
use crate::policy::Policy;
use crate::policy_environment::PolicyEnvironment;
use crate::problems::PolicyError;
use crate::situation::Workspaces;

/// Text in place of a file that cannot be read. It is stored with the accepted configuration, and does not load either.
const UNREADABLE_TEXT: &str = "unreadable: true\n";

/// Treatment of names in a project policy that are not those of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownToolNames {
    /// They are errors.
    Refuse,
    /// They are accepted, because not every tool is known here.
    Accept,
}

impl Policy {
    /// Returns these rules with the policies of the projects at the roots of these workspaces, read from their files.
    pub fn with_projects(
        self,
        workspaces: &Workspaces,
        environment: &PolicyEnvironment,
    ) -> Result<Policy, PolicyError> {
        self.with_project_documents(workspaces, environment, |root| {
            Document::read_trusted_if_present(&root.join(PROJECT_POLICY))
        })
    }

    /// Like `with_projects`, with texts that were accepted earlier, by the root of their project.
    pub fn with_project_texts<'t>(
        self,
        workspaces: &Workspaces,
        environment: &PolicyEnvironment,
        text_of: impl Fn(&Path) -> Option<&'t str>,
    ) -> Result<Policy, PolicyError> {
        self.with_project_documents(workspaces, environment, |root| {
            let name = root.join(PROJECT_POLICY).display().to_string();
            text_of(root).map(|text| Document::from_text(&name, text)).transpose()
        })
    }

    fn with_project_documents(
        self,
        workspaces: &Workspaces,
        environment: &PolicyEnvironment,
        read: impl Fn(&Path) -> Result<Option<Document>, DocumentError>,
    ) -> Result<Policy, PolicyError> {
        let mut projects = Vec::new();
        for root in workspaces.iter().map(|workspace| workspace.root()) {
            let project = match read(root) {
                Ok(None) => continue,
                Ok(Some(document)) => ProjectRules::compile(root, &document, environment)
                    .or_else(|error| ProjectRules::denied(root, document, error, environment))?,
                Err(error) => {
                    let name = root.join(PROJECT_POLICY).display().to_string();
                    let unread = Document::from_text(&name, UNREADABLE_TEXT).map_err(alone)?;
                    ProjectRules::denied(root, unread, alone(error), environment)?
                }
            };
            projects.push(project);
        }
        Ok(self.with_project_rules(projects.into()))
    }

    /// Runs the examples of the project policies, and denies each project with a wrong one as a whole. Relative paths in
    /// them start at the project.
    pub fn with_project_examples<'a>(
        self,
        definitions: impl IntoIterator<Item = &'a ToolDefinition>,
        names: UnknownToolNames,
        environment: &PolicyEnvironment,
    ) -> Result<Policy, PolicyError> {
        let definitions: Vec<&ToolDefinition> = definitions.into_iter().collect();
        let failures: Vec<Option<PolicyError>> = self
            .projects
            .iter()
            .map(|project| self.check_project_examples(project, &definitions, names).err())
            .collect();
        if failures.iter().all(Option::is_none) {
            return Ok(self);
        }
        let checked = self.projects.iter().zip(failures).map(|(project, failure)| match failure {
            Some(error) => ProjectRules::denied(&project.root, project.document.clone(), error, environment),
            None => Ok(project.clone()),
        });
        let projects = checked.collect::<Result<Vec<_>, PolicyError>>()?;
        let mut policy = self;
        policy.projects = projects.into();
        Ok(policy)
    }

    /// Returns the roots of the projects with a policy, each with its text.
    pub fn project_policies(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.projects.iter().map(|project| (project.root(), project.document.text()))
    }

    /// Returns the roots of the projects whose policy does not load, each with the error. Every call into them is
    /// denied.
    pub fn denied_projects(&self) -> impl Iterator<Item = (&Path, &PolicyError)> {
        self.projects.iter().filter_map(|project| Some((project.root(), project.load_error.as_deref()?)))
    }
}

fn alone(error: DocumentError) -> PolicyError {
    PolicyError::new(vec![error])
}

impl ProjectRules {
    /// Returns the rules of a project whose policy does not load: they deny every call into it. A repository can bring
    /// such a file, so it must stop nothing else.
    fn denied(
        root: &Path,
        document: Document,
        error: PolicyError,
        environment: &PolicyEnvironment,
    ) -> Result<Self, PolicyError> {
        let everything = Document::from_text(document.name(), "forbidden_paths: [.]\n").map_err(alone)?;
        let rules = Self::compile(root, &everything, environment)?;
        Ok(ProjectRules { document, load_error: Some(Arc::new(error)), ..rules })
    }

    /// Returns the denial of a call into a project whose policy does not load.
    pub(super) fn load_denial(&self) -> Option<DenialReason> {
        let problem = self.load_error.as_deref()?.problems().first()?;
        let file = self.document.name();
        let rule = RuleRef { file: file.into(), line: problem.line, id: "project policy".into() };
        let root = display_text(&self.root.to_string_lossy());
        let reason =
            format!("the policy of the project {root} does not load: {}", display_text(&problem.message));
        let hint = format!("{}: the operator corrects it and runs `sinew reload`", rule_location(&rule));
        Some(DenialReason::new(RefusalCode::PathForbidden, "project_policy", &reason, hint, &rule))
    }
}
