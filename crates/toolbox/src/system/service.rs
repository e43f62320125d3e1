//! State of services as reported by systemd and launchd.

#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

use std::ffi::OsString;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tool::{Failure, FailureKind};

use super::bounded_command;

const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_OUTPUT_BYTES: usize = 256 * 1024;

/// State of one service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub(super) struct ServiceStatus {
    /// Label or unit name.
    pub(super) label: String,
    /// State, in the terms of the service manager.
    pub(super) state: String,
    /// Process id, if it has a process.
    pub(super) pid: Option<i64>,
    /// Number of restarts by the service manager; null if it does not count them.
    pub(super) restarts: Option<u64>,
    /// Exit code of its last process.
    pub(super) last_exit_code: Option<i64>,
}

const PROPERTIES: &str = "Id,LoadState,ActiveState,SubState,MainPID,NRestarts,ExecMainStatus";

/// Queries systemd, first of the system and then of this user. The label cannot be parsed as an option: it
/// follows `--`, and its schema allows only a letter, digit or underscore as its first character.
pub(super) fn query_systemd(label: &str) -> Result<Option<ServiceStatus>, Failure> {
    let mut error_text = None;
    for scope in ["--system", "--user"] {
        let property = format!("--property={PROPERTIES}");
        let arguments: Vec<OsString> =
            [scope, "show", &property, "--no-pager", "--", label].map(OsString::from).to_vec();
        let output = bounded_command::run("/usr/bin/systemctl", &arguments, TIMEOUT, MAX_OUTPUT_BYTES)
            .map_err(|_| no_service_manager("systemctl is not installed"))?;
        match output.succeeded {
            true => {
                if let Some(found) = parse_systemd_properties(&String::from_utf8_lossy(&output.stdout)) {
                    return Ok(Some(found));
                }
                error_text = Some(String::new());
            }
            false => error_text = error_text.or(Some(output.stderr)),
        }
    }
    match error_text.filter(|text| !text.is_empty()) {
        Some(text) => Err(no_service_manager(text.lines().next().unwrap_or_default())),
        None => Ok(None),
    }
}

fn no_service_manager(reason: &str) -> Failure {
    Failure::new(
        FailureKind::NotFound,
        format!("the service manager of this machine cannot be queried: {reason}"),
    )
    .with_hint("use pid, name or port instead of label")
}

/// Parses `systemctl show`: one `Name=value` per line. systemctl also reports a state for units that do not
/// exist.
fn parse_systemd_properties(text: &str) -> Option<ServiceStatus> {
    let value = |name: &str| {
        text.lines()
            .find_map(|line| line.split_once('=').filter(|(key, _)| *key == name).map(|(_, value)| value))
    };
    if matches!(value("LoadState"), None | Some("not-found" | "bad-setting" | "error")) {
        return None;
    }
    let state = [value("ActiveState"), value("SubState")].into_iter().flatten().collect::<Vec<_>>().join(" ");
    Some(ServiceStatus {
        label: value("Id").unwrap_or_default().to_owned(),
        state,
        pid: value("MainPID").and_then(|text| text.parse().ok()).filter(|pid| *pid > 0),
        restarts: value("NRestarts").and_then(|text| text.parse().ok()),
        last_exit_code: value("ExecMainStatus").and_then(|text| text.parse().ok()),
    })
}

/// Parses `launchctl print TARGET`: indented `name = value` lines, of which only the outermost belong to the
/// job.
#[cfg_attr(not(target_os = "macos"), allow(dead_code))]
pub(super) fn parse_launchctl(label: &str, text: &str) -> Option<ServiceStatus> {
    let own = text.lines().filter(|line| line.starts_with('\t') && !line.starts_with("\t\t"));
    let own: Vec<(&str, &str)> = own.filter_map(|line| line.trim().split_once(" = ")).collect();
    let value = |name: &str| own.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    let runs = value("runs").and_then(|text| text.parse::<u64>().ok());
    Some(ServiceStatus {
        label: label.to_owned(),
        state: value("state")?.to_owned(),
        pid: value("pid").and_then(|text| text.parse().ok()),
        restarts: runs.map(|runs| runs.saturating_sub(1)),
        last_exit_code: value("last exit code").and_then(|text| text.split(':').next()?.trim().parse().ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_and_launchd_output_is_parsed() {
        let text = "MainPID=812\nNRestarts=3\nExecMainStatus=0\nId=ssh.service\nLoadState=loaded\nActiveState=active\nSubState=running\n";
        let expect = ServiceStatus {
            label: "ssh.service".into(),
            state: "active running".into(),
            pid: Some(812),
            restarts: Some(3),
            last_exit_code: Some(0),
        };
        assert_eq!(parse_systemd_properties(text), Some(expect));
        assert_eq!(
            parse_systemd_properties("Id=x.service\nLoadState=not-found\nActiveState=inactive\n"),
            None
        );
        assert_eq!(parse_systemd_properties(&text.replace("812", "0")).unwrap().pid, None);
        let text = "gui/501/com.example.agent = {\n\tactive count = 1\n\tstate = running\n\n\tprogram = /usr/local/bin/x\n\
                    \tdefault environment = {\n\t\tPATH => /usr/bin\n\t\tstate = no\n\t}\n\truns = 4\n\tpid = 812\n\tlast exit code = 78: EX_CONFIG\n}\n";
        let expect = ServiceStatus {
            label: "com.example.agent".into(),
            state: "running".into(),
            pid: Some(812),
            restarts: Some(3),
            last_exit_code: Some(78),
        };
        assert_eq!(parse_launchctl("com.example.agent", text), Some(expect));
        assert_eq!(parse_launchctl("x", "Bad request.\nCould not find service"), None);
        let never = parse_launchctl(
            "x",
            "gui/501/x = {\n\tstate = not running\n\tlast exit code = (never exited)\n}\n",
        )
        .unwrap();
        assert_eq!((never.pid, never.last_exit_code), (None, None));
    }
}
