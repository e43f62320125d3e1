//! Fast JSON serialiser. `serde_json` spends most of its share of a call on scanning strings byte by byte.
//!
//! The output is byte-identical to that of `serde_json` for every value. Runs of characters that need no
//! escape are found many bytes at a time and copied. Integers of up to 64 bits are written here; wider
//! integers and floating-point numbers are written by `serde_json`.

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

/// Appends a value without spaces. On error, part of the value remains in `out`. Strings, numbers, lists and
/// maps with string keys cannot fail.
pub fn append<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    value: &T,
    texts: Texts,
) -> Result<(), serde_json::Error> {
    value.serialize(&mut writer::Writer::new(out, texts))
}

/// Serialises a value.
pub fn write<T: Serialize + ?Sized>(value: &T) -> Result<Written, serde_json::Error> {
    let mut out = Vec::with_capacity(USUAL_BYTES);
    append(&mut out, value, Texts::Plain)?;
    String::from_utf8(out).map(Written::new).map_err(serde_json::Error::custom)
}

/// Writes a field if it has a value, for `Serialize` implementations that write an object field by field.
pub fn write_some<S: SerializeStruct>(
    out: &mut S,
    name: &'static str,
    value: Option<&impl Serialize>,
) -> Result<(), S::Error> {
    value.map_or(Ok(()), |value| out.serialize_field(name, value))
}

/// Initial capacity of the buffer, enough for most values.
const USUAL_BYTES: usize = 1024;

#[cfg(test)]
mod tests;
