//! Checks of the sockets, the daemon and the service manager. A socket is connected to only if a process
//! holds the state lock: otherwise socket activation would start a daemon.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};

use super::row::Row;
use crate::service::{self, Facts, Manager, ServiceFile};
use crate::setting::Setting;

pub(super) fn rows(setting: &Setting) -> Vec<Row> {
    let home = setting.home();
    let sockets = [("agent socket", home.agent_socket()), ("control socket", home.control_socket())];
    let mut rows: Vec<Row> = sockets.map(|(name, path)| socket(name, &path, setting)).into();
    rows.push(daemon(setting));
    rows.push(manager(setting));
    rows
}

fn socket(name: &str, path: &Path, setting: &Setting) -> Row {
    let (area, shown) = ("sockets", path.display().to_string());
    let Ok(facts) = std::fs::symlink_metadata(path) else {
        return match setting.daemon_answers() {
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
    match setting.is_held() {
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

fn daemon(setting: &Setting) -> Row {
    if !setting.daemon_answers() {
        let held = if setting.is_held() {
            "a process holds the state lock and does not answer"
        } else {
            "no daemon runs"
        };
        let start = if service::is_installed(setting.home()) { "sinew service start" } else { "sinew serve" };
        return Row::note("daemon", "answers", held)
            .remedy(format!("{start}; `sinew logs` shows why it ended"));
    }
    let status = setting.ask_running("control/status", json!({})).unwrap_or(Value::Null);
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
fn manager(setting: &Setting) -> Row {
    let (area, what) = ("daemon", "service");
    if !service::is_installed(setting.home()) {
        return Row::good(area, what, "not installed");
    }
    match Facts::gather(setting).and_then(|facts| Manager::CURRENT.files(&facts)) {
        Ok(files) if files.iter().all(ServiceFile::is_in_place) => Row::good(area, what, "installed"),
        Ok(_) => Row::note(area, what, "its files belong to another version, binary or home")
            .remedy("sinew service install"),
        Err(problem) => Row::bad(area, what, problem.message),
    }
}
