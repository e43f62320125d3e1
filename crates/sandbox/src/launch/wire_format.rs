//! Messages between daemon and launcher: a length, then the body. Messages with paths, arguments and variables
//! are words terminated by NUL, which none of them can contain, so they are transferred unchanged although
//! they need not be UTF-8. The other messages are JSON.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::Serialize;

/// Longest message; more than the longest command line a system accepts.
const MAX_MESSAGE_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of the length prefix.
pub(crate) const LENGTH_BYTES: usize = 4;

/// Message being written: pairs of a name and a value.
#[derive(Debug, Default)]
pub(crate) struct MessageWriter {
    bytes: Vec<u8>,
}

impl MessageWriter {
    /// Adds a named value. NUL bytes are dropped; the caller has already refused them.
    pub(crate) fn put(&mut self, name: &str, value: impl AsRef<OsStr>) {
        for word in [OsStr::new(name), value.as_ref()] {
            self.bytes.extend(word.as_bytes().iter().filter(|byte| **byte != 0));
            self.bytes.push(0);
        }
    }

    /// Adds a named number.
    pub(crate) fn put_number(&mut self, name: &str, value: u64) {
        self.put(name, value.to_string());
    }

    /// Returns the message with its length prefix.
    pub(crate) fn into_frame(self) -> Vec<u8> {
        framed(&self.bytes)
    }
}

/// Returns a JSON message with its length prefix.
pub(crate) fn framed_json(message: &impl Serialize) -> Vec<u8> {
    // These messages are plain structures, which always serialise. The reader refuses an empty body.
    framed(&serde_json::to_vec(message).unwrap_or_default())
}

fn framed(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    [&length.to_le_bytes()[..], body].concat()
}

/// Parses the pairs of a message.
pub(crate) fn parse_pairs(bytes: &[u8]) -> io::Result<Vec<(String, OsString)>> {
    let mut fields = bytes.split(|byte| *byte == 0);
    if bytes.is_empty() || fields.next_back() != Some(&[][..]) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "truncated message"));
    }
    let mut pairs = Vec::new();
    while let Some(name) = fields.next() {
        let value = fields
            .next()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "name without a value"))?;
        pairs.push((String::from_utf8_lossy(name).into_owned(), OsString::from_vec(value.to_vec())));
    }
    Ok(pairs)
}

/// Parses a value as a number.
pub(crate) fn parse_number(value: &OsStr) -> io::Result<u64> {
    let text = value.to_str().and_then(|text| text.parse().ok());
    text.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "invalid number"))
}

/// Parses the length prefix.
pub(crate) fn parse_length(head: [u8; LENGTH_BYTES]) -> io::Result<usize> {
    let length = u32::from_le_bytes(head) as usize;
    match length {
        0..=MAX_MESSAGE_BYTES => Ok(length),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "message too long")),
    }
}

/// Reads the body of a message of known length.
pub(crate) fn read_body(from: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_except_nul_round_trips() {
        let odd = OsString::from_vec((1..=255).collect());
        let mut writer = MessageWriter::default();
        writer.put("a", &odd);
        writer.put_number("n", u64::MAX);
        writer.put("empty", "");
        let framed = writer.into_frame();
        let (head, body) = framed.split_at(LENGTH_BYTES);
        assert_eq!(parse_length(head.try_into().unwrap()).unwrap(), body.len());
        let read = parse_pairs(body).unwrap();
        assert_eq!(read[0], ("a".to_owned(), odd));
        assert_eq!(parse_number(&read[1].1).unwrap(), u64::MAX);
        assert_eq!(read[2].1, OsString::new());
    }

    #[test]
    fn truncated_or_oversized_message_is_refused() {
        assert!(parse_pairs(b"a\0b").is_err());
        assert!(parse_pairs(b"a\0").is_err());
        assert!(parse_pairs(b"").is_err());
        assert!(parse_length(u32::MAX.to_le_bytes()).is_err());
        assert!(parse_number(OsStr::new("-1")).is_err());
    }
}
