//! Texts in quotes: which characters are escaped, and how runs of the others are found.

use super::short;
use crate::canonical::hex_digits;

/// Which characters are escaped, beside those that JSON demands.
#[derive(Clone, Copy, Debug)]
pub enum Texts {
    /// None.
    Plain,
    /// Those that this says are hidden: whatever a terminal, an editor or a line splitter could take for more than text. It is
    /// only asked for what is not printable ASCII.
    Visible(fn(char) -> bool),
}

/// Bytes that are looked at at once.
const RUN: usize = 32;

impl Texts {
    /// A text and its quotes.
    pub(crate) fn quote(self, out: &mut Vec<u8>, text: &str) {
        if self.takes_as_it_is(text.as_bytes()) {
            quote_plain(out, text)
        } else {
            self.quote_escaped(out, text)
        }
    }

    /// Whether nothing in it has to be escaped, which is nearly always so.
    #[inline]
    fn takes_as_it_is(self, bytes: &[u8]) -> bool {
        match (self, bytes.len() < RUN) {
            (Texts::Plain, true) => short::is_plain(bytes),
            (Texts::Visible(_), true) => short::is_printable(bytes),
            // A long one is looked at while it is copied.
            (Texts::Plain, false) => false,
            (Texts::Visible(_), false) => none(bytes, |byte| unplain(byte) | unseen(byte)),
        }
    }

    fn quote_escaped(self, out: &mut Vec<u8>, text: &str) {
        out.reserve(text.len() + 2);
        out.push(b'"');
        match self {
            Texts::Plain => escape(out, text),
            Texts::Visible(is_hidden) => escape_visible(out, text, is_hidden),
        }
        out.push(b'"');
    }

    /// JSON that is written already: hidden characters are in its texts only, where their escapes mean the same.
    pub(super) fn raw(self, out: &mut Vec<u8>, json: &str) {
        match self {
            Texts::Plain => out.extend_from_slice(json.as_bytes()),
            Texts::Visible(is_hidden) => reveal(out, json, is_hidden),
        }
    }
}

/// A text in which nothing has to be escaped, and its quotes.
#[inline]
fn quote_plain(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// A name that stands in our own code. None of them has anything to escape, so nobody looks: in a call there are more of
/// them than of all other texts.
#[inline]
pub(super) fn quote_name(out: &mut Vec<u8>, name: &'static str) {
    debug_assert!(short::is_printable(name.as_bytes()), "{name:?} is no name that can stand as it is");
    quote_plain(out, name);
}

fn escape_visible(out: &mut Vec<u8>, text: &str, is_hidden: fn(char) -> bool) {
    let mut escaped = Vec::with_capacity(text.len() + RUN);
    escape(&mut escaped, text);
    // Escapes are ASCII, so what was text is text still.
    reveal(out, std::str::from_utf8(&escaped).unwrap_or_default(), is_hidden);
}

/// Not zero for what JSON does not take as it is.
#[inline]
fn unplain(byte: u8) -> u8 {
    u8::from(byte < b' ') | u8::from(byte == b'"') | u8::from(byte == b'\\')
}

/// Not zero for what is no printable ASCII.
#[inline]
fn unseen(byte: u8) -> u8 {
    u8::from(byte >= 0x7f)
}

/// Whether no byte is. Without a way out in between, and in numbers as large as a byte, so that many are looked at at once.
#[inline]
fn none(bytes: &[u8], is: impl Fn(u8) -> u8) -> bool {
    bytes.iter().fold(0, |found, byte| found | is(*byte)) == 0
}

fn escape(out: &mut Vec<u8>, text: &str) {
    let mut left = text.as_bytes();
    while !left.is_empty() {
        let (runs, _) = left.as_chunks::<RUN>();
        let plain = runs.iter().take_while(|run| none(*run, unplain)).count() * RUN;
        let (plain, rest) = split(left, plain);
        out.extend_from_slice(plain);
        let (run, rest) = split(rest, RUN);
        escape_run(out, run);
        left = rest;
    }
}

/// The first so many bytes, or all there are, and the others.
fn split(bytes: &[u8], at: usize) -> (&[u8], &[u8]) {
    bytes.split_at_checked(at).unwrap_or((bytes, &[]))
}

/// A run with something to escape, or the last bytes. In a text of lines there is one such byte in every second run.
fn escape_run(out: &mut Vec<u8>, run: &[u8]) {
    let (words, rest) = run.as_chunks::<8>();
    for word in words {
        if short::is_plain(word) { out.extend_from_slice(word) } else { escape_bytes(out, word) }
    }
    if short::is_plain(rest) { out.extend_from_slice(rest) } else { escape_bytes(out, rest) }
}

fn escape_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        if unplain(*byte) == 0 { out.push(*byte) } else { escape_byte(out, *byte) }
    }
}

/// A byte of a text, as `serde_json` writes it.
fn escape_byte(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        0..b' ' => {
            let [high, low] = hex_digits(byte);
            return out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        }
        plain => return out.push(plain),
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// Copies a text, and escapes what is hidden in it.
fn reveal(out: &mut Vec<u8>, text: &str, is_hidden: fn(char) -> bool) {
    if none(text.as_bytes(), unseen) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    let mut units = [0; 2];
    for c in text.chars() {
        // White space between the parts of JSON that is written already; a text has none of it unescaped.
        if c.is_ascii_graphic() || matches!(c, ' ' | '\t' | '\n' | '\r') || !is_hidden(c) {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        for unit in c.encode_utf16(&mut units) {
            out.extend_from_slice(b"\\u");
            out.extend_from_slice(unit.to_be_bytes().map(hex_digits).as_flattened());
        }
    }
}
