//! Benchmark page: puts the measured figures between two marks and keeps the text around them.

use std::path::Path;

use anyhow::{Context, Result};

use super::results::Results;
use super::{chart, table};

const FROM: &str = "<!-- measured: written by `cargo xtask bench --save` -->";
const TO: &str = "<!-- end of what was measured -->";

/// Writes the tables into the page, and the chart beside it.
pub(crate) fn write(
    page: &Path,
    picture: &Path,
    results: &Results,
    (machine, groups): (&str, &[&str]),
) -> Result<()> {
    let text = std::fs::read_to_string(page).with_context(|| format!("no page at `{}`", page.display()))?;
    let measured = format!(
        "![Medians of one run](benchmarks/chart.svg)\n\nMeasured on {machine}.\n\n{}",
        table::markdown(results)
    );
    let text = between(&text, &measured)
        .with_context(|| format!("`{}` has not both of its marks", page.display()))?;
    std::fs::write(page, text)?;
    Ok(std::fs::write(picture, chart::svg(results, groups))?)
}

/// Replaces the text between the marks of the page.
fn between(page: &str, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(FROM)?;
    let (_, after) = rest.split_once(TO)?;
    Some(format!("{before}{FROM}\n\n{}\n\n{TO}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_between_the_marks_changes() {
        let page = format!("by hand\n\n{FROM}\nold\n{TO}\n\nby hand too\n");
        let once = between(&page, "new\n").unwrap();
        assert_eq!(once, format!("by hand\n\n{FROM}\n\nnew\n\n{TO}\n\nby hand too\n"));
        assert_eq!(between(&once, "new").as_deref(), Some(once.as_str()), "and twice is the same");
        assert_eq!(between("no marks", "new"), None);
        assert_eq!(between(FROM, "new"), None);
    }
}
