//! Parsers for the process information of `ps` and `lsof` on macOS.

use std::collections::BTreeMap;

use jiff::civil::DateTime;

use crate::system::process_facts::{ProcessFacts, format_seconds, state_name};

/// Columns of `ps`, in this order. The name is last, because it may contain spaces.
pub(super) const COLUMNS: &str = "pid=,ppid=,uid=,state=,lstart=,time=,pcpu=,rss=,comm=";

/// Parses one line of `ps`. Its start time is local, so the caller provides the conversion to UTC.
pub(super) fn parse_process(
    line: &str,
    to_utc: impl Fn(DateTime) -> Option<f64>,
    now: f64,
) -> Option<ProcessFacts> {
    let mut columns = line.split_whitespace();
    let (pid, parent) = (columns.next()?.parse().ok()?, columns.next()?.parse().ok()?);
    let (user, state) = (columns.next()?.parse().ok()?, columns.next()?.chars().next()?);
    // `Mon Nov 16 10:11:12 2026`
    let date: Vec<&str> = columns.by_ref().take(5).collect();
    let started = DateTime::strptime("%a %b %d %H:%M:%S %Y", date.join(" ")).ok().and_then(to_utc)?;
    let (time, percent) = (columns.next()?, columns.next()?.parse::<f64>().ok());
    let resident = columns.next()?.parse::<u64>().ok();
    let path = columns.collect::<Vec<_>>().join(" ");
    let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
    let mut unavailable = BTreeMap::new();
    for field in ["threads", "open_files"] {
        unavailable.insert(
            field,
            "macOS shows this only for processes of the same user, and not in `ps`".to_owned(),
        );
    }
    // macOS reports 0 for processes of other users: that is not a measurement.
    let memory_bytes = resident.filter(|kib| *kib > 0).map(|kib| kib.saturating_mul(1024));
    if memory_bytes.is_none() {
        unavailable
            .insert("memory_bytes", "macOS does not show this for processes of other users".to_owned());
    }
    Some(ProcessFacts {
        pid,
        started_at: format_seconds(started),
        name,
        state: state_name(state),
        parent_pid: Some(parent),
        user_id: Some(user),
        uptime_seconds: (now - started).max(0.0),
        cpu_seconds: parse_cpu_time(time),
        cpu_percent: percent,
        memory_bytes,
        threads: None,
        open_files: None,
        is_sinew: pid == i64::from(std::process::id()),
        unavailable,
    })
}

/// Parses `MINUTES:SECONDS.HUNDREDTHS`, with hours before it for longer times.
fn parse_cpu_time(text: &str) -> Option<f64> {
    text.split(':').try_fold(0.0, |sum, part| Some(sum * 60.0 + part.parse::<f64>().ok()?))
}

/// Returns the pids of the processes in a `ps` list with this name.
pub(super) fn pids_by_name(list: &str, name: &str, max: usize) -> Vec<i64> {
    let is_named = |line: &&str| {
        let path = line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
        path == name || path.rsplit('/').next() == Some(name)
    };
    let numbers =
        list.lines().filter(is_named).filter_map(|line| line.split_whitespace().next()?.parse().ok());
    numbers.take(max).collect()
}

/// Parses the output of `lsof -F p`: one line `pPID` per process.
pub(super) fn parse_lsof_pids(text: &str) -> Vec<i64> {
    text.lines().filter_map(|line| line.strip_prefix('p')?.parse().ok()).collect()
}

/// Counts the sockets of a `netstat -an` table that listen on this port: state LISTEN for TCP, unconnected for
/// UDP. The port follows the last dot of an address.
pub(super) fn listening_sockets(table: &str, port: u16) -> usize {
    let port = port.to_string();
    let listens = |line: &&str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [protocol, _, _, local, foreign, state @ ..] = columns.as_slice() else { return false };
        let waits = match protocol.get(..3) {
            Some("tcp") => state.first() == Some(&"LISTEN"),
            Some("udp") => *foreign == "*.*",
            _ => false,
        };
        waits && local.rsplit_once('.').is_some_and(|(_, of)| of == port)
    };
    table.lines().filter(listens).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ps_and_lsof_output_is_parsed() {
        let line = "  501     1   501 Ss   Mon Nov 16 10:11:12 2026     1:02.50   3.4  20480 /Applications/My App.app/Contents/MacOS/My App";
        let utc =
            |time: DateTime| time.in_tz("UTC").ok().map(|time| time.timestamp().as_duration().as_secs_f64());
        let facts = parse_process(line, utc, 1_794_823_900.0).unwrap();
        assert_eq!((facts.pid, facts.parent_pid, facts.user_id), (501, Some(1), Some(501)));
        assert_eq!((facts.name.as_str(), facts.state), ("My App", "sleeping"));
        assert_eq!(facts.started_at, "2026-11-16T10:11:12.00Z");
        assert_eq!((facts.cpu_seconds, facts.memory_bytes), (Some(62.5), Some(20_971_520)));
        assert!(facts.open_files.is_none() && facts.unavailable.contains_key("open_files"));
        let foreign =
            "    1     0     0 Ss   Mon Nov 16 10:00:00 2026    12:00.00   0.0      0 /sbin/launchd";
        let facts = parse_process(foreign, utc, 1_794_823_900.0).unwrap();
        assert!(facts.memory_bytes.is_none() && facts.unavailable.contains_key("memory_bytes"), "{facts:?}");
        assert!(parse_process("garbage", utc, 0.0).is_none());
        assert_eq!(parse_cpu_time("1:02:03"), Some(3723.0));
        let list =
            "    1 /sbin/launchd\n  501 /Applications/My App.app/Contents/MacOS/My App\n  502 /usr/bin/My\n";
        assert_eq!((pids_by_name(list, "My App", 9), pids_by_name(list, "launchd", 9)), (vec![501], vec![1]));
        assert_eq!(parse_lsof_pids("p812\nf5\nn*:8080\np900\n"), [812, 900]);
    }
}
