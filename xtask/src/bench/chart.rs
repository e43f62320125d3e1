//! Bar chart of the medians on a logarithmic scale, as an SVG that any browser shows in light and dark.

use std::fmt::Write;

use super::results::{Figure, Results};
use super::table::time;

const WIDTH: f64 = 900.0;
/// Horizontal position at which bars begin; the names are to the left of it.
const LEFT: f64 = 400.0;
/// Width reserved for the number after the longest bar.
const RIGHT: f64 = 90.0;
const ROW: f64 = 22.0;
const HEAD: f64 = 34.0;

/// Draws the figures of these groups, one below the other.
pub(crate) fn svg(results: &Results, groups: &[&str]) -> String {
    let of = |group: &&str| -> Vec<&Figure> {
        results
            .figures
            .iter()
            .filter(|figure| figure.group == *group && !figure.name.starts_with(' '))
            .collect()
    };
    let charts: Vec<(&str, Vec<&Figure>)> =
        groups.iter().map(|group| (*group, of(group))).filter(|(_, figures)| !figures.is_empty()).collect();
    let rows: usize = charts.iter().map(|(_, figures)| figures.len()).sum();
    let height = HEAD * charts.len() as f64 + ROW * rows as f64 + 12.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n<title>Medians, logarithmic: shorter is faster</title>\n\
         <style>text{{fill:#24292f}}.b{{fill:#8c959f}}.o{{fill:#1a7f5a}}@media(prefers-color-scheme:dark){{text{{fill:#e6edf3}}}}</style>\n"
    );
    let mut y = 0.0;
    for (group, figures) in charts {
        let _ =
            writeln!(svg, "<text x=\"8\" y=\"{}\" font-weight=\"bold\">{}</text>", y + 24.0, escaped(group));
        y += HEAD;
        for figure in &figures {
            let _ = writeln!(svg, "{}", bar(figure, &figures, y));
            y += ROW;
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn bar(figure: &Figure, all: &[&Figure], y: f64) -> String {
    let medians = all.iter().map(|figure| figure.p50.max(0.1));
    let (least, most) =
        medians.fold((f64::MAX, 0.0_f64), |(least, most), p50| (least.min(p50), most.max(p50)));
    // The scale begins at half the shortest median, so that its bar stays visible.
    let (from, to) = ((least / 2.0).log10(), most.log10());
    let part = (figure.p50.max(0.1).log10() - from) / (to - from).max(0.1);
    let length = (part * (WIDTH - LEFT - RIGHT)).max(1.0);
    let class = if figure.name.starts_with("Sinew") { "o" } else { "b" };
    format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text><rect class=\"{class}\" x=\"{LEFT}\" y=\"{}\" \
         width=\"{length:.1}\" height=\"14\"/><text x=\"{:.1}\" y=\"{}\">{}</text>",
        LEFT - 8.0,
        y + 12.0,
        escaped(&figure.name),
        y + 1.0,
        LEFT + length + 6.0,
        y + 12.0,
        time(figure.p50),
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> String {
        let mut results = Results::default();
        results.add("read <of> \"1 & 2\"", "Sinew", vec![25.0]);
        results.add("read <of> \"1 & 2\"", "their's > ours", vec![8000.0]);
        results.add("read <of> \"1 & 2\"", "  of Sinew's: a part", vec![1.0]);
        results.add("alone", "one", vec![0.0]);
        svg(&results, &["read <of> \"1 & 2\"", "alone", "not measured"])
    }

    /// Checks that elements are closed in order, attributes quoted and special characters escaped. Returns
    /// the number of elements.
    fn well_formed(text: &str) -> Result<usize, String> {
        let mut open: Vec<&str> = Vec::new();
        let mut elements = 0;
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (before, after) = rest.split_once('<').unwrap_or((rest, ""));
            if before.contains('>') && !open.contains(&"style")
                || open.is_empty() && !before.trim().is_empty()
            {
                return Err(format!("loose text `{before}`"));
            }
            if after.is_empty() {
                break;
            }
            let (tag, tail) = after.split_once('>').ok_or("a tag without an end")?;
            rest = tail;
            if let Some(name) = tag.strip_prefix('/') {
                let last = open.pop();
                if last != Some(name) {
                    return Err(format!("`{name}` ends {last:?}"));
                }
                continue;
            }
            elements += 1;
            if tag.matches('"').count() % 2 != 0 || tag.contains('<') {
                return Err(format!("attributes of `{tag}`"));
            }
            let name = tag.split([' ', '/']).next().unwrap_or_default();
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        for (place, _) in text.match_indices('&') {
            let entity = text.get(place..).and_then(|rest| rest.split_once(';')).map_or("", |(name, _)| name);
            if !["&amp", "&lt", "&gt", "&quot"].contains(&entity) {
                return Err(format!("a loose & at {place}"));
            }
        }
        if open.is_empty() { Ok(elements) } else { Err(format!("{open:?} are open")) }
    }

    #[test]
    fn the_chart_is_well_formed_svg() {
        let svg = chart();
        assert_eq!(well_formed(&svg), Ok(1 + 2 + 2 + 3 * 3), "{svg}");
        for wrong in ["<a>", "<a></b>", "<a x=\"></a>", "<a>&</a>", "x<a/>"] {
            assert!(well_formed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bars_grow_with_times_and_sinew_is_highlighted() {
        let svg = chart();
        let widths: Vec<f64> = svg
            .lines()
            .filter_map(|line| {
                line.split_once("<rect")?.1.split_once("width=\"")?.1.split_once('"')?.0.parse().ok()
            })
            .collect();
        assert_eq!(widths.len(), 3, "a part of another has no bar: {svg}");
        assert!(widths.windows(2).take(1).all(|pair| pair.first() < pair.last()), "{widths:?}");
        assert_eq!(svg.matches("class=\"o\"").count(), 1);
    }

    #[test]
    fn no_figures_give_an_empty_chart() {
        assert_eq!(well_formed(&svg(&Results::default(), &["nothing"])), Ok(3));
    }
}
