//! Canonical byte form of a JSON value and its digest, which approvals, caches and the ledger compare.

use std::cell::Cell;
use std::ops::Deref;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::json_text::Texts;

/// Serialises a value with sorted keys and no spaces, so that equal values have equal bytes.
pub fn bytes(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(usual_length(value));
    write(value, &mut out);
    out
}

/// Like `bytes`, but reuses one buffer per thread, for bytes that are needed only briefly. Every call does
/// this twice, and the allocation takes longer than the writing.
pub fn bytes_for_now(value: &Value) -> ForNow {
    let mut out = ForNow(SPARE.try_with(Cell::take).unwrap_or_default());
    out.0.clear();
    out.0.reserve(usual_length(value));
    write(value, &mut out.0);
    out
}

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Largest buffer, in bytes, that a thread retains.
const MOST_SPARE: usize = 16 * 1024;

/// Bytes in a buffer that returns to its thread when dropped.
#[derive(Debug)]
pub struct ForNow(Vec<u8>);

impl Deref for ForNow {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for ForNow {
    fn drop(&mut self) {
        if self.0.capacity() <= MOST_SPARE {
            // The thread-local is gone while the thread exits; the buffer is then freed.
            let _ = SPARE.try_with(|spare| spare.set(std::mem::take(&mut self.0)));
        }
    }
}

/// Estimates the length of the serialised value. The buffer grows if the estimate is too small.
fn usual_length(value: &Value) -> usize {
    256 + text_bytes(value)
}

/// Sums the bytes of all strings, which make up most of a large value.
fn text_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(text_bytes).sum(),
        Value::Object(map) => map.values().map(text_bytes).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Returns the SHA-256 of `bytes(value)` in lower-case hexadecimal.
pub fn digest(value: &Value) -> String {
    sha256_hex(&bytes_for_now(value))
}

/// Returns the SHA-256 of `content` in lower-case hexadecimal.
pub fn sha256_hex(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

/// Encodes bytes in lower-case hexadecimal.
pub fn hex(content: &[u8]) -> String {
    let mut digits = vec![0; 2 * content.len()];
    let (pairs, _) = digits.as_chunks_mut();
    for (pair, byte) in pairs.iter_mut().zip(content) {
        *pair = hex_digits(*byte);
    }
    // Hexadecimal digits are ASCII, so the conversion cannot fail.
    String::from_utf8(digits).unwrap_or_default()
}

/// Returns the two hexadecimal digits of a byte without branching: every call writes hundreds of them.
#[inline]
pub const fn hex_digits(byte: u8) -> [u8; 2] {
    const fn digit(nibble: u8) -> u8 {
        b'0' + nibble + (nibble > 9) as u8 * (b'a' - b'0' - 10)
    }
    [digit(byte >> 4), digit(byte & 15)]
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Array(items) => write_joined(out, b'[', b']', items, write),
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by(|a, b| a.0.cmp(b.0));
            write_joined(out, b'{', b'}', entries, |(key, item), out| {
                Texts::Plain.quote(out, key);
                out.push(b':');
                write(item, out);
            });
        }
        Value::String(text) => Texts::Plain.quote(out, text),
        scalar => write_scalar(scalar, out),
    }
}

fn write_joined<T>(
    out: &mut Vec<u8>,
    open: u8,
    close: u8,
    items: impl IntoIterator<Item = T>,
    mut each: impl FnMut(T, &mut Vec<u8>),
) {
    out.push(open);
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        each(item, out);
    }
    out.push(close);
}

fn write_scalar(scalar: &impl Serialize, out: &mut Vec<u8>) {
    // Writing a number, boolean or null into a `Vec` cannot fail.
    let _ = serde_json::to_writer(out, scalar);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn digest_ignores_key_order_but_not_absence() {
        assert_eq!(digest(&json!({"a": 1, "b": [true]})), digest(&json!({"b": [true], "a": 1})));
        assert_ne!(digest(&json!({"a": null})), digest(&json!({})), "null is not absence");
        assert_ne!(digest(&json!({"a": 1})), digest(&json!({"a": "1"})));
        assert_eq!(String::from_utf8(bytes(&json!({"b": "\n", "a": []}))).unwrap(), r#"{"a":[],"b":"\n"}"#);
        assert_eq!(hex(&[0, 0xff, 0x1a]), "00ff1a");
        for text in ["", "plain", "é\u{7f}\u{2028}", "\"", "a\\b", "tab\t", "\u{1}", "x\u{1f}"] {
            assert_eq!(bytes(&json!({text: text})), json!({text: text}).to_string().into_bytes(), "{text:?}");
        }
    }

    #[test]
    fn buffer_is_reused_without_its_old_content() {
        let check = |value: Value| assert_eq!(*bytes_for_now(&value), *bytes(&value));
        let kept = || {
            SPARE.with(|spare| {
                let last = spare.take();
                let room = last.capacity();
                spare.set(last);
                room
            })
        };
        check(json!("x".repeat(2000)));
        check(json!("short"));
        assert!(kept() > 2000);
        let (one, other) = (bytes_for_now(&json!([1])), bytes_for_now(&json!([2])));
        assert_eq!((&*one, &*other), (&b"[1]"[..], &b"[2]"[..]), "two live buffers are distinct");
        drop((one, other));
        check(json!("y".repeat(MOST_SPARE)));
        assert!(kept() <= MOST_SPARE, "a large buffer is freed");
    }
}
