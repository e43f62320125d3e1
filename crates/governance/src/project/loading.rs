//! Loads the policies of projects into the policy of the home, from their files or from accepted texts.

use std::path::Path;

use strict_yaml::{Document, DocumentError};

use super::{PROJECT_POLICY, ProjectRules};
use crate::policy::Policy;
use crate::policy_environment::PolicyEnvironment;
use crate::problems::PolicyError;
use crate::situation::Workspaces;

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
        let (mut projects, mut errors) = (Vec::new(), Vec::new());
        for root in workspaces.iter().map(|workspace| workspace.root()) {
            let found = read(root).map_err(|error| PolicyError::new(vec![error]));
            let compile = |document: Document| ProjectRules::compile(root, &document, environment);
            match found.and_then(|document| document.map(compile).transpose()) {
                Ok(project) => projects.extend(project),
                Err(error) => errors.extend_from_slice(error.problems()),
            }
        }
        match errors.is_empty() {
            true => Ok(self.with_project_rules(projects.into())),
            false => Err(PolicyError::new(errors)),
        }
    }

    /// Returns the roots of the projects with a policy, each with its text.
    pub fn project_policies(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.projects.iter().map(|project| (project.root(), project.document.text()))
    }
}
