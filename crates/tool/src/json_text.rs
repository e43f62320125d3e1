//! JSON as text, written fast: what most of a call's time with `serde_json` goes into is looking at texts byte by byte.
//!
//! The bytes are those that `serde_json` writes, for every value. Runs of characters that need no escape are found many
//! bytes at once and copied. Whole numbers of up to 64 bits are written here; wider ones and
//! those with a point are still `serde_json`'s.

mod digits;
mod short;
mod texts;
mod writer;
mod written;

use serde::Serialize;
use serde::ser::{Error as _, SerializeStruct};

pub use digits::{last_digit, write_number};
pub use texts::Texts;
pub use written::Written;

/// Appends a value without spaces. An error leaves part of it behind; texts, numbers, lists and maps with texts for keys have
/// none.
pub fn append<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    value: &T,
    texts: Texts,
) -> Result<(), serde_json::Error> {
    value.serialize(&mut writer::Writer::new(out, texts))
}

/// A value as JSON that is written already.
pub fn write<T: Serialize + ?Sized>(value: &T) -> Result<Written, serde_json::Error> {
    let mut out = Vec::with_capacity(USUAL_BYTES);
    append(&mut out, value, Texts::Plain)?;
    String::from_utf8(out).map(Written::new).map_err(serde_json::Error::custom)
}

/// Writes a field where there is something to say, for who writes an object field by field.
pub fn write_some<S: SerializeStruct>(
    out: &mut S,
    name: &'static str,
    value: Option<&impl Serialize>,
) -> Result<(), S::Error> {
    value.map_or(Ok(()), |value| out.serialize_field(name, value))
}

/// What most values take: one that takes more is moved while it is written.
const USUAL_BYTES: usize = 1024;

#[cfg(test)]
mod tests;
