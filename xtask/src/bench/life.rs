//! Cost of a daemon before and between calls: the time of a start with few and with many tools, and its
//! memory and processor time at rest.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::Length;
use super::conversation::{BenchRequest, ask, ask_many, micros};
use super::daemon::{Daemon, Home};
use super::results::{Bound, Results};

const GROUP: &str = "start to first answer";
const SHIPPED: &str = "shipped tools";
const MANY: &str = "with 10,000 more manifests";
/// Number of starts of each kind.
const STARTS: usize = 20;
/// Time for which the idle daemon is observed.
const IDLE: Duration = Duration::from_secs(10);
/// Time for the daemon to come to rest before that.
const REST: Duration = Duration::from_secs(3);
/// Calls before the memory under load is read.
const LOAD: usize = 20_000;
/// Clock ticks per second in `/proc`, 100 on every Linux.
const TICKS: f64 = 100.0;

pub(crate) fn measure(binary: &Path, folder: &Path, length: Length, results: &mut Results) -> Result<()> {
    let shipped = Home::make(binary, &folder.join("shipped"))?;
    starts(&shipped, SHIPPED, length.of(STARTS), results)?;
    idle(&shipped, length, results)?;
    for (count, name) in [(1_000, "with 1,000 more manifests"), (10_000, MANY)] {
        if count == 10_000 && length == Length::Quick {
            continue;
        }
        let home = Home::make(binary, &folder.join(format!("manifests-{count}")))?;
        manifests(&home, count)?;
        starts(&home, name, length.of(STARTS).min(5), results)?;
    }
    let at = |results: &Results, name: &str| Some(results.find(GROUP, name)?.p50 / 1e3);
    let (few, many) = (at(results, SHIPPED), at(results, MANY));
    results.claim("start to first answer, shipped tools", few, "ms", Bound::AtMost(50.0));
    results.claim("start to first answer, 10,000 manifests", many, "ms", Bound::AtMost(2000.0));
    Ok(())
}

/// Adds `count` tools that are never called, each with its own schema.
pub(crate) fn manifests(home: &Home, count: usize) -> Result<()> {
    for n in 0..count {
        let text = format!(
            "tool:\n  id: filler-{n}\n  type: cli\n  name: Filler {n}\n  version: 1.0.0\n  description: A tool that is only there\n  \
             cli_specific: {{executable: \"true\", install_guide: Part of every system.}}\n  commands:\n    - name: fill_{n}\n      \
             category: read_only\n      risk_level: low\n      argv: [--, \"{{text}}\", \"{{path}}\"]\n      parameters:\n        \
             - {{name: text, type: string}}\n        - {{name: path, type: string, format: path}}\n"
        );
        home.put_manifest(&format!("filler-{n}.yaml"), &text)?;
    }
    Ok(())
}

/// Measures starts of a home. The first one accepts the files it finds there, and so has a row of its own.
fn starts(home: &Home, name: &str, count: usize, results: &mut Results) -> Result<()> {
    let first = first_answer(home)?.1;
    let times: Result<Vec<f64>> = (0..count).map(|_| Ok(first_answer(home)?.1)).collect();
    results.add(GROUP, name, times?);
    results.add(GROUP, &format!("{name}, first start of a home"), vec![first]);
    Ok(())
}

/// Starts a daemon, and returns it with the time until its first answer in microseconds.
pub(crate) fn first_answer(home: &Home) -> Result<(Daemon, f64)> {
    let daemon = home.start()?;
    let mut conversation = daemon.connect()?;
    ask(&mut conversation, &BenchRequest::read(), 1, |_, _| Ok(()))?;
    let took = micros(daemon.began.elapsed());
    Ok((daemon, took))
}

fn idle(home: &Home, length: Length, results: &mut Results) -> Result<()> {
    let (daemon, _) = first_answer(home)?;
    std::thread::sleep(REST);
    let resident_mib = memory(daemon.pid())?;
    let before = processor(daemon.pid())?;
    let watched = if length == Length::Quick { IDLE / 2 } else { IDLE };
    std::thread::sleep(watched);
    let busy = (processor(daemon.pid())? - before) / watched.as_secs_f64() * 100.0;
    ask_many(&mut daemon.connect()?, &BenchRequest::read(), (LOAD, 64), &mut Vec::new())?;
    let loaded = memory(daemon.pid())?;
    results.claim("memory at rest, shipped tools", Some(resident_mib), "MiB", Bound::AtMost(25.0));
    results.claim("memory after 20,000 calls", Some(loaded), "MiB", Bound::AtMost(50.0));
    results.claim("processor at rest", Some(busy), "%", Bound::AtMost(0.5));
    Ok(())
}

/// Resident memory in MiB.
fn memory(pid: u32) -> Result<f64> {
    resident(&std::fs::read_to_string(format!("/proc/{pid}/status"))?).context("no VmRSS")
}

fn resident(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok().map(|kib| kib / 1024.0)
}

/// Seconds of processor time so far, in steps of a hundredth.
pub(crate) fn processor(pid: u32) -> Result<f64> {
    spent(&std::fs::read_to_string(format!("/proc/{pid}/stat"))?).context("no processor times")
}

/// Parses `/proc/PID/stat`. The name of the program is in brackets and may contain anything; the times are
/// the 12th and 13th word after it.
fn spent(stat: &str) -> Option<f64> {
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_processor_time_are_parsed_from_proc() {
        assert_eq!(resident("Name:\tsinew\nVmRSS:\t   20480 kB\nThreads:\t4\n"), Some(20.0));
        assert_eq!(resident("Name:\tsinew\n"), None);
        let stat = "42 (a ) name) S 1 42 42 0 -1 4194304 100 0 0 0 150 50 7 7 20 0 4 0 9000 1 1";
        assert_eq!(spent(stat), Some(2.0));
        assert_eq!(spent("42 (short) S 1"), None);
    }
}
