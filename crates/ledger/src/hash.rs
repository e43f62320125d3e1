//! Seal of one line, and its text form.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use tool::canonical::{append_hex, hex};

/// Hash of 32 bytes, written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SealHash(pub(crate) [u8; 32]);

impl SealHash {
    /// Previous hash of the first line of a ledger.
    pub(crate) const NONE: SealHash = SealHash([0; 32]);
    /// Number of digits of the text form.
    pub(crate) const DIGITS: usize = 64;

    /// Appends the text form.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        append_hex(out, &self.0);
    }

    /// Parses the text form. Upper case is rejected, so that each seal has exactly one spelling.
    pub(crate) fn parse(text: &[u8]) -> Option<SealHash> {
        if text.len() != SealHash::DIGITS {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            let &[high, low] = pair else { return None };
            *byte = nibble(high)? << 4 | nibble(low)?;
        }
        Some(SealHash(bytes))
    }
}

impl fmt::Display for SealHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for SealHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

impl Serialize for SealHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for SealHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        SealHash::parse(text.as_bytes()).ok_or_else(|| D::Error::custom("not a seal"))
    }
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_lower_case_form_of_64_digits_parses() {
        let hash = SealHash(std::array::from_fn(|i| u8::try_from(i * 8).unwrap()));
        let mut text = Vec::new();
        hash.write(&mut text);
        assert_eq!(text, hash.to_string().as_bytes());
        assert_eq!(SealHash::parse(&text), Some(hash));
        assert_eq!(SealHash::parse(&text.to_ascii_uppercase()), None);
        assert_eq!(SealHash::parse(text.get(..63).unwrap()), None);
        assert_eq!(SealHash::parse(&[b'g'; 64]), None);
    }
}
