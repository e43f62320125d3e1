//! macOS: metrics from system programs that need no root, started by absolute path with an empty environment.

use std::process::{Command, Stdio};

use super::MetricResult;
use super::macos_queries as queries;
use crate::disks::MountEntry;
use crate::network::InterfaceCounters;
use crate::snapshot::{Gpu, Temperature};

pub(crate) fn mounts() -> MetricResult<Vec<MountEntry>> {
    queries::mounts(&program_output)
}

pub(crate) fn counters() -> MetricResult<InterfaceCounters> {
    queries::counters(&program_output)
}

pub(crate) fn temperatures() -> MetricResult<Vec<Temperature>> {
    Err("macOS reports temperatures only to root".to_owned())
}

pub(crate) fn gpus() -> MetricResult<Vec<Gpu>> {
    queries::gpus(&program_output)
}

/// Always `None`: macOS has no pressure stall information.
pub(crate) fn pressure_stalls(_what: &str) -> Option<String> {
    None
}

pub(crate) fn memory_level() -> Option<f64> {
    queries::memory_level(&program_output)
}

fn program_output(program: &str, arguments: &[&str]) -> MetricResult<String> {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    String::from_utf8(output.stdout).map_err(|error| format!("{program}: {error}"))
}
