//! Tables without borders that fit their width: columns shrink as each allows, optional ones are left out, and a table that
//! still does not fit becomes one block per row. No id, word or escape sequence is ever broken.

use crate::terminal::{DIM_STYLE, HEADING_STYLE, paint};
use crate::text_layout::{display_width, keep_end, keep_start, keep_words, wrap};

/// Spaces between two columns.
const GAP: usize = 2;
/// Width below which a column does not shrink.
const MIN_COLUMN_WIDTH: usize = 14;
/// Width below which a name is not shortened: most names of tools and outcomes have fewer characters.
const MIN_NAME_WIDTH: usize = 16;
/// Width below which a description says nothing.
const MIN_LINE_WIDTH: usize = 24;

/// Behaviour of a column in a table that is too wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    /// It never changes.
    Whole,
    /// It never changes, and is left out if there is no space for it. The highest number goes first.
    Optional(u8),
    /// Its cells wrap between words.
    Words,
    /// Its cells lose their beginning.
    End,
    /// Its cells lose their end.
    Start,
    /// Its cells lose words at their end.
    Line,
}

/// Column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    heading: &'static str,
    fit: Fit,
}

impl Column {
    /// Column that is never shortened, such as an id.
    pub(crate) fn whole(heading: &'static str) -> Column {
        Column { heading, fit: Fit::Whole }
    }

    /// Column that is left out if the table is too wide. The highest `rank` goes first.
    pub(crate) fn optional(heading: &'static str, rank: u8) -> Column {
        Column { heading, fit: Fit::Optional(rank) }
    }

    /// Column of paths, whose end is more informative than their beginning.
    pub(crate) fn path(heading: &'static str) -> Column {
        Column { heading, fit: Fit::End }
    }

    /// Column of names, whose beginning is more informative than their end.
    pub(crate) fn name(heading: &'static str) -> Column {
        Column { heading, fit: Fit::Start }
    }

    /// Column of descriptions, of which each row shows one line.
    pub(crate) fn line(heading: &'static str) -> Column {
        Column { heading, fit: Fit::Line }
    }
}

impl From<&'static str> for Column {
    fn from(heading: &'static str) -> Column {
        Column { heading, fit: Fit::Words }
    }
}

/// Rows of cells. A cell may have several lines and styles.
#[derive(Default)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Sets the columns. A table without headings has no header.
    pub(crate) fn set_header<C: Into<Column>>(&mut self, columns: impl IntoIterator<Item = C>) -> &mut Table {
        self.columns = columns.into_iter().map(Into::into).collect();
        self
    }

    pub(crate) fn add_row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) -> &mut Table {
        self.rows.push(cells.into_iter().map(Into::into).collect());
        self
    }

    /// Returns the lines of the table, which fit `width` if it is given.
    pub(crate) fn lines(&self, width: Option<usize>) -> Vec<String> {
        let layout = Layout::new(self);
        match layout.fit(width) {
            Some(columns) => self.row_lines(&columns),
            None => self.block_lines(width.unwrap_or(usize::MAX)),
        }
    }

    fn row_lines(&self, columns: &[(usize, Fit, usize)]) -> Vec<String> {
        let heading = |at: usize| self.columns.get(at).map_or("", |column| column.heading);
        let mut lines = Vec::new();
        if columns.iter().any(|(at, ..)| !heading(*at).is_empty()) {
            let cells = columns.iter().map(|(at, _, width)| {
                let painted =
                    if heading(*at).is_empty() { String::new() } else { paint(HEADING_STYLE, heading(*at)) };
                (vec![painted], *width)
            });
            lines.extend(join_cells(&cells.collect::<Vec<_>>()));
        }
        for row in &self.rows {
            let cell = |(at, fit, width): &(usize, Fit, usize)| {
                let text = row.get(*at).map_or("", String::as_str);
                let cell_lines = match fit {
                    Fit::Whole | Fit::Optional(_) => text.split('\n').map(str::to_owned).collect(),
                    Fit::Words => wrap(text, *width, 0),
                    Fit::End => text.split('\n').map(|line| keep_end(line, *width)).collect(),
                    Fit::Start => text.split('\n').map(|line| keep_start(line, *width)).collect(),
                    Fit::Line => vec![keep_words(text, *width)],
                };
                (cell_lines, *width)
            };
            lines.extend(join_cells(&columns.iter().map(cell).collect::<Vec<_>>()));
        }
        lines
    }

    /// Returns one block per row, with a line for each cell.
    fn block_lines(&self, width: usize) -> Vec<String> {
        let heading = |at: usize| self.columns.get(at).map_or("", |column| column.heading);
        let longest = (0..self.columns.len()).map(|at| display_width(heading(at))).max().unwrap_or(0);
        let indent = if longest == 0 { GAP } else { longest + GAP };
        let mut lines = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            if number > 0 && longest > 0 {
                lines.push(String::new());
            }
            for (at, cell) in row.iter().enumerate().filter(|(_, cell)| !cell.is_empty()) {
                let texts = wrap(cell, width.saturating_sub(indent).max(1), 0);
                for (line, text) in texts.iter().enumerate() {
                    lines.push(match (longest, at, line) {
                        (0, 0, _) => text.clone(),
                        (0, ..) => format!("{:indent$}{text}", ""),
                        (_, _, 0) => {
                            let gap = indent - display_width(heading(at));
                            format!("{}{:gap$}{text}", paint(DIM_STYLE, heading(at)), "")
                        }
                        _ => format!("{:indent$}{text}", ""),
                    });
                }
            }
        }
        lines
    }
}

/// Widths that the columns of a table need.
struct Layout {
    columns: Vec<(usize, Fit, usize)>,
    least: Vec<usize>,
}

impl Layout {
    fn new(table: &Table) -> Layout {
        let count = table.rows.iter().map(Vec::len).chain([table.columns.len()]).max().unwrap_or(0);
        let mut columns = Vec::new();
        let mut least = Vec::new();
        for at in 0..count {
            let column = table.columns.get(at).copied().unwrap_or_else(|| Column::from(""));
            let cells = || table.rows.iter().filter_map(|row| row.get(at)).flat_map(|cell| cell.split('\n'));
            let widest = cells().map(display_width).max().unwrap_or(0);
            if widest == 0 && !table.rows.is_empty() {
                // A column without content says nothing.
                continue;
            }
            let natural = widest.max(display_width(column.heading));
            // A path that would break becomes a line of its own in a block instead.
            let longest_word =
                || cells().flat_map(|cell| cell.split(' ')).map(display_width).max().unwrap_or(0);
            least.push(match column.fit {
                Fit::Whole | Fit::Optional(_) => natural,
                Fit::Words => {
                    longest_word().max(MIN_COLUMN_WIDTH).max(display_width(column.heading)).min(natural)
                }
                Fit::Line => MIN_LINE_WIDTH.min(natural),
                Fit::End => MIN_COLUMN_WIDTH.max(display_width(column.heading)).min(natural),
                Fit::Start => MIN_NAME_WIDTH.max(display_width(column.heading)).min(natural),
            });
            columns.push((at, column.fit, natural));
        }
        Layout { columns, least }
    }

    /// Returns the columns with their widths, or `None` if they cannot fit.
    fn fit(mut self, width: Option<usize>) -> Option<Vec<(usize, Fit, usize)>> {
        let Some(width) = width else { return Some(self.columns) };
        loop {
            let gaps = GAP * self.columns.len().saturating_sub(1);
            if self.least.iter().sum::<usize>() + gaps <= width {
                self.shrink(width.saturating_sub(gaps));
                return Some(self.columns);
            }
            let rank = |(_, fit, _): &(usize, Fit, usize)| {
                if let Fit::Optional(rank) = fit { Some(*rank) } else { None }
            };
            let dropped =
                (0..self.columns.len()).filter_map(|at| Some((rank(self.columns.get(at)?)?, at))).max();
            let (_, dropped) = dropped?;
            self.columns.remove(dropped);
            self.least.remove(dropped);
        }
    }

    /// Narrows the widest column that can shrink, until all fit.
    fn shrink(&mut self, width: usize) {
        loop {
            let total: usize = self.columns.iter().map(|(.., natural)| natural).sum();
            let Some(excess) = total.checked_sub(width).filter(|excess| *excess > 0) else { return };
            let can_shrink =
                self.columns.iter_mut().zip(&self.least).filter(|((.., now), least)| *now > **least);
            let Some(((.., now), least)) = can_shrink.max_by_key(|((.., now), _)| *now) else { return };
            // Small steps keep two wide columns about equally wide.
            *now = now.saturating_sub(excess.min(4)).max(*least);
        }
    }
}

/// Joins the cells of one row into lines without spaces at their ends.
fn join_cells(cells: &[(Vec<String>, usize)]) -> Vec<String> {
    let height = cells.iter().map(|(lines, _)| lines.len()).max().unwrap_or(0);
    (0..height)
        .map(|number| {
            let (mut line, mut pending) = (String::new(), 0);
            for (lines, width) in cells {
                let text = lines.get(number).map_or("", String::as_str);
                let used = display_width(text);
                if used > 0 {
                    line.push_str(&" ".repeat(pending));
                    line.push_str(text);
                    pending = 0;
                }
                pending += width.saturating_sub(used) + GAP;
            }
            line
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01a1f24b-e727-7444-8420-1e4a2af98bca";

    fn calls() -> Table {
        let mut table = Table::default();
        table.set_header([
            Column::whole("CALL"),
            Column::optional("TIME", 1),
            Column::path("TARGET"),
            "REASON".into(),
        ]);
        let reason = paint(crate::terminal::ERROR_STYLE, "the rule forbids this path in every mode");
        table.add_row([ID, "12:00:00", "/home/someone/project/src/main.rs", &reason]);
        table
    }

    fn plain(lines: &[String]) -> Vec<String> {
        lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    #[test]
    fn table_fits_every_width_and_keeps_ids_whole() {
        for width in 45..160 {
            let lines = plain(&calls().lines(Some(width)));
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}: {lines:#?}");
            let text = lines.join("\n");
            assert!(
                text.contains(ID) && text.contains("main.rs") && text.contains("forbids"),
                "{width}: {text}"
            );
            assert!(lines.iter().all(|line| !line.ends_with(' ')), "{lines:?}");
        }
    }

    #[test]
    fn optional_column_goes_before_the_rows_become_blocks() {
        let heads = |width| plain(&calls().lines(Some(width))).swap_remove(0);
        assert!(heads(120).contains("TIME"), "{}", heads(120));
        assert!(heads(72).starts_with("CALL") && !heads(72).contains("TIME"), "{}", heads(72));
        assert_eq!(heads(50), format!("CALL    {ID}"));
    }

    #[test]
    fn column_without_content_is_left_out() {
        let mut table = Table::default();
        table.set_header(["A", "B", "C"]).add_row(["1", "", "3"]);
        assert_eq!(plain(&table.lines(None)), ["A  C", "1  3"]);
    }

    #[test]
    fn every_line_of_a_painted_cell_has_its_style() {
        let mut table = Table::default();
        table.add_row(["key".to_owned(), paint(crate::terminal::ERROR_STYLE, "one two three four five six")]);
        let lines = table.lines(Some(20));
        assert!(lines.len() > 1 && lines.iter().all(|line| line.contains("\u{1b}[31m")), "{lines:?}");
        assert!(lines.iter().all(|line| line.ends_with("\u{1b}[0m")), "{lines:?}");
    }
}
