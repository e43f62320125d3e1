//! The tools that look at the machine, on this machine: its real load, processes, sockets and logs.

mod introspection;
mod logs;
mod metrics;
mod processes;
