//! Tools that report on the machine: its load, its processes, its logs. They change nothing and send no
//! signal.

mod bounded_command;
mod check_process_health;
mod journal;
mod log_files;
mod log_record;
mod platform;
mod process_facts;
mod read_system_logs;
mod service;
mod system_metrics_snapshot;
mod unified_log;

use crate::tool_registration::ToolRegistration;

/// Returns the system tools.
pub(crate) fn tools() -> Vec<ToolRegistration> {
    vec![check_process_health::tool(), read_system_logs::tool(), system_metrics_snapshot::tool()]
}
