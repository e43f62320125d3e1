//! System tools on this machine: its real load, processes, sockets and logs.

mod introspection;
mod logs;
mod metrics;
mod processes;
