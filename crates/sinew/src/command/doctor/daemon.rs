//! Checks of the daemon: sockets, service manager and configuration.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use manifest::Manifest;
use serde_json::{Value, json};

use super::Row;
use crate::command::{check, status};
use crate::command_context::CommandContext;
use crate::exit::CommandError;
use crate::service::{self, ServiceFacts, ServiceFile, ServiceManagerKind};

/// Number of manifest files, and the manifests that can be used.
type LoadedManifests = Result<(usize, Vec<Manifest>), CommandError>;

/// Checks the sockets, the daemon and the service manager. A socket is connected to only if a process holds the state
/// lock: otherwise socket activation would start a daemon.
pub(super) fn sockets(setting: &CommandContext) -> Vec<Row> {
    let home = setting.home();
    let sockets = [("agent socket", home.agent_socket()), ("control socket", home.control_socket())];
    let mut rows: Vec<Row> = sockets.map(|(name, path)| socket_row(name, &path, setting)).into();
    rows.push(daemon_row(setting));
    rows.push(service_row(setting));
    rows
}

fn socket_row(name: &str, path: &Path, setting: &CommandContext) -> Row {
    let (area, shown) = ("sockets", path.display().to_string());
    let Ok(facts) = std::fs::symlink_metadata(path) else {
        return match setting.is_daemon_ready() {
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
    match setting.is_state_locked() {
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

fn daemon_row(setting: &CommandContext) -> Row {
    if !setting.is_daemon_ready() {
        let held = if setting.is_state_locked() {
            "a process holds the state lock and does not answer"
        } else {
            "no daemon runs"
        };
        let start = if service::is_installed(setting.home()) { "sinew service start" } else { "sinew serve" };
        return Row::note("daemon", "answers", held)
            .remedy(format!("{start}; `sinew logs` shows why it ended"));
    }
    let status = setting.request_running_daemon("control/status", json!({})).unwrap_or(Value::Null);
    let (version, ours) =
        (status.get("version").and_then(Value::as_str).unwrap_or_default(), env!("CARGO_PKG_VERSION"));
    if version != ours {
        return Row::bad(
            "daemon",
            "has this version",
            format!("the daemon is {version}, this program is {ours}"),
        )
        .remedy("sinew service restart");
    }
    if let Some(reduced) = status::descriptor_limit_text(&status) {
        return Row::note("daemon", "accepts all connections", reduced);
    }
    match status.pointer("/ledger/state").and_then(Value::as_str) {
        Some("ready") => Row::good("daemon", "answers and records", format!("version {version}")),
        other => {
            Row::bad("daemon", "records", format!("its ledger is {}", other.unwrap_or("in an unknown state")))
                .remedy("`sinew status` shows why; `sinew ledger verify` checks the ledger")
        }
    }
}

/// Checks the installed service files. Outdated ones, or ones that start another copy of this program, would
/// take effect at the next restart.
fn service_row(setting: &CommandContext) -> Row {
    let (area, what) = ("daemon", "service");
    if !service::is_installed(setting.home()) {
        return Row::good(area, what, "not installed");
    }
    match ServiceFacts::collect(setting).and_then(|facts| ServiceManagerKind::CURRENT.files(&facts)) {
        Ok(files) if files.iter().all(ServiceFile::is_current) => Row::good(area, what, "installed"),
        Ok(_) => Row::note(area, what, "its files belong to another version, binary or home")
            .remedy("sinew service install"),
        Err(problem) => Row::bad(area, what, problem.message),
    }
}

/// Loads the manifests of this home.
pub(super) fn load_manifests(setting: &CommandContext) -> LoadedManifests {
    let folder = setting.home().tools_dir();
    let files = if folder.is_dir() { crate::manifests::manifest_files(folder)? } else { Vec::new() };
    Ok((files.len(), crate::manifests::load_valid(&files)?))
}

/// Counts the findings of `sinew check` and `sinew manifest check`.
pub(super) fn configuration(setting: &CommandContext, manifests: &LoadedManifests) -> Vec<Row> {
    let rows = [Some(policy_row(setting)), models_row(setting), Some(manifests_row(setting, manifests))];
    rows.into_iter().flatten().collect()
}

/// Reports a `models.yaml`, which other systems keep beside these files and which could be mistaken for
/// policy.
fn models_row(setting: &CommandContext) -> Option<Row> {
    let file = setting.home().config_dir().join("governance/models.yaml");
    let found = "it is not read: Sinew runs no language models";
    file.exists()
        .then(|| Row::note("configuration", "models.yaml", found).remedy(format!("rm '{}'", file.display())))
}

fn policy_row(setting: &CommandContext) -> Row {
    let (area, what) = ("configuration", "policy and settings");
    match check::check_configuration(setting) {
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

fn manifests_row(setting: &CommandContext, manifests: &LoadedManifests) -> Row {
    let (area, what, folder) = ("configuration", "manifests", setting.home().tools_dir());
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
