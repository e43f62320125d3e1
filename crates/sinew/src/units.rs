//! Times, durations and sizes as people read them: local time, and rounded to what is worth knowing.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Formats a time in the time zone of this machine: the time of a day that is today, else with its date.
pub(crate) fn local_time(time: Timestamp) -> String {
    let (zoned, now) = (time.to_zoned(TimeZone::system()), Timestamp::now().to_zoned(TimeZone::system()));
    zoned.strftime(if zoned.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" }).to_string()
}

/// Formats a time for a row of a list: the time of a day that is today, else its date without seconds.
pub(crate) fn short_local_time(time: Timestamp) -> String {
    let (zoned, now) = (time.to_zoned(TimeZone::system()), Timestamp::now().to_zoned(TimeZone::system()));
    let form = match (zoned.date() == now.date(), zoned.year() == now.year()) {
        (true, _) => "%H:%M:%S",
        (false, true) => "%b %e %H:%M",
        (false, false) => "%Y-%m-%d",
    };
    zoned.strftime(form).to_string()
}

/// Formats a time of a reply, which is in RFC 3339.
pub(crate) fn local_time_text(text: &str) -> String {
    text.parse().map_or_else(|_| tool::text::escape_invisible_line(text), local_time)
}

/// Formats a duration in microseconds: milliseconds below a second, then its two largest units.
pub(crate) fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..10_000 => format!("{}.{} ms", us / 1_000, us % 1_000 / 100),
        10_000..1_000_000 => format!("{} ms", us / 1_000),
        1_000_000..60_000_000 => format!("{}.{} s", us / 1_000_000, us % 1_000_000 / 100_000),
        _ => span(us / 1_000_000),
    }
}

/// Formats a number of seconds in its two largest units.
pub(crate) fn span(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let parts = match (days, hours, minutes) {
        (0, 0, 0) => [(seconds, "s"), (0, "")],
        (0, 0, _) => [(minutes, "min"), (seconds % 60, "s")],
        (0, ..) => [(hours, "h"), (minutes % 60, "min")],
        _ => [(days, "d"), (hours % 24, "h")],
    };
    match parts {
        [(first, unit), (0, _)] => format!("{first} {unit}"),
        [(first, unit), (second, smaller)] => format!("{first} {unit} {second} {smaller}"),
    }
}

/// Formats a number of bytes in its largest unit.
pub(crate) fn byte_count(bytes: u64) -> String {
    let scaled = |unit: u64| format!("{}.{}", bytes / unit, bytes % unit * 10 / unit);
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", scaled(1024)),
        1_048_576..1_073_741_824 => format!("{} MiB", scaled(1_048_576)),
        _ => format!("{} GiB", scaled(1_073_741_824)),
    }
}

/// Formats a count with its noun, which is in the singular for one.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_for_people() {
        let durations = [999, 1_500, 96_400, 2_340_000, 61_000_000].map(duration);
        assert_eq!(durations, ["999 µs", "1.5 ms", "96 ms", "2.3 s", "1 min 1 s"]);
        assert_eq!(
            [byte_count(1023), byte_count(1536), byte_count(10 << 20), byte_count(5 << 30)],
            ["1023 B", "1.5 KiB", "10.0 MiB", "5.0 GiB"]
        );
    }

    #[test]
    fn span_has_its_two_largest_units() {
        for (seconds, expect) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3_661, "1 h 1 min"),
            (86_399, "23 h 59 min"),
            (90 * 86_400 + 7_200, "90 d 2 h"),
        ] {
            assert_eq!(span(seconds), expect, "{seconds}");
        }
    }

    #[test]
    fn time_of_another_day_has_its_date() {
        assert_eq!(local_time(Timestamp::now()).len(), 8);
        assert!(local_time(Timestamp::UNIX_EPOCH).len() > 8);
        assert_eq!(short_local_time(Timestamp::now()).len(), 8);
        assert!(short_local_time(Timestamp::UNIX_EPOCH).starts_with("19"));
        assert_eq!(local_time_text("not a time\u{7}"), "not a time\\u{7}");
    }
}
