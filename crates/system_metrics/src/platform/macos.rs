//! macOS: metrics from system programs that need no root, started by absolute path with an empty environment.

use std::process::{Command, Stdio};

use super::MetricResult;
use crate::disks::{self, MountEntry};
use crate::gpu;
use crate::network::{self, InterfaceCounters};
use crate::pressure;
use crate::snapshot::{Gpu, Temperature};

pub(crate) fn mounts() -> MetricResult<Vec<MountEntry>> {
    Ok(disks::parse_macos_mounts(&program_output("/sbin/mount", &[])?))
}

pub(crate) fn counters() -> MetricResult<InterfaceCounters> {
    Ok(network::parse_macos_counters(&program_output("/usr/sbin/netstat", &["-ibn"])?))
}

pub(crate) fn temperatures() -> MetricResult<Vec<Temperature>> {
    Err("macOS reports temperatures only to root".to_owned())
}

pub(crate) fn gpus() -> MetricResult<Vec<Gpu>> {
    let found = gpu::parse_ioreg(&program_output(
        "/usr/sbin/ioreg",
        &["-r", "-d", "1", "-w", "0", "-c", "IOAccelerator"],
    )?);
    match found.is_empty() {
        true => Err("the registry of this Mac has no accelerator".to_owned()),
        false => Ok(found),
    }
}

/// Always `None`: macOS has no pressure stall information.
pub(crate) fn pressure_stalls(_what: &str) -> Option<String> {
    None
}

pub(crate) fn memory_level() -> Option<f64> {
    pressure::level_from_sysctl(
        &program_output("/usr/sbin/sysctl", &["-n", "kern.memorystatus_vm_pressure_level"]).ok()?,
    )
}

fn program_output(program: &str, arguments: &[&str]) -> MetricResult<String> {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    String::from_utf8(output.stdout).map_err(|error| format!("{program}: {error}"))
}
