//! Formatting of record times without the general printer, because every call waits for two of them.

use jiff::{Timestamp, fmt::temporal::DateTimePrinter, tz::Offset};
use tool::json_text::last_digit;

/// Appends a time in UTC with milliseconds: `2026-01-31T23:59:59.999Z`.
pub(crate) fn write_time(out: &mut Vec<u8>, time: Timestamp) {
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
    let civil = Offset::UTC.to_datetime(time);
    let Ok(year) = u64::try_from(civil.year()) else {
        return out.extend_from_slice(PRINTER.timestamp_to_string(&time).as_bytes());
    };
    let two = |number: i8| {
        let number = u64::from(number.unsigned_abs());
        [last_digit(number / 10), last_digit(number)]
    };
    let ([month_high, month], [day_high, day]) = (two(civil.month()), two(civil.day()));
    let ([hour_high, hour], [minute_high, minute]) = (two(civil.hour()), two(civil.minute()));
    let [second_high, second] = two(civil.second());
    let part = u64::from(civil.millisecond().unsigned_abs());
    out.extend_from_slice(&[
        last_digit(year / 1000),
        last_digit(year / 100),
        last_digit(year / 10),
        last_digit(year),
        b'-',
        month_high,
        month,
        b'-',
        day_high,
        day,
        b'T',
        hour_high,
        hour,
        b':',
        minute_high,
        minute,
        b':',
        second_high,
        second,
        b'.',
        last_digit(part / 100),
        last_digit(part / 10),
        last_digit(part),
        b'Z',
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_as_by_the_library() {
        let printer = DateTimePrinter::new().precision(Some(3));
        let check = |time: Timestamp| {
            let mut out = Vec::new();
            write_time(&mut out, time);
            assert_eq!(String::from_utf8(out).unwrap(), printer.timestamp_to_string(&time));
        };
        // These steps cover all seconds, minutes, hours, days and months of the calendar, including years
        // before 0.
        let span = Timestamp::MIN.as_second()..Timestamp::MAX.as_second();
        for second in span.step_by(86_400 * 17 + 3661) {
            check(Timestamp::new(second, (second % 1_000_000_000).abs().try_into().unwrap()).unwrap());
        }
        for text in ["2024-02-29T23:59:59.9999Z", "1969-12-31T23:59:59.0009Z", "0000-01-01T00:00:00Z"] {
            check(text.parse().unwrap());
        }
        check(Timestamp::MIN);
        check(Timestamp::MAX);
    }
}
