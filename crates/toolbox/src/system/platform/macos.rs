//! macOS: queries the programs of the system, by their absolute paths.

use std::ffi::OsString;
use std::time::Duration;

use jiff::tz::TimeZone;
use tool::Failure;

use super::macos_queries as queries;
use crate::system::bounded_command;
use crate::system::log_record::{LogQuery, LogResult};
use crate::system::process_facts::{ProcessFacts, now_seconds};
use crate::system::service::ServiceStatus;
use crate::system::unified_log;

const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_OUTPUT_BYTES: usize = 4 * 1024 * 1024;

/// Returns the facts of a process, or nothing if there is no process with this pid.
pub(in crate::system) fn process_facts(pid: i64) -> Option<ProcessFacts> {
    let zone = TimeZone::system();
    let to_utc =
        |time| Some(zone.to_ambiguous_zoned(time).compatible().ok()?.timestamp().as_duration().as_secs_f64());
    queries::process_facts(&program_stdout, pid, to_utc, now_seconds())
}

/// Returns true if `ps` answers: it shows the processes of all users.
pub(in crate::system) fn shows_all_processes() -> bool {
    queries::shows_all_processes(&program_stdout)
}

/// Returns the pids of the processes with this name, at most `max`.
pub(in crate::system) fn pids_by_name(name: &str, max: usize) -> Vec<i64> {
    queries::pids_by_name(&program_stdout, name, max)
}

/// Returns the number of sockets listening on a port, and the pids of the processes that are known to hold them.
pub(in crate::system) fn port_listeners(port: u16) -> (usize, Vec<i64>) {
    queries::port_listeners(&program_stdout, port)
}

/// Queries a launchd agent or daemon.
pub(in crate::system) fn query_service(label: &str) -> Result<Option<ServiceStatus>, Failure> {
    Ok(queries::query_service(&program_stdout, rustix::process::getuid().as_raw(), label))
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
