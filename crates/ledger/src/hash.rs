//! The seal of one line, and the text form it has in the record.

use std::fmt;

/// 32 bytes, written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hash(pub(crate) [u8; 32]);

impl Hash {
    /// What the first line of a ledger names as the one before it.
    pub(crate) const NONE: Hash = Hash([0; 32]);
    /// Digits in the text form.
    pub(crate) const DIGITS: usize = 64;

    /// Appends the text form.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        const TABLE: &[u8; 16] = b"0123456789abcdef";
        let digit = |nibble: u8| TABLE.get(usize::from(nibble)).copied().unwrap_or(b'0');
        out.extend(self.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
    }

    /// Reads the text form; upper case is refused, so that one seal has one spelling.
    pub(crate) fn parse(text: &[u8]) -> Option<Hash> {
        if text.len() != Hash::DIGITS {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            let &[high, low] = pair else { return None };
            *byte = nibble(high)? << 4 | nibble(low)?;
        }
        Some(Hash(bytes))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&tool::canonical::hex(&self.0))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
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
    fn one_spelling() {
        let hash = Hash(std::array::from_fn(|i| u8::try_from(i * 8).unwrap()));
        let mut text = Vec::new();
        hash.write(&mut text);
        assert_eq!(text, hash.to_string().as_bytes());
        assert_eq!(Hash::parse(&text), Some(hash));
        assert_eq!(Hash::parse(&text.to_ascii_uppercase()), None);
        assert_eq!(Hash::parse(text.get(..63).unwrap()), None);
        assert_eq!(Hash::parse(&[b'g'; 64]), None);
    }
}
