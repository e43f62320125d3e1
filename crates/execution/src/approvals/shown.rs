//! The one way a text from outside gets onto a card: nothing in it can move a cursor, hide, reorder, or pass for empty
//! space. What is not plainly visible is written as an escape, and can be read back from it.

use std::fmt::Write;

/// Indentation is left as it is up to this; nobody's code is deeper, and a longer run pushes text off the screen.
const DEEPEST_INDENT: usize = 64;
/// Spaces between words are left as they are up to this.
const WIDEST_GAP: usize = 8;
/// Escapes of the same character are written one by one up to this, and counted beyond.
const LONGEST_RUN: usize = 3;

/// A text on one line, of visible characters only.
pub fn shown(text: &str) -> String {
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
            ' ' if (at_start && !at_end && count <= DEEPEST_INDENT) || (!at_end && count <= WIDEST_GAP) => {
                out.extend(std::iter::repeat_n(' ', count));
            }
            c if c != ' ' && !is_unseen(c) => {
                for _ in 0..count {
                    out.push(c);
                    if c == '\\' {
                        out.push('\\');
                    }
                }
            }
            c => escape(&mut out, c, count),
        }
        at_start = false;
    }
    out
}

fn escape(out: &mut String, c: char, count: usize) {
    let code = u32::from(c);
    if count > LONGEST_RUN {
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

/// Controls, format characters, whatever is ignored by default, spaces that are not the space, marks that are drawn over
/// their neighbours, and code points that belong to nobody.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || (c != ' ' && c.is_whitespace())
        || matches!(u32::from(c),
            0xad | 0x300..=0x36f | 0x483..=0x489 | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x890..=0x891 | 0x8e2
            | 0x115f | 0x1160 | 0x17b4 | 0x17b5 | 0x180b..=0x180f | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff
            | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0x20d0..=0x20ff | 0x2800 | 0x3164
            | 0xd800..=0xf8ff | 0xfdd0..=0xfdef | 0xfe00..=0xfe0f | 0xfe20..=0xfe2f | 0xfeff | 0xffa0
            | 0xfff0..=0xfffb | 0xfffe..=0xffff | 0x110bd | 0x110cd | 0x13430..=0x1345f | 0x1bca0..=0x1bca3
            | 0x1d159 | 0x1d173..=0x1d17a | 0xe0000..=0x10_ffff)
        || u32::from(c) & 0xfffe == 0xfffe
}

#[cfg(test)]
pub(crate) mod tests;
