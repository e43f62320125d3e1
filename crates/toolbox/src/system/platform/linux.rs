//! Linux: reads processes from `/proc`. Each process directory is opened once and read through that handle,
//! so that all facts belong to one process even if its pid is reused meanwhile.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, Dir, Mode, OFlags, openat, readlinkat};
use tool::Failure;

use crate::system::log_record::{LogQuery, LogResult};
use crate::system::process_facts::{ProcessFacts, format_seconds, now_seconds, state_name};
use crate::system::service::ServiceStatus;
use crate::system::{journal, service};

/// Length of the CPU usage sample.
const CPU_SAMPLE: Duration = Duration::from_millis(100);
/// Bytes read from one file in `/proc`.
const MAX_PROC_FILE_BYTES: u64 = 64 * 1024;

/// Returns the facts of a process, or nothing if there is no process with this pid.
pub(in crate::system) fn process_facts(pid: i64) -> Option<ProcessFacts> {
    let folder = open_proc_dir(pid)?;
    let before = ProcStat::load(&folder)?;
    thread::sleep(CPU_SAMPLE);
    // Reads through the same handle fail if the pid now belongs to another process.
    let after = ProcStat::load(&folder).filter(|after| after.start_ticks == before.start_ticks);
    let mut facts = to_process_facts(pid, &folder, after.as_ref().unwrap_or(&before))?;
    facts.cpu_percent = after.map(|after| {
        let percent = after.cpu_ticks.saturating_sub(before.cpu_ticks) as f64
            / ticks_per_second()
            / CPU_SAMPLE.as_secs_f64()
            * 100.0;
        (percent * 10.0).round() / 10.0
    });
    Some(facts)
}

/// Returns true if processes of all users are visible. The first process always exists, so if its state cannot be read,
/// there is no `/proc` or it is mounted with `hidepid`.
pub(in crate::system) fn shows_all_processes() -> bool {
    std::fs::read("/proc/1/stat").is_ok()
}

/// Returns the pids of the processes with this name, at most `max`.
pub(in crate::system) fn pids_by_name(name: &str, max: usize) -> Vec<i64> {
    let is_named = |pid: &i64| {
        open_proc_dir(*pid)
            .and_then(|folder| ProcStat::load(&folder))
            .is_some_and(|stat| stat.name == truncate_to_comm(name))
    };
    all_pids().into_iter().filter(is_named).take(max).collect()
}

/// Truncates a name to the 15 bytes that the kernel keeps.
fn truncate_to_comm(name: &str) -> &str {
    name.char_indices()
        .find(|(at, c)| at + c.len_utf8() > 15)
        .map_or(name, |(at, _)| name.get(..at).unwrap_or(name))
}

/// Returns the number of sockets listening on a port, and the pids of the visible processes that hold them.
pub(in crate::system) fn port_listeners(port: u16) -> (usize, Vec<i64>) {
    let tables =
        ["tcp", "tcp6", "udp", "udp6"].map(|name| std::fs::read_to_string(format!("/proc/net/{name}")));
    let sockets: BTreeSet<u64> =
        tables.iter().flatten().flat_map(|table| listening_inodes(table, port)).collect();
    let holds = |pid: &i64| {
        let Some(files) = open_proc_dir(*pid).and_then(|folder| open_in(&folder, "fd", OFlags::DIRECTORY))
        else {
            return false;
        };
        let Ok(entries) = Dir::read_from(&files) else { return false };
        let mut names = entries.flatten().map(|entry| entry.file_name().to_owned());
        names.any(|name| {
            let target =
                readlinkat(&files, name, Vec::new()).ok().and_then(|target| target.into_string().ok());
            let inode =
                target.and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
            inode.is_some_and(|inode| sockets.contains(&inode))
        })
    };
    let holders =
        if sockets.is_empty() { Vec::new() } else { all_pids().into_iter().filter(holds).collect() };
    (sockets.len(), holders)
}

/// Returns the inodes of the sockets in a table that listen on this port: state LISTEN for TCP, unconnected
/// for UDP.
fn listening_inodes(table: &str, port: u16) -> Vec<u64> {
    let one = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (_, local) = columns.get(1)?.rsplit_once(':')?;
        let waits = matches!(*columns.get(3)?, "0A" | "07");
        let is_it = u16::from_str_radix(local, 16).ok()? == port;
        (waits && is_it).then(|| columns.get(9)?.parse().ok()).flatten()
    };
    table.lines().filter_map(one).collect()
}

/// Queries a systemd unit, of the system or of this user.
pub(in crate::system) fn query_service(label: &str) -> Result<Option<ServiceStatus>, Failure> {
    service::query_systemd(label)
}

/// Queries the systemd journal.
pub(in crate::system) fn query_logs(query: &LogQuery) -> Result<LogResult, Failure> {
    journal::read(query)
}

fn all_pids() -> Vec<i64> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut found: Vec<i64> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    found.sort_unstable();
    found
}

fn open_proc_dir(pid: i64) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, format!("/proc/{pid}"), flags, Mode::empty()).ok()
}

fn open_in(folder: &OwnedFd, name: &str, flags: OFlags) -> Option<OwnedFd> {
    openat(folder, name, flags | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

fn read_proc_file(folder: &OwnedFd, name: &str) -> Option<String> {
    let mut bytes = Vec::new();
    File::from(open_in(folder, name, OFlags::empty())?)
        .take(MAX_PROC_FILE_BYTES)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Fields of the `stat` file of a process.
struct ProcStat {
    name: String,
    state: char,
    parent: i64,
    /// CPU time in clock ticks.
    cpu_ticks: u64,
    threads: u64,
    /// Start time after boot, in clock ticks.
    start_ticks: u64,
    resident_pages: u64,
}

impl ProcStat {
    fn load(folder: &OwnedFd) -> Option<ProcStat> {
        ProcStat::parse(&read_proc_file(folder, "stat")?)
    }

    /// Parses the line. The name is in parentheses and may itself contain parentheses.
    fn parse(line: &str) -> Option<ProcStat> {
        let (head, rest) = line.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let columns: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| columns.get(at).and_then(|word| word.parse::<u64>().ok());
        Some(ProcStat {
            name: name.to_owned(),
            state: columns.first()?.chars().next()?,
            parent: columns.get(1)?.parse().ok()?,
            cpu_ticks: number(11)?.saturating_add(number(12)?),
            threads: number(17)?,
            start_ticks: number(19)?,
            resident_pages: number(21)?,
        })
    }
}

#[allow(clippy::cast_precision_loss)] // ticks of years are far below what a double holds
fn to_process_facts(pid: i64, folder: &OwnedFd, stat: &ProcStat) -> Option<ProcessFacts> {
    let began = boot_time()? + stat.start_ticks as f64 / ticks_per_second();
    let status = read_proc_file(folder, "status");
    let user_id = status.as_deref().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        line.split_whitespace().next()?.parse().ok()
    });
    let files = open_in(folder, "fd", OFlags::DIRECTORY).and_then(|files| Dir::read_from(files).ok());
    let mut unavailable = std::collections::BTreeMap::new();
    // The count includes `.` and `..`.
    let open_files = files.map(|entries| (entries.flatten().count() as u64).saturating_sub(2));
    if open_files.is_none() {
        unavailable
            .insert("open_files", "the system shows this only for processes of the same user".to_owned());
    }
    let is_zombie = matches!(stat.state, 'Z' | 'X');
    if is_zombie {
        unavailable
            .insert("memory_bytes", "the process has ended and its parent has not reaped it".to_owned());
    }
    Some(ProcessFacts {
        pid,
        started_at: format_seconds(began),
        name: stat.name.clone(),
        state: state_name(stat.state),
        parent_pid: Some(stat.parent),
        user_id,
        uptime_seconds: ((now_seconds() - began).max(0.0) * 100.0).round() / 100.0,
        cpu_seconds: Some(stat.cpu_ticks as f64 / ticks_per_second()),
        cpu_percent: None,
        memory_bytes: (!is_zombie)
            .then(|| stat.resident_pages.saturating_mul(rustix::param::page_size() as u64)),
        threads: Some(stat.threads),
        open_files,
        is_sinew: pid == i64::from(std::process::id()),
        unavailable,
    })
}

#[allow(clippy::cast_precision_loss)] // a hundred
fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

/// Returns the boot time of the machine.
fn boot_time() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_parsed_for_any_process_name() {
        let line = "12 (a) R (b)) S 1 1 1 0 -1 4 101 0 0 0 7 5 0 0 20 0 3 0 181440 3133440 390 18446744073709551615 1";
        let stat = ProcStat::parse(line).unwrap();
        assert_eq!((stat.name.as_str(), stat.state, stat.parent), ("a) R (b)", 'S', 1));
        assert_eq!(
            (stat.cpu_ticks, stat.threads, stat.start_ticks, stat.resident_pages),
            (12, 3, 181_440, 390)
        );
        assert!(ProcStat::parse("12 (a) S 1").is_none());
        assert_eq!(
            (truncate_to_comm("a-name-of-sixteen"), truncate_to_comm("short")),
            ("a-name-of-sixte", "short")
        );
    }

    #[test]
    fn only_listening_sockets_of_the_port_are_found() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                     0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 111 1\n\
                     1: 0100007F:1F90 0100007F:9999 01 00000000:00000000 00:00000000 00000000  0 0 222 1\n\
                     2: 00000000000000000000000001000000:1F90 0:0 0A 0:0 0:0 0 0 0 333 1\n\
                     3: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 444 1\n";
        assert_eq!(listening_inodes(table, 8080), [111, 333]);
    }
}
