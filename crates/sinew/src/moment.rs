//! Parser for points in time on the command line: relative (`10m`) or absolute (RFC 3339).

use jiff::{SignedDuration, Timestamp};

/// Parses `30s`, `10m`, `2h`, `7d` or `2w` (ago), or an RFC 3339 time.
pub(crate) fn parse(text: &str) -> Result<Timestamp, String> {
    match ago(text) {
        Some(duration) => {
            Timestamp::now().checked_sub(duration).map_err(|_| format!("`{text}` is too long ago"))
        }
        None => text
            .parse()
            .map_err(|_| "write 30s, 10m, 2h or 7d ago, or a time such as 2026-01-31T12:00:00Z".to_owned()),
    }
}

fn ago(text: &str) -> Option<SignedDuration> {
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
    fn relative_and_absolute_times_are_parsed() {
        for (text, seconds) in
            [("0s", 0), ("90s", 90), ("10m", 600), ("2h", 7200), ("7d", 604_800), ("1w", 604_800)]
        {
            assert_eq!(ago(text), Some(SignedDuration::from_secs(seconds)), "{text}");
        }
        for wrong in ["", "m", "-1m", "1.5h", "10", "ten m", "10 m", "4294967296s", "yesterday"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse("2026-01-31T12:00:00Z").unwrap().as_second(), 1_769_860_800);
        assert!(parse("4294967295w").is_err(), "before the earliest timestamp");
    }
}
