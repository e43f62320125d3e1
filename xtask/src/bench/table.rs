//! Results of a run as text: plain for the terminal, Markdown for the page.

use std::fmt::Write;

use super::results::{Bound, Claim, Figure, RATIO, Results};

/// Width of the first column.
const NAME: usize = 60;

/// Formats all results for a terminal.
pub(crate) fn plain(results: &Results) -> String {
    let mut text = String::new();
    let mut group = "";
    for figure in &results.figures {
        if figure.group != group {
            group = figure.group;
            let _ = write!(
                text,
                "\n{:<NAME$} {:>10} {:>10} {:>10} {:>10}\n",
                group, "p50", "p99", "calls/s", "processor"
            );
        }
        let [_, p50, p99, rate, processor] = cells(figure);
        let _ = writeln!(
            text,
            "  {:<w$} {p50:>10} {p99:>10} {rate:>10} {processor:>10}",
            figure.name,
            w = NAME - 2
        );
    }
    if !results.counts.is_empty() {
        let _ = write!(text, "\n{:<NAME$} {:>10}\n", "counts of one round", "count");
        for (name, count) in &results.counts {
            let count = rounded_count(*count);
            let _ = writeln!(text, "  {name:<w$} {count:>10}", w = NAME - 2);
        }
    }
    if !results.claims.is_empty() {
        let _ = write!(text, "\n{:<NAME$} {:>10} {:>12}\n", "bounds", "measured", "bound");
        for claim in &results.claims {
            let [name, measured, bound, result] = verdict(claim);
            let _ = writeln!(text, "  {name:<w$} {measured:>10} {bound:>12}  {result}", w = NAME - 2);
        }
    }
    for absent in &results.absent {
        let _ = write!(text, "\nnot measured: {absent}");
    }
    text
}

/// Formats all results as Markdown.
pub(crate) fn markdown(results: &Results) -> String {
    let mut text = "## Bounds\n\n| | measured | bound | |\n|---|---:|---:|---|\n".to_owned();
    for claim in &results.claims {
        let _ = writeln!(text, "| {} |", verdict(claim).join(" | "));
    }
    text.push_str("\n## Figures\n");
    let mut group = "";
    for figure in &results.figures {
        if figure.group != group {
            group = figure.group;
            let _ = write!(
                text,
                "\n| {group} | p50 | p99 | calls/s | processor per call |\n|---|---:|---:|---:|---:|\n"
            );
        }
        let _ = writeln!(text, "| {} |", cells(figure).join(" | "));
    }
    if !results.counts.is_empty() {
        text.push_str("\n| counts of one round | count |\n|---|---:|\n");
        for (name, count) in &results.counts {
            let count = rounded_count(*count);
            let _ = writeln!(text, "| {name} | {count} |");
        }
    }
    for absent in &results.absent {
        let _ = write!(text, "\nNot measured: {absent}.\n");
    }
    text
}

fn cells(figure: &Figure) -> [String; 5] {
    let rate = figure.per_second.map_or_else(String::new, |rate| format!("{rate:.0}"));
    let processor = figure.processor.map_or_else(String::new, time);
    [figure.name.clone(), time(figure.p50), time(figure.p99), rate, processor]
}

/// Formats a count: whole if it is large, with one decimal place otherwise.
fn rounded_count(count: f64) -> String {
    if count < 1000.0 { format!("{count:.1}") } else { format!("{count:.0}") }
}

fn verdict(claim: &Claim) -> [String; 4] {
    let (word, limit) = match claim.bound {
        Bound::AtMost(limit) => ("≤", limit),
        Bound::AtLeast(limit) => ("≥", limit),
    };
    let status = if claim.holds() { "ok" } else { "OVER" };
    let unit = if claim.unit == RATIO { RATIO.to_owned() } else { format!(" {}", claim.unit) };
    [
        claim.name.clone(),
        format!("{:.2}{unit}", claim.value),
        format!("{word} {limit}{unit}"),
        status.to_owned(),
    ]
}

/// Formats a time in the unit that fits, with one or two decimal places.
pub(crate) fn time(micros: f64) -> String {
    match micros {
        small if small < 999.95 => format!("{small:.1} µs"),
        large if large < 999_950.0 => format!("{:.2} ms", large / 1e3),
        longest => format!("{:.2} s", longest / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let mut results = Results::default();
        results.add("read of 1 KiB", "Sinew", vec![25.0]);
        results.add_load(("read of 1 KiB", "bare rmcp"), vec![50.0], (20_000.0, 26.0));
        results.add("a program", "plain", vec![1500.0]);
        results.claim("Sinew to bare rmcp", Some(0.5), "×", Bound::AtMost(1.0));
        results.claim("start", Some(60.0), "ms", Bound::AtMost(50.0));
        results.counts.insert("governance: judge".to_owned(), 1234.4);
        results.absent.push("srt: no npm".to_owned());
        results
    }

    #[test]
    fn a_terminal_shows_each_group_once_and_whether_bounds_hold() {
        let text = plain(&results());
        assert_eq!(text.matches("read of 1 KiB").count(), 1, "{text}");
        for part in
            ["25.0 µs", "1.50 ms", "20000", "26.0 µs", "≤ 1×  ok", "≤ 50 ms  OVER", "1234", "srt: no npm"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let rows: Vec<usize> =
            text.lines().filter(|line| line.contains(" µs")).map(|line| line.chars().count()).collect();
        assert!(rows.windows(2).all(|pair| pair.first() == pair.last()), "aligned: {text}");
    }

    #[test]
    fn a_page_has_tables_with_as_many_cells_as_heads() {
        let text = markdown(&results());
        let mut width = 0;
        for line in text.lines().filter(|line| line.starts_with('|')) {
            let cells = line.matches('|').count();
            if line.starts_with("|---") {
                assert_eq!(cells, width, "{text}");
            }
            width = cells;
        }
        assert!(text.contains("| start | 60.00 ms | ≤ 50 ms | OVER |"), "{text}");
    }

    #[test]
    fn times_are_in_the_unit_that_fits() {
        let cases =
            [(0.0, "0.0 µs"), (999.9, "999.9 µs"), (999.99, "1.00 ms"), (1234.0, "1.23 ms"), (2e6, "2.00 s")];
        for (micros, expect) in cases {
            assert_eq!(time(micros), expect);
        }
    }
}
