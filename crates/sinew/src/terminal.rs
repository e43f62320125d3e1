//! What reaches a person's screen: colours where they are wanted, and never a control character from outside.

use std::io::{IsTerminal, Write};

use anstyle::{AnsiColor, Style};

/// Green, for what went well.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Red, for what did not.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
/// Yellow, for what deserves a look.
pub(crate) const NOTE: Style = AnsiColor::Yellow.on_default();
/// Bold, for headings.
pub(crate) const STRONG: Style = Style::new().bold();
/// Dim, for what can be skipped.
pub(crate) const QUIET: Style = Style::new().dimmed();

/// Text in a style.
pub(crate) fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Prints a line of results. A closed pipe is the reader's choice, not an error.
pub(crate) fn say(line: impl std::fmt::Display) {
    let _ = writeln!(anstream::stdout(), "{line}");
}

/// Prints a line of talk, beside the results.
pub(crate) fn tell(line: impl std::fmt::Display) {
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// Writes text from outside: as it is into a pipe, with control characters made visible on a terminal.
pub(crate) fn show_foreign(text: &str) {
    let mut out = std::io::stdout().lock();
    let shown = if out.is_terminal() { visible(text) } else { text.to_owned() };
    let _ = out.write_all(shown.as_bytes());
    if !shown.ends_with('\n') && out.is_terminal() {
        let _ = out.write_all(b"\n");
    }
    let _ = out.flush();
}

/// The text with everything that could move a cursor, hide or reorder written out as an escape. Lines and tabs stay.
pub(crate) fn visible(text: &str) -> String {
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
pub(crate) fn visible_line(text: &str) -> String {
    visible(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// Controls, and the format characters that hide, join or reorder what is next to them.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(u32::from(c),
            0xad | 0x34f | 0x61c | 0x115f | 0x1160 | 0x17b4 | 0x17b5 | 0x180b..=0x180f
            | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0x3164 | 0xfe00..=0xfe0f
            | 0xfeff | 0xffa0 | 0xfff0..=0xfffb | 0xe0000..=0xe0fff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_unseen_reaches_the_screen() {
        assert_eq!(
            visible("a\u{1b}[2Jb\rc\u{202e}d\u{200b}e\u{9b}f\u{e0041}"),
            "a\\u{1b}[2Jb\\u{d}c\\u{202e}d\\u{200b}e\\u{9b}f\\u{e0041}"
        );
        assert_eq!(visible("tab\tline\né 日本 🙂"), "tab\tline\né 日本 🙂");
        assert_eq!(visible_line("a\nb"), "a\\nb");
    }
}
