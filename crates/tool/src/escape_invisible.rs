//! Escaping of untrusted text in messages for people and models, so that it cannot move the cursor, hide text
//! or reverse a line. Uses the same character list as approval requests. Padding is not changed here.

use crate::is_invisible;

/// Replaces every invisible character by its escape. Line breaks and tabs stay.
pub fn escape_invisible(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '\n' | '\t' => out.push(c),
            c if is_invisible(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
        out
    })
}

/// Like `escape_invisible`, and escapes line breaks and tabs too.
pub fn escape_invisible_line(text: &str) -> String {
    escape_invisible(text).replace('\n', "\\n").replace('\t', "\\t")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_invisible_character_is_escaped() {
        assert_eq!(
            escape_invisible("a\u{1b}[2Jb\rc\u{202e}d\u{200b}e\u{9b}f\u{e0041}"),
            "a\\u{1b}[2Jb\\u{d}c\\u{202e}d\\u{200b}e\\u{9b}f\\u{e0041}"
        );
        assert_eq!(escape_invisible("tab\tline\né 日本 🙂 C:\\x"), "tab\tline\né 日本 🙂 C:\\x");
        assert_eq!(escape_invisible_line("a\nb\tc"), "a\\nb\\tc");
    }
}
