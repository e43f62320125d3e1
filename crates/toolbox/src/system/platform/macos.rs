//! macOS: queries the programs of the system, by their absolute paths.

use std::ffi::OsString;
use std::time::Duration;

use jiff::tz::TimeZone;
use tool::Failure;

use super::ps;
use crate::system::bounded_command;
use crate::system::log_record::{LogQuery, LogResult};
use crate::system::process_facts::{ProcessFacts, now_seconds};
use crate::system::service::ServiceStatus;
use crate::system::{service, unified_log};

const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_OUTPUT_BYTES: usize = 4 * 1024 * 1024;

/// Returns the facts of a process, or nothing if there is no process with this pid.
pub(in crate::system) fn process_facts(pid: i64) -> Option<ProcessFacts> {
    let text = program_stdout("/bin/ps", &["-o", ps::COLUMNS, "-p", &pid.to_string()])?;
    let zone = TimeZone::system();
    let to_utc =
        |time| Some(zone.to_ambiguous_zoned(time).compatible().ok()?.timestamp().as_duration().as_secs_f64());
    ps::parse_process(text.lines().next()?, to_utc, now_seconds())
}

/// Returns true: `ps` shows the processes of all users.
pub(in crate::system) fn shows_all_processes() -> bool {
    true
}

/// Returns the pids of the processes with this name, at most `most`.
pub(in crate::system) fn pids_by_name(name: &str, most: usize) -> Vec<i64> {
    program_stdout("/bin/ps", &["-ax", "-o", "pid=,comm="])
        .map(|list| ps::pids_by_name(&list, name, most))
        .unwrap_or_default()
}

/// Returns the number of processes listening on a port and their pids. macOS does not show other users'
/// sockets.
pub(in crate::system) fn port_listeners(port: u16) -> (usize, Vec<i64>) {
    let tcp = program_stdout("/usr/sbin/lsof", &["-nP", &format!("-iTCP:{port}"), "-sTCP:LISTEN", "-Fp"]);
    let udp = program_stdout("/usr/sbin/lsof", &["-nP", &format!("-iUDP:{port}"), "-Fp"]);
    let mut found: Vec<i64> =
        [tcp, udp].iter().flatten().flat_map(|text| ps::parse_lsof_pids(text)).collect();
    found.sort_unstable();
    found.dedup();
    (found.len(), found)
}

/// Queries a launchd agent or daemon.
pub(in crate::system) fn query_service(label: &str) -> Result<Option<ServiceStatus>, Failure> {
    let user = rustix::process::getuid().as_raw();
    let domains = [format!("gui/{user}/{label}"), format!("user/{user}/{label}"), format!("system/{label}")];
    let print = |target: &String| program_stdout("/bin/launchctl", &["print", target]);
    Ok(domains.iter().find_map(|target| service::parse_launchctl(label, &print(target)?)))
}

/// Queries the unified log.
pub(in crate::system) fn query_logs(query: &LogQuery) -> Result<LogResult, Failure> {
    unified_log::read(query)
}

fn program_stdout(program: &str, arguments: &[&str]) -> Option<String> {
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    let output = bounded_command::run(program, &arguments, TIMEOUT, MAX_OUTPUT_BYTES).ok()?;
    String::from_utf8(output.stdout).ok()
}
