//! Lays out text for a terminal: width, wrapping between words, and shortening. Escape sequences have no width, and none is
//! ever cut.

use unicode_width::UnicodeWidthChar;

const ESCAPE: char = '\u{1b}';
const RESET: &str = "\u{1b}[0m";

/// Returns the number of columns that a text takes on a terminal.
pub(crate) fn display_width(text: &str) -> usize {
    let mut width = 0;
    let mut in_escape = false;
    for c in text.chars() {
        match (in_escape, c) {
            (false, ESCAPE) => in_escape = true,
            (false, c) => width += c.width().unwrap_or(0),
            // A sequence that `paint` writes ends with its only letter.
            (true, c) => in_escape = !c.is_ascii_alphabetic(),
        }
    }
    width
}

/// Wraps a text between words, so that its lines have at most `width` columns. Continuation lines are indented like the line
/// that they continue, by `hanging` more. A word is broken only after `/` or `,`, and a longer one exceeds the width: a
/// terminal that breaks it lets it be copied in one piece.
pub(crate) fn wrap(text: &str, width: usize, hanging: usize) -> Vec<String> {
    text.split('\n').flat_map(|line| wrap_line(line, width, hanging)).collect()
}

fn wrap_line(line: &str, width: usize, hanging: usize) -> Vec<String> {
    if display_width(line) <= width {
        return vec![line.trim_end().to_owned()];
    }
    let leading = line.len() - line.trim_start_matches(' ').len();
    let mut wrapper = Wrapper::new(width, (leading + hanging).min(width / 2));
    for word in line.split_inclusive(' ') {
        let (text, space) = (word.trim_end_matches(' '), word.ends_with(' '));
        if display_width(text) > wrapper.room() {
            text.split_inclusive(['/', ',']).for_each(|piece| wrapper.add(piece));
        } else {
            wrapper.add(text);
        }
        wrapper.pending_spaces += usize::from(space);
    }
    wrapper.finish()
}

/// Lines that are filled word by word.
struct Wrapper {
    width: usize,
    indent: usize,
    lines: Vec<String>,
    line: String,
    line_width: usize,
    pending_spaces: usize,
    /// Escape sequences in effect at the end of `line`.
    style: String,
}

impl Wrapper {
    fn new(width: usize, indent: usize) -> Wrapper {
        Wrapper {
            width,
            indent,
            lines: Vec::new(),
            line: String::new(),
            line_width: 0,
            pending_spaces: 0,
            style: String::new(),
        }
    }

    /// Width of the longest word that fits a continuation line.
    fn room(&self) -> usize {
        self.width.saturating_sub(self.indent)
    }

    fn add(&mut self, word: &str) {
        let word_width = display_width(word);
        let begins_line = self.line_width == 0 || (self.line_width == self.indent && !self.lines.is_empty());
        if !begins_line && self.line_width + self.pending_spaces + word_width > self.width {
            self.break_line();
        }
        self.line.push_str(&" ".repeat(self.pending_spaces));
        self.line.push_str(word);
        self.line_width += self.pending_spaces + word_width;
        self.pending_spaces = 0;
        self.note_style(word);
    }

    /// A style ends with its line and begins again on the next one, so that it does not colour what stands beside it.
    fn break_line(&mut self) {
        if !self.style.is_empty() {
            self.line.push_str(RESET);
        }
        let next = format!("{}{}", " ".repeat(self.indent), self.style);
        self.lines.push(std::mem::replace(&mut self.line, next));
        (self.line_width, self.pending_spaces) = (self.indent, 0);
    }

    fn note_style(&mut self, word: &str) {
        for sequence in word.split(ESCAPE).skip(1) {
            let end = sequence.find(|c: char| c.is_ascii_alphabetic()).map_or(sequence.len(), |at| at + 1);
            match sequence.get(..end).unwrap_or_default() {
                "[0m" => self.style.clear(),
                begun => self.style.push_str(&format!("{ESCAPE}{begun}")),
            }
        }
    }

    fn finish(mut self) -> Vec<String> {
        self.lines.push(self.line);
        self.lines
    }
}

/// Shortens a text without styles at its beginning, because the end of a path is more informative.
pub(crate) fn keep_end(text: &str, width: usize) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    let mut kept: Vec<char> = Vec::new();
    let mut used = 1;
    for c in text.chars().rev() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept.iter().rev().collect()
}

/// Shortens a name at its end. A style that the text has ends with it.
pub(crate) fn keep_start(text: &str, width: usize) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    let (mut kept, mut used, mut in_escape) = (String::new(), 1, false);
    for c in text.chars() {
        let is_escape = in_escape || c == ESCAPE;
        in_escape = is_escape && !c.is_ascii_alphabetic();
        used += if is_escape { 0 } else { c.width().unwrap_or(0) };
        if used > width {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    if kept.contains(ESCAPE) {
        kept.push_str(RESET);
    }
    kept
}

/// Shortens a text at its end, between words.
pub(crate) fn keep_words(text: &str, width: usize) -> String {
    if display_width(text) <= width && !text.contains('\n') {
        return text.to_owned();
    }
    format!("{} …", wrap(text, width.saturating_sub(2), 0).swap_remove(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_have_no_width() {
        for (text, width) in [("", 0), ("abc", 3), ("\u{1b}[1m\u{1b}[31mred\u{1b}[0m", 3), ("日本", 4)] {
            assert_eq!(display_width(text), width, "{text:?}");
        }
    }

    #[test]
    fn lines_break_between_words() {
        let check = |text: &str, width: usize, expect: &[&str]| {
            assert_eq!(wrap(text, width, 2), expect, "{text:?} at {width}");
        };
        check("one two three", 7, &["one two", "  three"]);
        check("  one  two three four", 12, &["  one  two", "    three", "    four"]);
        check("short", 80, &["short"]);
        check("a\nb c", 80, &["a", "b c"]);
        check("see /one/two/three", 12, &["see /one/", "  two/three"]);
        // An id is never broken, even if it exceeds the width.
        check("id 01a1f24b-e727-7444", 10, &["id", "  01a1f24b-e727-7444"]);
    }

    #[test]
    fn style_ends_with_its_line() {
        let painted = "\u{1b}[31mone two\u{1b}[0m x";
        assert_eq!(wrap(painted, 4, 0), ["\u{1b}[31mone\u{1b}[0m", "\u{1b}[31mtwo\u{1b}[0m", "x"]);
    }

    #[test]
    fn end_of_a_path_is_kept() {
        assert_eq!(keep_end("/a/long/name.txt", 9), "…name.txt");
        assert_eq!(keep_end("name.txt", 8), "name.txt");
        assert_eq!(keep_words("one two three", 10), "one two …");
        assert_eq!(keep_start("system_metrics", 9), "system_m…");
        assert_eq!(keep_start("\u{1b}[31msystem\u{1b}[0m", 4), "\u{1b}[31msys…\u{1b}[0m");
        assert_eq!(keep_start("\u{1b}[31msystem\u{1b}[0m", 6), "\u{1b}[31msystem\u{1b}[0m");
    }
}
