//! Metrics of macOS from the output of its programs, without the way in which a program is run. Compiled and
//! tested on every platform, against recorded output.

use super::MetricResult;
use crate::disks::{self, MountEntry};
use crate::gpu;
use crate::network::{self, InterfaceCounters};
use crate::pressure;
use crate::snapshot::Gpu;

/// Runs a program of the system by its absolute path and returns its standard output.
pub(super) type RunProgram<'a> = &'a dyn Fn(&str, &[&str]) -> MetricResult<String>;

pub(super) fn mounts(run: RunProgram<'_>) -> MetricResult<Vec<MountEntry>> {
    some_or("/sbin/mount listed no file system", disks::parse_macos_mounts(&run("/sbin/mount", &[])?))
}

pub(super) fn counters(run: RunProgram<'_>) -> MetricResult<InterfaceCounters> {
    let found = network::parse_macos_counters(&run("/usr/sbin/netstat", &["-ibn"])?);
    some_or("/usr/sbin/netstat listed no interface", found)
}

pub(super) fn gpus(run: RunProgram<'_>) -> MetricResult<Vec<Gpu>> {
    let text = run("/usr/sbin/ioreg", &["-r", "-d", "1", "-w", "0", "-c", "IOAccelerator"])?;
    some_or("the registry of this Mac has no accelerator", gpu::parse_ioreg(&text))
}

pub(super) fn memory_level(run: RunProgram<'_>) -> Option<f64> {
    let text = run("/usr/sbin/sysctl", &["-n", "kern.memorystatus_vm_pressure_level"]);
    pressure::level_from_sysctl(&text.ok()?)
}

/// Every Mac has file systems and interfaces, so an empty list means that the program did not answer.
fn some_or<T>(reason: &str, found: Vec<T>) -> MetricResult<Vec<T>> {
    if found.is_empty() { Err(reason.to_owned()) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_asks_its_program() {
        let run = |program: &str, words: &[&str]| match (program, words) {
            ("/sbin/mount", []) => Ok("/dev/disk3s1s1 on / (apfs, sealed, local, read-only)\n".to_owned()),
            ("/usr/sbin/netstat", ["-ibn"]) => {
                Ok("Name Mtu Network Address Ipkts Ierrs Ibytes Opkts Oerrs Obytes Coll\n\
                    en0 1500 <Link#6> aa:bb:cc:dd:ee:ff 8 0 70 6 0 50 0\n"
                    .to_owned())
            }
            ("/usr/sbin/ioreg", [.., "IOAccelerator"]) => Ok("+-o AGX  <class X>\n".to_owned()),
            ("/usr/sbin/sysctl", ["-n", _]) => Ok("2\n".to_owned()),
            other => panic!("not a program of the list: {other:?}"),
        };
        assert_eq!(mounts(&run).unwrap()[0].filesystem, "apfs");
        assert_eq!(counters(&run).unwrap(), [("en0".to_owned(), 70, 50)]);
        assert_eq!(gpus(&run).unwrap()[0].name, "AGX");
        assert_eq!(memory_level(&run), Some(2.0));
    }

    #[test]
    fn program_that_does_not_answer_is_a_reason_and_no_measurement() {
        for answer in [Err("/sbin/mount: No such file or directory".to_owned()), Ok(String::new())] {
            let run = |_: &str, _: &[&str]| answer.clone();
            assert!(mounts(&run).is_err_and(|why| why.contains("/sbin/mount")), "{answer:?}");
            assert!(counters(&run).is_err() && gpus(&run).is_err(), "{answer:?}");
            assert_eq!(memory_level(&run), None, "{answer:?}");
        }
    }
}
