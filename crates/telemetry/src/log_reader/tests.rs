//! Log reader on real files, written and rotated like the writer does it.

use std::fs;
use std::io::Write;

use super::*;

fn record(number: u32, level: &str) -> String {
    format!("{{\"time\":\"2026-01-01T00:00:{:02}.000Z\",\"level\":\"{level}\",\"n\":{number}}}", number % 60)
}

fn append(path: &Path, text: &str) {
    fs::File::options().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

fn numbers(lines: impl Iterator<Item = Result<LogLine, TelemetryError>>) -> Vec<u64> {
    lines.map(|line| line.unwrap().record()["n"].as_u64().unwrap()).collect()
}

#[test]
fn lines_are_read_oldest_first_and_filtered() {
    let home = tempfile::tempdir().unwrap();
    let all = |query| numbers(LogReader::open(home.path(), query).unwrap());
    assert_eq!(all(LogLineFilter::default()), [] as [u64; 0], "a missing log has no lines");
    append(&home.path().join("sinew.log.2"), &format!("{}\n{}\n", record(1, "INFO"), record(2, "DEBUG")));
    append(&home.path().join("sinew.log.1"), &format!("{}\ntorn {{\n", record(3, "ERROR")));
    append(&home.path().join("sinew.log"), &format!("{}\n{}", record(4, "WARN"), "{\"unfinished\":"));
    assert_eq!(all(LogLineFilter::default()), [1, 2, 3, 4]);
    assert_eq!(all(LogLineFilter { level: Level::INFO, since: None }), [1, 3, 4]);
    assert_eq!(all(LogLineFilter { level: Level::ERROR, since: None }), [3]);
    let since = Some("2026-01-01T00:00:03Z".parse().unwrap());
    assert_eq!(all(LogLineFilter { since, ..LogLineFilter::default() }), [3, 4]);
    let mut reader = LogReader::open(home.path(), LogLineFilter::default()).unwrap();
    assert_eq!(reader.by_ref().count(), 4);
    assert_eq!(reader.skipped(), 1);
}

#[test]
fn later_lines_are_read_across_several_rotations() {
    let home = tempfile::tempdir().unwrap();
    let newest = home.path().join("sinew.log");
    append(&newest, &format!("{}\n", record(1, "INFO")));
    let mut reader = LogReader::open(home.path(), LogLineFilter::default()).unwrap();
    assert_eq!(numbers(reader.by_ref()), [1]);
    append(&newest, "{\"time\":\"2026-01-01T00:00:02.000Z\",");
    assert_eq!(numbers(reader.by_ref()), [] as [u64; 0], "a partial line is not returned");
    append(&newest, "\"level\":\"INFO\",\"n\":2}\n");
    for number in 3..6 {
        for newer in (1..3).rev() {
            let _ = fs::rename(
                home.path().join(format!("sinew.log.{newer}")),
                home.path().join(format!("sinew.log.{}", newer + 1)),
            );
        }
        fs::rename(&newest, home.path().join("sinew.log.1")).unwrap();
        append(&newest, &format!("{}\n", record(number, "INFO")));
    }
    assert_eq!(numbers(reader.by_ref()), [2, 3, 4, 5]);
    append(&newest, &format!("{}\n", record(6, "INFO")));
    assert_eq!(numbers(reader.follow(Duration::from_millis(1)).take(1)), [6]);
}

#[test]
fn overlong_line_is_skipped() {
    let home = tempfile::tempdir().unwrap();
    let newest = home.path().join("sinew.log");
    append(&newest, &"x".repeat(3 << 20));
    append(&newest, &format!("\n{}\n", record(1, "INFO")));
    let mut reader = LogReader::open(home.path(), LogLineFilter::default()).unwrap();
    assert_eq!(numbers(reader.by_ref()), [1]);
    assert_eq!(reader.skipped(), 1);
}

#[test]
fn symlink_in_place_of_the_log_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("other"), record(1, "INFO")).unwrap();
    std::os::unix::fs::symlink(home.path().join("other"), home.path().join("sinew.log")).unwrap();
    let error = LogReader::open(home.path(), LogLineFilter::default()).unwrap_err();
    assert!(error.to_string().contains("sinew.log"), "{error}");
}

#[test]
fn human_format_escapes_control_characters() {
    let home = tempfile::tempdir().unwrap();
    let text = r#"{"time":"2026-01-01T00:00:01.500Z","level":"WARN","event":"tool_call_blocked","tool":"\u001b[2Jx","reason":"a b"}"#;
    append(&home.path().join("sinew.log"), &format!("{text}\n"));
    let line = LogReader::open(home.path(), LogLineFilter::default()).unwrap().next().unwrap().unwrap();
    assert_eq!(line.as_json(), text);
    let time: Timestamp = "2026-01-01T00:00:01.500Z".parse().unwrap();
    let local = time.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S%.3f").to_string();
    assert_eq!(
        line.format(ColourMode::Never),
        format!(r#"{local} WARN  tool_call_blocked tool=\u{{1b}}[2Jx reason="a b""#)
    );
    let painted = line.format(ColourMode::Ansi);
    assert!(
        painted.starts_with(&format!("\u{1b}[2m{local}")) && !painted.contains("\u{1b}[2Jx"),
        "{painted:?}"
    );
}
