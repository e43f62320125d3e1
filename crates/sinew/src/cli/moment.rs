//! Times as a person writes them: `2h` ago, `yesterday`, `last night`, a date or RFC 3339.

use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp, Zoned};

/// Hour at which `last night` begins.
const NIGHT_BEGINS: i8 = 18;

const FORMS: &str = "write 30s, 10m, 2h or 7d (ago), today, yesterday, \"last night\", a date such as 2026-01-31, or a \
                     time such as 2026-01-31T12:00:00Z";

/// Parses a time in the time zone of this machine.
pub(super) fn moment(text: &str) -> Result<Timestamp, String> {
    moment_at(text, &Zoned::now())
}

/// Parses a time as written at `now`. A day begins at midnight, and last night at 18:00 of the day before.
fn moment_at(text: &str, now: &Zoned) -> Result<Timestamp, String> {
    if let Some(ago) = parse_ago(text) {
        return now.timestamp().checked_sub(ago).map_err(|_| format!("`{text}` is too long ago"));
    }
    let day = match text.to_ascii_lowercase().as_str() {
        "now" => return Ok(now.timestamp()),
        "today" => now.start_of_day(),
        "yesterday" => now.yesterday().and_then(|day| day.start_of_day()),
        "last night" => now
            .yesterday()
            .and_then(|day| day.date().at(NIGHT_BEGINS, 0, 0, 0).to_zoned(now.time_zone().clone())),
        _ => match (text.parse::<Timestamp>(), text.parse::<Date>()) {
            (Ok(time), _) => return Ok(time),
            (_, Ok(date)) => date.to_zoned(now.time_zone().clone()),
            _ => return Err(FORMS.to_owned()),
        },
    };
    day.map(|day| day.timestamp()).map_err(|error| format!("`{text}`: {error}"))
}

fn parse_ago(text: &str) -> Option<SignedDuration> {
    let unit = text.chars().last()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        'w' => 7 * 24 * 60 * 60,
        _ => return None,
    };
    let count: u32 = text.strip_suffix(unit)?.parse().ok()?;
    Some(SignedDuration::from_secs(i64::from(count).checked_mul(seconds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_begin_at_local_midnight() {
        let now: Zoned = "2026-03-29T12:00:00+02:00[Europe/Berlin]".parse().unwrap();
        let check = |text: &str, expect: &str| {
            let expect: Timestamp = expect.parse().unwrap();
            assert_eq!(moment_at(text, &now), Ok(expect), "{text}");
        };
        check("now", "2026-03-29T10:00:00Z");
        // The clocks of that day went forward at 02:00.
        check("today", "2026-03-28T23:00:00Z");
        check("Yesterday", "2026-03-27T23:00:00Z");
        check("last night", "2026-03-28T17:00:00Z");
        check("2026-01-31", "2026-01-30T23:00:00Z");
        check("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z");
        check("2h", "2026-03-29T08:00:00Z");
        for wrong in ["", "m", "-1m", "1.5h", "10", "ten m", "10 m", "4294967296s", "tomorrow", "2026-02-30"]
        {
            assert_eq!(moment_at(wrong, &now), Err(FORMS.to_owned()), "{wrong}");
        }
        assert!(moment_at("4294967295w", &now).is_err(), "before the earliest timestamp");
    }

    #[test]
    fn durations_are_parsed_by_unit() {
        for (text, seconds) in
            [("0s", 0), ("90s", 90), ("10m", 600), ("2h", 7200), ("7d", 604_800), ("1w", 604_800)]
        {
            assert_eq!(parse_ago(text), Some(SignedDuration::from_secs(seconds)), "{text}");
        }
    }
}
