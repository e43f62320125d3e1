//! Escapes external text for display to the operator: nothing in it can move the cursor, hide or reorder
//! text, or imitate empty space. Characters that are not plainly visible are written as escapes, which can be
//! converted back.

use std::fmt::Write;

use tool::text::is_invisible;

/// Indentation up to this width is kept. Real code is not indented deeper, and a longer run pushes text off
/// the screen.
const MAX_INDENT: usize = 64;
/// Spaces between words are kept up to this width.
const MAX_GAP: usize = 8;
/// Escapes of the same character are written one by one up to this number, and as a count beyond it.
const MAX_REPEATED_ESCAPES: usize = 3;

/// Escapes a text to one line of visible characters.
pub fn escape_for_display(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut at_start = true;
    while let Some(c) = rest.next() {
        let mut count = 1;
        while rest.next_if_eq(&c).is_some() {
            count += 1;
        }
        let at_end = rest.peek().is_none();
        match c {
            ' ' if (at_start && !at_end && count <= MAX_INDENT) || (!at_end && count <= MAX_GAP) => {
                out.extend(std::iter::repeat_n(' ', count));
            }
            c if c != ' ' && !is_invisible(c) => {
                for _ in 0..count {
                    out.push(c);
                    if c == '\\' {
                        out.push('\\');
                    }
                }
            }
            c => push_escape(&mut out, c, count),
        }
        at_start = false;
    }
    out
}

fn push_escape(out: &mut String, c: char, count: usize) {
    let code = u32::from(c);
    if count > MAX_REPEATED_ESCAPES {
        let _ = write!(out, "\\{{{code:x}×{count}}}");
        return;
    }
    for _ in 0..count {
        let _ = match c {
            '\n' => write!(out, "\\n"),
            '\t' => write!(out, "\\t"),
            '\r' => write!(out, "\\r"),
            _ => write!(out, "\\u{{{code:x}}}"),
        };
    }
}

#[cfg(test)]
pub(crate) mod tests;
