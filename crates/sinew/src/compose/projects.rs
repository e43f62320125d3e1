//! Policies of the projects in a snapshot: the accepted texts if the accepted configuration is loaded, else the files.

use execution::ManifestProblem;
use governance::rules::UnknownToolNames;
use governance::{Policy, Workspaces};
use registry::ToolRegistry;

use super::policy_environment;
use crate::accepted_projects::AcceptedProjects;
use crate::command_context::CommandContext;
use crate::exit::CommandError;
use crate::host_table::TableCheckLevel;

/// Code of a project policy that does not load, so that every call into the project is denied.
pub(crate) const PROJECT_DENIED: &str = "project_denied";

/// Adds the policies of the projects.
pub(super) fn with_projects(
    context: &CommandContext,
    policy: Policy,
    workspaces: &Workspaces,
) -> Result<Policy, CommandError> {
    let around = policy_environment(context);
    let accepted = context.home().config_copy().map(AcceptedProjects::read).transpose();
    let accepted = accepted.map_err(|error| {
        CommandError::configuration(format!("the accepted project policies cannot be read: {error}"))
    })?;
    let loaded = match accepted.flatten() {
        Some(texts) => policy.with_project_texts(workspaces, &around, |root| texts.text_of(root)),
        None => policy.with_projects(workspaces, &around),
    };
    loaded.map_err(CommandError::configuration)
}

/// Runs the examples of the project policies. A hook knows no tools of manifests.
pub(super) fn with_examples(
    context: &CommandContext,
    policy: Policy,
    registry: &ToolRegistry,
    scrutiny: TableCheckLevel,
) -> Result<Policy, CommandError> {
    let names = match scrutiny {
        TableCheckLevel::Full => UnknownToolNames::Refuse,
        TableCheckLevel::Lazy => UnknownToolNames::Accept,
    };
    let judged = registry.definitions().map(AsRef::as_ref);
    let checked = policy.with_project_examples(judged, names, &policy_environment(context));
    checked.map_err(CommandError::configuration)
}

/// Returns the errors of project policies that do not load.
pub(super) fn problems(policy: &Policy) -> impl Iterator<Item = ManifestProblem> {
    let errors = policy.denied_projects().flat_map(|(_, error)| error.problems());
    errors.map(|error| ManifestProblem {
        file: error.file.clone(),
        line: error.line,
        code: PROJECT_DENIED.to_owned(),
        message: error.message.clone(),
    })
}
