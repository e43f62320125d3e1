//! Reads the end of log files in syslog format, through the handle that the policy checked.

use file_access::OpenedPath;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use tool::Failure;

use super::log_record::{LogQuery, LogRecord, LogResult};

/// Bytes read from the end of a file.
const MAX_TAIL_BYTES: u64 = 4 * 1024 * 1024;

/// Reads the newest lines that match the query.
pub(super) fn read(file: &OpenedPath, query: &LogQuery) -> Result<LogResult, Failure> {
    let size = file.metadata().map_or(0, |facts| facts.size);
    let start = size.saturating_sub(MAX_TAIL_BYTES);
    let portion = file.read_range(start, MAX_TAIL_BYTES)?;
    let text = String::from_utf8_lossy(&portion.bytes);
    // The first line is usually incomplete if the file is not read from its start.
    let whole = if start > 0 { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
    let today = Timestamp::now().to_zoned(TimeZone::system()).date();
    let mut logs = query
        .newest_matching(whole.lines().filter(|line| !line.is_empty()).map(|line| parse_line(line, today)));
    logs.exceeded_limit = (start > 0).then_some("bytes");
    Ok(logs)
}

/// Parses a line with a time, a host and a process; a line in another format becomes a record with only a
/// message.
fn parse_line(line: &str, today: Date) -> LogRecord {
    let plain = || LogRecord { message: line.to_owned(), ..LogRecord::default() };
    let Some((time, rest)) = split_time(line, today) else { return plain() };
    let time = Some(time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string());
    // `host program[pid]: message`; the log file of a single program has no host.
    let Some((head, message)) = rest.split_once(": ") else {
        return LogRecord { time, message: rest.to_owned(), ..LogRecord::default() };
    };
    let tag = head.rsplit(' ').next().unwrap_or(head);
    if head.split(' ').count() > 2 {
        return LogRecord { time, message: rest.to_owned(), ..LogRecord::default() };
    }
    let (process, pid) = match tag.split_once('[') {
        Some((name, pid)) => (name, pid.trim_end_matches(']').parse().ok()),
        None => (tag, None),
    };
    LogRecord {
        time,
        process: Some(process.to_owned()),
        pid,
        message: message.to_owned(),
        ..LogRecord::default()
    }
}

/// Returns the time at the start of a line, and the rest of the line.
fn split_time(line: &str, today: Date) -> Option<(Timestamp, &str)> {
    let (word, rest) = line.split_once(' ')?;
    if let Ok(time) = word.parse::<Timestamp>() {
        return Some((time, rest));
    }
    // `2026-11-16 10:11:12 …`, in local time.
    let at = |text: &str, format: &str| {
        let time = DateTime::strptime(format, text).ok()?;
        Some(TimeZone::system().to_ambiguous_zoned(time).compatible().ok()?.timestamp())
    };
    let (head, rest) = (line.get(..19), line.get(20..).unwrap_or_default());
    if let Some(time) = head.and_then(|head| at(head, "%Y-%m-%d %H:%M:%S")) {
        return Some((time, rest));
    }
    // `Nov 16 10:11:12 …` has no year: assume the most recent such day.
    let (head, rest) = (line.get(..15)?, line.get(16..).unwrap_or_default());
    let this = at(&format!("{} {head}", today.year()), "%Y %b %e %H:%M:%S")?;
    let tomorrow =
        TimeZone::system().to_ambiguous_zoned(today.tomorrow().ok()?.to_datetime(jiff::civil::Time::MAX));
    let is_to_come = tomorrow.compatible().is_ok_and(|tomorrow| this > tomorrow.timestamp());
    match is_to_come {
        true => Some((at(&format!("{} {head}", today.year() - 1), "%Y %b %e %H:%M:%S")?, rest)),
        false => Some((this, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syslog_lines_are_parsed_and_others_kept_as_text() {
        let today = Date::new(2026, 11, 16).unwrap();
        let check =
            |line: &str, time: Option<&str>, process: Option<&str>, pid: Option<i64>, message: &str| {
                let found = parse_line(line, today);
                // Times without a zone are local.
                let found_time = found.time.map(|time| time.get(..10).unwrap_or_default().to_owned());
                assert_eq!(found_time.as_deref(), time, "{line}");
                assert_eq!((found.process.as_deref(), found.pid), (process, pid), "{line}");
                assert_eq!(found.message, message, "{line}");
            };
        check(
            "2026-11-16T10:11:12.5+00:00 host sshd[812]: hello: you",
            Some("2026-11-16"),
            Some("sshd"),
            Some(812),
            "hello: you",
        );
        check("Nov 15 12:11:12 host cron: ran", Some("2026-11-15"), Some("cron"), None, "ran");
        check("Nov  5 12:00:00 host cron[7]: ran", Some("2026-11-05"), Some("cron"), Some(7), "ran");
        check("Dec 24 12:11:12 host cron: ran", Some("2025-12-24"), Some("cron"), None, "ran");
        check(
            "2026-04-09 12:12:00 status installed x: y",
            Some("2026-04-09"),
            None,
            None,
            "status installed x: y",
        );
        check("no time at all", None, None, None, "no time at all");
    }
}
