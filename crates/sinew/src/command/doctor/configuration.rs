//! The configuration, as `sinew check` and `sinew manifest check` see it, counted.

use super::row::Row;
use crate::command::check;
use crate::manifests;
use crate::setting::Setting;

pub(super) fn rows(setting: &Setting) -> Vec<Row> {
    [Some(policy(setting)), of_models(setting), Some(of_manifests(setting))].into_iter().flatten().collect()
}

/// A file that other systems have beside these, and that would be taken for a rule.
fn of_models(setting: &Setting) -> Option<Row> {
    let file = setting.home().config().join("governance/models.yaml");
    let found = "it is not read: Sinew runs no language models";
    file.exists()
        .then(|| Row::note("configuration", "models.yaml", found).remedy(format!("rm '{}'", file.display())))
}

fn policy(setting: &Setting) -> Row {
    let (area, what) = ("configuration", "policy and settings");
    match check::look(setting) {
        Err(problem) => Row::bad(area, what, problem.message).remedy("sinew check"),
        Ok(report) if !report.errors.is_empty() => {
            Row::bad(area, what, format!("{} errors: they are not taken", report.errors.len()))
                .remedy("sinew check")
        }
        Ok(report) if !report.warnings.is_empty() => {
            Row::note(area, what, format!("{} warnings", report.warnings.len())).remedy("sinew check")
        }
        Ok(_) => Row::good(area, what, "no errors, no warnings"),
    }
}

fn of_manifests(setting: &Setting) -> Row {
    let (area, what, folder) = ("configuration", "manifests", setting.home().tools());
    if !folder.is_dir() {
        return Row::good(area, what, "none");
    }
    match manifests::files_of(folder)
        .and_then(|files| manifests::broken(&files).map(|broken| (files.len(), broken)))
    {
        Err(problem) => Row::bad(area, what, problem.message),
        Ok((all, 0)) => Row::good(area, what, format!("{all}, each can be used")),
        Ok((all, broken)) => Row::bad(area, what, format!("{broken} of {all} cannot be used"))
            .remedy(format!("sinew manifest check '{}'", folder.display())),
    }
}
