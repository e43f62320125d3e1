//! JSON strings: which characters are escaped, and how runs of other characters are found.

use super::short;
use crate::canonical::hex_digits;

/// Characters to escape in addition to those that JSON requires.
#[derive(Clone, Copy, Debug)]
pub enum Texts {
    /// No others.
    Plain,
    /// Characters for which the function returns true: those a terminal, an editor or a line splitter may
    /// interpret as more than text. The function is called only for characters outside printable ASCII.
    Visible(fn(char) -> bool),
}

/// Number of bytes checked at once.
const RUN: usize = 32;

impl Texts {
    /// Writes a string with its quotes.
    pub(crate) fn quote(self, out: &mut Vec<u8>, text: &str) {
        if self.takes_as_it_is(text.as_bytes()) {
            quote_plain(out, text)
        } else {
            self.quote_escaped(out, text)
        }
    }

    /// Returns true if a fast check shows that no byte needs an escape, which is the usual case.
    #[inline]
    fn takes_as_it_is(self, bytes: &[u8]) -> bool {
        match (self, bytes.len() < RUN) {
            (Texts::Plain, true) => short::is_plain(bytes),
            (Texts::Visible(_), true) => short::is_printable(bytes),
            // A long string is checked while it is copied.
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

    /// Writes serialised JSON. Hidden characters occur only inside its strings, where an escape means the
    /// same.
    pub(super) fn raw(self, out: &mut Vec<u8>, json: &str) {
        match self {
            Texts::Plain => out.extend_from_slice(json.as_bytes()),
            Texts::Visible(is_hidden) => reveal(out, json, is_hidden),
        }
    }
}

/// Writes a string that needs no escape, with its quotes.
#[inline]
fn quote_plain(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// Writes a field or variant name from our own code, without a check: none of them needs an escape, and a
/// call writes more of them than of all other strings.
#[inline]
pub(super) fn quote_name(out: &mut Vec<u8>, name: &'static str) {
    debug_assert!(short::is_printable(name.as_bytes()), "{name:?} is a field name that needs an escape");
    quote_plain(out, name);
}

fn escape_visible(out: &mut Vec<u8>, text: &str, is_hidden: fn(char) -> bool) {
    let mut escaped = Vec::with_capacity(text.len() + RUN);
    escape(&mut escaped, text);
    // Escapes are ASCII, so the text is still valid UTF-8.
    reveal(out, std::str::from_utf8(&escaped).unwrap_or_default(), is_hidden);
}

/// Returns a non-zero value for a byte that JSON requires to be escaped.
#[inline]
fn unplain(byte: u8) -> u8 {
    u8::from(byte < b' ') | u8::from(byte == b'"') | u8::from(byte == b'\\')
}

/// Returns a non-zero value for DEL and every byte outside ASCII.
#[inline]
fn unseen(byte: u8) -> u8 {
    u8::from(byte >= 0x7f)
}

/// Returns true if `is` is zero for every byte. Has no early exit and works on bytes, so that it vectorises.
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

/// Splits at `at`, or at the end if there are fewer bytes.
fn split(bytes: &[u8], at: usize) -> (&[u8], &[u8]) {
    bytes.split_at_checked(at).unwrap_or((bytes, &[]))
}

/// Writes a chunk that contains a byte to escape, or the last bytes. Multi-line text has one such byte in
/// every second chunk.
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

/// Writes one byte as `serde_json` does.
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

/// Copies a text and escapes its hidden characters.
fn reveal(out: &mut Vec<u8>, text: &str, is_hidden: fn(char) -> bool) {
    if none(text.as_bytes(), unseen) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    let mut units = [0; 2];
    for c in text.chars() {
        // White space between the tokens of serialised JSON; inside a string it is already escaped.
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
