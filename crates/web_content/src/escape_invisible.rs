//! Escaping of invisible characters in page text: those that move the cursor, reverse a line, or hide words
//! from people but not from models.

/// Replaces such characters by `\u{…}`.
pub(crate) fn escape_invisible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            '\r' => {}
            c if is_hidden(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// Returns the text as one line with single spaces, cut to `longest` characters.
pub(crate) fn single_line(text: &str, longest: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let whole = escape_invisible(&words.join(" "));
    match whole.char_indices().nth(longest) {
        Some((at, _)) => format!("{}…", whole.get(..at).unwrap_or_default()),
        None => whole,
    }
}

fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'   // embeddings, overrides and isolates of direction
            | '\u{e0000}'..='\u{e0fff}'                          // invisible tags and variation selectors
            | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_and_control_characters_are_escaped() {
        let check = |text: &str, expect: &str| assert_eq!(escape_invisible(text), expect, "{text:?}");
        check("a\tb\r\nc", "a\tb\nc");
        check("\u{1b}[31mred", "\\u{1b}[31mred");
        check("abc\u{202e}fdp", "abc\\u{202e}fdp");
        check("\u{e0041}x", "\\u{e0041}x");
        check("\u{85}\u{9b}0m", "\\u{85}\\u{9b}0m");
        check("né ‏עברית 👨‍👩‍👧", "né ‏עברית 👨‍👩‍👧");
        assert_eq!(single_line(" a \n b\u{7} ", 10), "a b\\u{7}");
        assert_eq!(single_line("abcdef", 3), "abc…");
    }
}
