//! Canonical byte form of a JSON value and its digest, which approvals, caches and the ledger compare.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Serialises a value with sorted keys and no spaces, so that equal values have equal bytes.
pub fn bytes(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    append(&mut out, value);
    out
}

/// Appends a value with sorted keys and no spaces.
pub fn append(out: &mut Vec<u8>, value: &Value) {
    write(value, out);
}

/// Returns the SHA-256 of `bytes(value)` in lower-case hexadecimal.
pub fn digest(value: &Value) -> String {
    sha256_hex(&bytes(value))
}

/// Returns the SHA-256 of `content` in lower-case hexadecimal.
pub fn sha256_hex(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

/// Encodes bytes in lower-case hexadecimal.
pub fn hex(content: &[u8]) -> String {
    let mut digits = Vec::with_capacity(2 * content.len());
    append_hex(&mut digits, content);
    // Hexadecimal digits are ASCII, so the conversion cannot fail.
    String::from_utf8(digits).unwrap_or_default()
}

/// Appends bytes in lower-case hexadecimal.
pub fn append_hex(out: &mut Vec<u8>, content: &[u8]) {
    for byte in content {
        out.extend_from_slice(&hex_digits(*byte));
    }
}

/// Returns the two hexadecimal digits of a byte without branching: every call writes hundreds of them.
#[inline]
const fn hex_digits(byte: u8) -> [u8; 2] {
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
                write_scalar(key, out);
                out.push(b':');
                write(item, out);
            });
        }
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

fn write_scalar(scalar: &impl serde::Serialize, out: &mut Vec<u8>) {
    // Writing a string, number, boolean or null into a `Vec` cannot fail.
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
}
