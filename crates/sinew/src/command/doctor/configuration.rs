//! Checks of the configuration: counts the findings of `sinew check` and `sinew manifest check`.

use manifest::Manifest;

use super::row::Row;
use crate::command::check;
use crate::exit::Problem;
use crate::manifests;
use crate::setting::Setting;

/// Number of manifest files, and the manifests that can be used.
type Manifests = Result<(usize, Vec<Manifest>), Problem>;

/// Loads the manifests of this home.
pub(super) fn manifests(setting: &Setting) -> Manifests {
    let folder = setting.home().tools();
    let files = if folder.is_dir() { manifests::files_of(folder)? } else { Vec::new() };
    Ok((files.len(), manifests::usable(&files)?))
}

pub(super) fn rows(setting: &Setting, manifests: &Manifests) -> Vec<Row> {
    let rows = [Some(policy(setting)), of_models(setting), Some(of_manifests(setting, manifests))];
    rows.into_iter().flatten().collect()
}

/// Reports a `models.yaml`, which other systems keep beside these files and which could be mistaken for
/// policy.
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
            Row::bad(area, what, format!("{} errors: the daemon rejects it", report.errors.len()))
                .remedy("sinew check")
        }
        Ok(report) if !report.warnings.is_empty() => {
            Row::note(area, what, format!("{} warnings", report.warnings.len())).remedy("sinew check")
        }
        Ok(_) => Row::good(area, what, "no errors, no warnings"),
    }
}

fn of_manifests(setting: &Setting, manifests: &Manifests) -> Row {
    let (area, what, folder) = ("configuration", "manifests", setting.home().tools());
    match manifests {
        Err(problem) => Row::bad(area, what, problem.message.clone()),
        Ok((0, _)) => Row::good(area, what, "none"),
        Ok((all, usable)) if *all == usable.len() => {
            Row::good(area, what, format!("{all}, each can be used"))
        }
        Ok((all, usable)) => {
            Row::bad(area, what, format!("{} of {all} cannot be used", all.saturating_sub(usable.len())))
                .remedy(format!("sinew manifest check '{}'", folder.display()))
        }
    }
}
