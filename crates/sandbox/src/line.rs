//! What daemon and launcher say to each other: a length, then words that end in NUL. Paths, arguments and variables
//! cannot contain one, so every one of them crosses unchanged, whatever its bytes are.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// More than the longest command line a system takes.
const LONGEST: usize = 8 * 1024 * 1024;
/// The bytes of a length.
pub(crate) const HEAD: usize = 4;

/// A message being written: pairs of a name and a value.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Adds a named value. A value with a NUL would be two, and whoever builds a message has ruled that out.
    pub(crate) fn put(&mut self, name: &str, value: impl AsRef<OsStr>) {
        for word in [OsStr::new(name), value.as_ref()] {
            self.bytes.extend(word.as_bytes().iter().filter(|byte| **byte != 0));
            self.bytes.push(0);
        }
    }

    /// Adds a named number.
    pub(crate) fn number(&mut self, name: &str, value: u64) {
        self.put(name, value.to_string());
    }

    /// The message with its length before it.
    pub(crate) fn framed(self) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        let mut framed = length.to_le_bytes().to_vec();
        framed.extend(self.bytes);
        framed
    }
}

/// The pairs of a message.
pub(crate) fn pairs(bytes: &[u8]) -> io::Result<Vec<(String, OsString)>> {
    let mut words = bytes.split(|byte| *byte == 0);
    if bytes.is_empty() || words.next_back() != Some(&[][..]) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is cut off"));
    }
    let mut pairs = Vec::new();
    while let Some(name) = words.next() {
        let value = words
            .next()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a name without a value"))?;
        pairs.push((String::from_utf8_lossy(name).into_owned(), OsString::from_vec(value.to_vec())));
    }
    Ok(pairs)
}

/// The number a value is.
pub(crate) fn number(value: &OsStr) -> io::Result<u64> {
    let text = value.to_str().and_then(|text| text.parse().ok());
    text.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a number"))
}

/// How long a message is, by the bytes before it.
pub(crate) fn length(head: [u8; HEAD]) -> io::Result<usize> {
    let length = u32::from_le_bytes(head) as usize;
    match length {
        0..=LONGEST => Ok(length),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long")),
    }
}

/// The rest of a message whose length is known.
pub(crate) fn read_body(from: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_but_nul_crosses_unchanged() {
        let odd = OsString::from_vec((1..=255).collect());
        let mut writer = Writer::default();
        writer.put("a", &odd);
        writer.number("n", u64::MAX);
        writer.put("empty", "");
        let framed = writer.framed();
        let (head, body) = framed.split_at(HEAD);
        assert_eq!(length(head.try_into().unwrap()).unwrap(), body.len());
        let read = pairs(body).unwrap();
        assert_eq!(read[0], ("a".to_owned(), odd));
        assert_eq!(number(&read[1].1).unwrap(), u64::MAX);
        assert_eq!(read[2].1, OsString::new());
    }

    #[test]
    fn what_is_cut_off_or_too_long_is_refused() {
        assert!(pairs(b"a\0b").is_err());
        assert!(pairs(b"a\0").is_err());
        assert!(pairs(b"").is_err());
        assert!(length(u32::MAX.to_le_bytes()).is_err());
        assert!(number(OsStr::new("-1")).is_err());
    }
}
