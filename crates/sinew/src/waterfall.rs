//! Draws the stages of a call as bars on a time line. Pure text formatting without input or output.

/// Start and duration of one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) start_us: u64,
    pub(crate) duration_us: u64,
}

/// Draws one bar per line on a time line of `width` columns.
pub(crate) fn draw(bars: &[Bar], total_us: u64, width: usize) -> Vec<String> {
    let end = bars.iter().map(|bar| bar.start_us + bar.duration_us).max().unwrap_or(0);
    let total = total_us.max(end).max(1);
    let column =
        |at: u64| usize::try_from(u128::from(at) * width as u128 / u128::from(total)).unwrap_or(width);
    bars.iter()
        .map(|bar| {
            let start = column(bar.start_us).min(width.saturating_sub(1));
            // A stage too short for a column still gets one.
            let length =
                column(bar.start_us + bar.duration_us).saturating_sub(start).max(1).min(width - start);
            let rest = width - start - length;
            let line = [" ".repeat(start), "█".repeat(length), " ".repeat(rest)].concat();
            format!("{:<14}│{line}│ {}", bar.name, shown(bar.duration_us))
        })
        .collect()
}

/// Formats a duration in microseconds, milliseconds or seconds.
pub(crate) fn shown(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{}.{} ms", us / 1_000, us % 1_000 / 100),
        _ => format!("{}.{} s", us / 1_000_000, us % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, start_us: u64, duration_us: u64) -> Bar {
        Bar { name: name.into(), start_us, duration_us }
    }

    #[test]
    fn bars_are_placed_by_start_and_duration() {
        let lines = draw(&[bar("check", 0, 10), bar("run", 50, 50), bar("record", 100, 0)], 100, 10);
        assert_eq!(
            lines,
            [
                "check         │█         │ 10 µs",
                "run           │     █████│ 50 µs",
                "record        │         █│ 0 µs",
            ]
        );
    }

    #[test]
    fn extreme_values_keep_the_bar_width() {
        for bars in
            [vec![], vec![bar("a", 0, 0)], vec![bar("a", u64::MAX / 2, u64::MAX / 2)], vec![bar("a", 500, 1)]]
        {
            for line in draw(&bars, 1, 10) {
                assert_eq!(line.chars().filter(|c| *c == '│').count(), 2);
                assert_eq!(line.split('│').nth(1).unwrap().chars().count(), 10);
            }
        }
        assert_eq!([shown(999), shown(1_500), shown(2_340_000)], ["999 µs", "1.5 ms", "2.3 s"]);
    }
}
