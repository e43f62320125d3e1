//! Texts from outside, in messages that people and models read: nothing in them moves a cursor, hides, or turns a line
//! round, by the same list as cards. Padding is left as it is; a card counts it.

use crate::is_unseen;

/// The text with everything that is hidden written out as an escape. Lines and tabs stay.
pub fn visible(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '\n' | '\t' => out.push(c),
            c if is_unseen(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
        out
    })
}

/// One line of [`visible`] text.
pub fn visible_line(text: &str) -> String {
    visible(text).replace('\n', "\\n").replace('\t', "\\t")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hidden_is_left() {
        assert_eq!(
            visible("a\u{1b}[2Jb\rc\u{202e}d\u{200b}e\u{9b}f\u{e0041}"),
            "a\\u{1b}[2Jb\\u{d}c\\u{202e}d\\u{200b}e\\u{9b}f\\u{e0041}"
        );
        assert_eq!(visible("tab\tline\né 日本 🙂 C:\\x"), "tab\tline\né 日本 🙂 C:\\x");
        assert_eq!(visible_line("a\nb\tc"), "a\\nb\\tc");
    }
}
