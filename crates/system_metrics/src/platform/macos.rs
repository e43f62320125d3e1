//! macOS: metrics from system programs that need no root, started by absolute path with an empty environment.

use std::process::{Command, Stdio};

use super::Reading;
use crate::disks::{self, Mount};
use crate::gpu;
use crate::network::{self, Counters};
use crate::pressure;
use crate::snapshot::{Gpu, Temperature};

pub(crate) fn mounts() -> Reading<Vec<Mount>> {
    Ok(disks::macos_mounts(&said("/sbin/mount", &[])?))
}

pub(crate) fn counters() -> Reading<Counters> {
    Ok(network::macos_counters(&said("/usr/sbin/netstat", &["-ibn"])?))
}

pub(crate) fn temperatures() -> Reading<Vec<Temperature>> {
    Err("macOS reports temperatures only to root".to_owned())
}

pub(crate) fn gpus() -> Reading<Vec<Gpu>> {
    let found =
        gpu::of_ioreg(&said("/usr/sbin/ioreg", &["-r", "-d", "1", "-w", "0", "-c", "IOAccelerator"])?);
    match found.is_empty() {
        true => Err("the registry of this Mac has no accelerator".to_owned()),
        false => Ok(found),
    }
}

/// Always `None`: macOS has no pressure stall information.
pub(crate) fn stalls(_what: &str) -> Option<String> {
    None
}

pub(crate) fn memory_level() -> Option<f64> {
    pressure::of_sysctl(&said("/usr/sbin/sysctl", &["-n", "kern.memorystatus_vm_pressure_level"]).ok()?)
}

fn said(program: &str, words: &[&str]) -> Reading<String> {
    let mut command = Command::new(program);
    command.args(words).env_clear().stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    String::from_utf8(output.stdout).map_err(|error| format!("{program}: {error}"))
}
