//! Check that short texts can be written into JSON without escaping. Most texts are names and words of a few
//! letters, hundreds in a call, so eight bytes are checked at once, without a branch for each.

/// One bit in each byte: the highest.
const HIGHEST: u64 = every(0x80);

/// Returns true if no byte has to be escaped.
pub(super) fn is_plain(bytes: &[u8]) -> bool {
    folded(bytes, unplain) == 0
}

/// Like `is_plain`, and all bytes must be printable ASCII.
pub(super) fn is_printable(bytes: &[u8]) -> bool {
    folded(bytes, |word| unplain(word) | (word & HIGHEST) | having(word, 0x7f)) == 0
}

/// Eight bytes at a time, and the last eight in the place of those that are fewer.
#[inline]
fn folded(bytes: &[u8], of: impl Fn(u64) -> u64) -> u64 {
    let (words, _) = bytes.as_chunks();
    words.iter().fold(of(last(bytes)), |found, word| found | of(u64::from_ne_bytes(*word)))
}

/// The last eight bytes, or all there are and something plain.
fn last(bytes: &[u8]) -> u64 {
    if let Some(last) = bytes.last_chunk() {
        return u64::from_ne_bytes(*last);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return u64::from(u32::from_ne_bytes(*first)) | u64::from(u32::from_ne_bytes(*last)) << 32;
    }
    let mut few = [b' '; 8];
    few.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
    u64::from_ne_bytes(few)
}

/// Not zero where a byte is a control character, a quote or a backslash.
fn unplain(word: u64) -> u64 {
    below(word, b' ') | having(word, b'"') | having(word, b'\\')
}

/// Not zero where a byte is this one.
fn having(word: u64, byte: u8) -> u64 {
    below(word ^ every(byte), 1)
}

/// Not zero where a byte is below this one, which is at most 128. The lowest such byte borrows and so gets its highest bit;
/// without one there is no borrow, and only a byte that had its highest bit can keep it.
fn below(word: u64, byte: u8) -> u64 {
    word.wrapping_sub(every(byte)) & !word & HIGHEST
}

const fn every(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts_wherever_it_stands() {
        for length in 0..=33 {
            for filler in [b' ', b'x', b'!', b'#', b'[', b']', b'~'] {
                let text = vec![filler; length];
                assert!(is_plain(&text) && is_printable(&text), "{text:?}");
                for place in 0..length {
                    for byte in 0..=u8::MAX {
                        let mut text = text.clone();
                        text[place] = byte;
                        let plain = byte >= b' ' && byte != b'"' && byte != b'\\';
                        assert_eq!(is_plain(&text), plain, "{text:?}");
                        assert_eq!(is_printable(&text), plain && byte < 0x7f, "{text:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_byte_hides_another() {
        for high in 0..=u8::MAX {
            for low in 0..=u8::MAX {
                let text = [high, low, b'x', low, high, b'x', b'x', b'x'];
                let plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
                assert_eq!(is_plain(&text), plain(high) && plain(low), "{text:?}");
            }
        }
    }
}
