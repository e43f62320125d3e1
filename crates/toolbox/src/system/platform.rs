//! Platform-specific access to processes, ports, services and logs. The parsers of program output are
//! compiled and tested on every platform.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg_attr(not(target_os = "macos"), allow(dead_code))]
mod macos_queries;
#[cfg_attr(not(target_os = "macos"), allow(dead_code))]
mod ps;

#[cfg(target_os = "linux")]
pub(super) use linux::{
    pids_by_name, port_listeners, process_facts, query_logs, query_service, shows_all_processes,
};
#[cfg(target_os = "macos")]
pub(super) use macos::{
    pids_by_name, port_listeners, process_facts, query_logs, query_service, shows_all_processes,
};
