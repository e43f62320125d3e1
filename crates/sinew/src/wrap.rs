//! Wraps long lines between words to a given width. Escape sequences for colours have no width.

use anstream::adapter::strip_str;

/// Returns the wrapped lines. Only a single word may exceed `width`; continuation lines are indented.
pub(crate) fn wrap(line: &str, width: usize) -> Vec<String> {
    let begin = line.chars().take_while(|c| *c == ' ').count();
    let indent = " ".repeat(begin + 2);
    let mut lines = vec![String::new()];
    let mut column = 0;
    for word in line.split_inclusive(' ') {
        let (length, bare) = (columns(word), columns(word.trim_end()));
        if column > 0 && column + bare > width {
            lines.push(indent.clone());
            column = indent.len();
        }
        if let Some(last) = lines.last_mut() {
            last.push_str(word);
        }
        column += length;
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

fn columns(text: &str) -> usize {
    strip_str(text).to_string().chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: &[&str]) {
        assert_eq!(wrap(line, 20), expect);
    }

    #[test]
    fn lines_break_between_words() {
        check("", &[""]);
        check("exactly twenty wide.", &["exactly twenty wide."]);
        check("this line is a little too long", &["this line is a", "  little too long"]);
        check("  rule: some.rule (/a/b:64)", &["  rule: some.rule", "    (/a/b:64)"]);
        check("one /word/that/is/longer/than/all x", &["one", "  /word/that/is/longer/than/all", "  x"]);
        check("  two  spaces   stay", &["  two  spaces   stay"]);
    }

    #[test]
    fn colour_codes_have_no_width() {
        check("\u{1b}[31mexactly\u{1b}[0m twenty wide.", &["\u{1b}[31mexactly\u{1b}[0m twenty wide."]);
    }
}
