//! Linux: metrics from files below `/proc` and `/sys`.

use std::fs;
use std::path::{Path, PathBuf};

use super::MetricResult;
use crate::disks::{self, MountEntry};
use crate::network::{self, InterfaceCounters};
use crate::pressure;
use crate::snapshot::{Gpu, Temperature};

pub(crate) fn mounts() -> MetricResult<Vec<MountEntry>> {
    Ok(disks::parse_linux_mounts(&read_text("/proc/self/mounts")?))
}

pub(crate) fn counters() -> MetricResult<InterfaceCounters> {
    Ok(network::parse_linux_counters(&read_text("/proc/net/dev")?))
}

/// Returns the pressure stall information of `memory`, `cpu` or `io`.
pub(crate) fn pressure_stalls(resource: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/pressure/{resource}")).ok()
}

pub(crate) fn memory_level() -> Option<f64> {
    pressure::level_from_psi(&pressure_stalls("memory")?)
}

fn read_text(path: &str) -> MetricResult<String> {
    fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

pub(crate) fn temperatures() -> MetricResult<Vec<Temperature>> {
    temperatures_below(Path::new("/sys/class"))
}

pub(crate) fn gpus() -> MetricResult<Vec<Gpu>> {
    gpus_below(Path::new("/sys/class/drm"))
}

/// Reads the sensors of hardware monitoring chips, or of the firmware's thermal zones if there are none.
fn temperatures_below(class: &Path) -> MetricResult<Vec<Temperature>> {
    let mut found = Vec::new();
    for chip in sorted_entries(&class.join("hwmon")) {
        let chip_name = read_line(&chip.join("name")).unwrap_or_else(|| "sensor".to_owned());
        for input in sorted_entries(&chip) {
            let name = input.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some(number) = name.strip_prefix("temp").and_then(|name| name.strip_suffix("_input")) else {
                continue;
            };
            let label =
                read_line(&chip.join(format!("temp{number}_label"))).unwrap_or_else(|| number.to_owned());
            found.extend(
                read_celsius(&input)
                    .map(|celsius| Temperature { name: format!("{chip_name} {label}"), celsius }),
            );
        }
    }
    if found.is_empty() {
        for zone in sorted_entries(&class.join("thermal")) {
            let name = read_line(&zone.join("type")).unwrap_or_else(|| "zone".to_owned());
            found.extend(read_celsius(&zone.join("temp")).map(|celsius| Temperature { name, celsius }));
        }
    }
    match found.is_empty() {
        true => Err("no sensor is below /sys/class/hwmon or /sys/class/thermal: a virtual machine has none"
            .to_owned()),
        false => Ok(found),
    }
}

/// Reads the graphics processors whose drivers publish their load to all users.
fn gpus_below(class: &Path) -> MetricResult<Vec<Gpu>> {
    let is_card = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.strip_prefix("card").is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut found = Vec::new();
    let mut silent = Vec::new();
    for request in sorted_entries(class).into_iter().filter(is_card) {
        let device = request.join("device");
        let driver = fs::read_link(device.join("driver")).ok();
        let driver =
            driver.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let name = format!("{} ({})", driver.as_deref().unwrap_or("unknown driver"), file_name(&request));
        let busy_percent =
            read_line(&device.join("gpu_busy_percent")).and_then(|text| text.parse::<f64>().ok());
        let number = |file: &str| read_line(&device.join(file)).and_then(|text| text.parse().ok());
        let (memory_used_bytes, memory_total_bytes) =
            (number("mem_info_vram_used"), number("mem_info_vram_total"));
        match busy_percent.is_some() || memory_used_bytes.is_some() {
            true => found.push(Gpu { name, busy_percent, memory_used_bytes, memory_total_bytes }),
            false => silent.push(name),
        }
    }
    match (found.is_empty(), silent.is_empty()) {
        (false, _) => Ok(found),
        (true, false) => {
            Err(format!("{} has no readings in /sys; its vendor's program may have them", silent.join(", ")))
        }
        (true, true) => Err("no graphics processor is below /sys/class/drm".to_owned()),
    }
}

fn sorted_entries(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn read_line(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Reads a temperature, which the kernel reports in thousandths of a degree.
fn read_celsius(path: &Path) -> Option<f64> {
    read_line(path)?.parse::<f64>().ok().map(|thousandths| thousandths / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn sensors_and_graphics_cards_are_found_in_sysfs() {
        let root = std::env::temp_dir().join(format!("sinew-machine-{}", std::process::id()));
        let (class, drm) = (root.join("class"), root.join("drm"));
        assert!(temperatures_below(&class).unwrap_err().contains("no sensor"));
        assert!(gpus_below(&drm).unwrap_err().contains("no graphics processor"));
        write(class.join("thermal/thermal_zone0/type"), "acpitz\n");
        write(class.join("thermal/thermal_zone0/temp"), "27800\n");
        let zone = Temperature { name: "acpitz".into(), celsius: 27.8 };
        assert_eq!(temperatures_below(&class).unwrap(), [zone]);
        write(class.join("hwmon/hwmon0/name"), "coretemp\n");
        write(class.join("hwmon/hwmon0/temp1_input"), "45000\n");
        write(class.join("hwmon/hwmon0/temp1_label"), "Package\n");
        let chip = Temperature { name: "coretemp Package".into(), celsius: 45.0 };
        assert_eq!(temperatures_below(&class).unwrap(), [chip], "a chip is closer than a zone");
        write(drm.join("card0/device/vendor"), "0x10de\n");
        assert!(gpus_below(&drm).unwrap_err().contains("card0"), "a driver without readings is named");
        write(drm.join("card1/device/gpu_busy_percent"), "37\n");
        write(drm.join("card1/device/mem_info_vram_used"), "1048576\n");
        write(drm.join("card1-HDMI-A-1/device/gpu_busy_percent"), "99\n");
        let found = gpus_below(&drm).unwrap();
        assert_eq!(
            (found.len(), found[0].busy_percent, found[0].memory_used_bytes),
            (1, Some(37.0), Some(1_048_576))
        );
        fs::remove_dir_all(&root).unwrap();
    }
}
