//! Checks of the daemon: sockets, service manager and configuration.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use manifest::Manifest;
use serde_json::{Value, json};

use super::Row;
use crate::command::check::CheckReport;
use crate::command::status;
use crate::command_context::CommandContext;
use crate::exit::CommandError;
use crate::service::{self, ServiceFacts, ServiceFile, ServiceManagerKind};

/// Number of manifest files, and the manifests that can be used.
type LoadedManifests = Result<(usize, Vec<Manifest>), CommandError>;

/// Checks the sockets, the daemon and the service manager. A socket is connected to only if a process holds the state
/// lock: otherwise socket activation would start a daemon.
pub(super) fn sockets(context: &CommandContext) -> Vec<Row> {
    let home = context.home();
    let sockets = [("agent socket", home.agent_socket()), ("control socket", home.control_socket())];
    let mut rows: Vec<Row> = sockets.map(|(name, path)| socket_row(name, &path, context)).into();
    rows.push(daemon_row(context));
    rows.push(service_row(context));
    rows
}

fn socket_row(name: &str, path: &Path, context: &CommandContext) -> Row {
    let (area, shown) = ("sockets", path.display().to_string());
    let Ok(facts) = std::fs::symlink_metadata(path) else {
        return match context.is_daemon_ready() {
            true => Row::bad(area, name, format!("{shown} is missing, although a daemon runs"))
                .remedy("the daemon binds it again within 30 s; find out which program removes it"),
            false => Row::note(area, name, format!("{shown} (absent: no daemon runs)")),
        };
    };
    let mode = facts.mode() & 0o777;
    if !facts.file_type().is_socket() {
        return Row::bad(area, name, format!("{shown} is not a socket")).remedy(format!("rm '{shown}'"));
    }
    if mode & 0o077 != 0 {
        return Row::bad(area, name, format!("{shown} is open to others (mode {mode:04o})"))
            .remedy(format!("chmod 600 '{shown}'"));
    }
    match context.is_state_locked() {
        true if UnixStream::connect(path).is_err() => Row::bad(
            area,
            name,
            format!("nothing listens on {shown}, although a process holds the state lock"),
        )
        .remedy("`sinew logs` shows what that process does"),
        true => Row::good(area, name, shown),
        false => Row::note(
            area,
            name,
            format!("{shown} (no daemon runs: it belongs to a service manager, or is a leftover)"),
        ),
    }
}

fn daemon_row(context: &CommandContext) -> Row {
    if !context.is_daemon_ready() {
        let held = if context.is_state_locked() {
            "a process holds the state lock and does not answer"
        } else {
            "no daemon runs"
        };
        let start = if service::is_installed(context.home()) { "sinew service start" } else { "sinew serve" };
        return Row::note("daemon", "answers", held)
            .remedy(format!("{start}; `sinew logs` shows why it ended"));
    }
    let status = context.request_running_daemon("control/status", json!({})).unwrap_or(Value::Null);
    let (version, ours) =
        (status.get("version").and_then(Value::as_str).unwrap_or_default(), env!("CARGO_PKG_VERSION"));
    if version != ours {
        return Row::bad(
            "daemon",
            "has this version",
            format!("the daemon is {version}, this program is {ours}"),
        )
        .remedy("sinew restart");
    }
    match status.pointer("/ledger/state").and_then(Value::as_str) {
        Some("ready") => match status::descriptor_limit_text(&status) {
            None => Row::good("daemon", "answers and records", format!("version {version}")),
            Some(reduced) => Row::note("daemon", "accepts all connections", reduced),
        },
        other => {
            Row::bad("daemon", "records", format!("its ledger is {}", other.unwrap_or("in an unknown state")))
                .remedy("`sinew status` shows why; `sinew ledger verify` checks the ledger")
        }
    }
}

/// Checks the installed service files. Outdated ones, or ones that start another copy of this program, would
/// take effect at the next restart.
fn service_row(context: &CommandContext) -> Row {
    let (area, check) = ("daemon", "service");
    if !service::is_installed(context.home()) {
        return Row::good(area, check, "not installed");
    }
    match ServiceFacts::collect(context).and_then(|facts| ServiceManagerKind::CURRENT.files(&facts)) {
        Ok(files) if files.iter().all(ServiceFile::is_current) => Row::good(area, check, "installed"),
        Ok(_) => Row::note(area, check, "its files belong to another version, binary or home")
            .remedy("sinew service install"),
        Err(problem) => Row::bad(area, check, problem.message),
    }
}

/// Loads the manifests of this home.
pub(super) fn load_manifests(context: &CommandContext) -> LoadedManifests {
    let folder = context.home().tools_dir();
    let files = if folder.is_dir() { crate::manifests::manifest_files(folder)? } else { Vec::new() };
    Ok((files.len(), crate::manifests::load_valid(&files)?))
}

/// Counts the findings of `sinew check` and `sinew manifest check`.
pub(super) fn configuration(
    context: &CommandContext,
    manifests: &LoadedManifests,
    checked: &Result<CheckReport, CommandError>,
) -> Vec<Row> {
    let rows = [
        Some(policy_row(checked)),
        projects_row(checked),
        models_row(context),
        Some(manifests_row(context, manifests)),
    ];
    rows.into_iter().flatten().collect()
}

/// Reports a `models.yaml`, which other systems keep beside these files and which could be mistaken for
/// policy.
fn models_row(context: &CommandContext) -> Option<Row> {
    let file = context.home().config_dir().join("governance/models.yaml");
    let found = "it is not read: Sinew runs no language models";
    file.exists()
        .then(|| Row::note("configuration", "models.yaml", found).remedy(format!("rm '{}'", file.display())))
}

fn policy_row(checked: &Result<CheckReport, CommandError>) -> Row {
    let (area, check) = ("configuration", "policy and settings");
    match checked {
        Err(problem) => Row::bad(area, check, problem.message.clone()).remedy("sinew check"),
        Ok(report) if !report.errors.is_empty() => {
            Row::bad(area, check, format!("{} errors: the daemon rejects it", report.errors.len()))
                .remedy("sinew check")
        }
        Ok(report) if !report.warnings.is_empty() => {
            Row::note(area, check, format!("{} warnings", report.warnings.len())).remedy("sinew check")
        }
        Ok(_) => Row::good(area, check, "no errors, no warnings"),
    }
}

/// Reports project policies that do not load.
fn projects_row(checked: &Result<CheckReport, CommandError>) -> Option<Row> {
    let error = checked.as_ref().ok()?.partial_errors.first()?;
    let found =
        format!("{}:{}: {}; every call into the project is denied", error.file, error.line, error.message);
    Some(Row::bad("configuration", "project policies", found).remedy("sinew check"))
}

fn manifests_row(context: &CommandContext, manifests: &LoadedManifests) -> Row {
    let (area, check, folder) = ("configuration", "manifests", context.home().tools_dir());
    match manifests {
        Err(problem) => Row::bad(area, check, problem.message.clone()),
        Ok((0, _)) => Row::good(area, check, "none"),
        Ok((all, usable)) if *all == usable.len() => {
            Row::good(area, check, format!("{all}, each can be used"))
        }
        Ok((all, usable)) => {
            Row::bad(area, check, format!("{} of {all} cannot be used", all.saturating_sub(usable.len())))
                .remedy(format!("sinew manifest check '{}'", folder.display()))
        }
    }
}
