//! JSON as text, written fast: what most of a call's time with `serde_json` goes into is looking at texts byte by byte.
//!
//! The bytes are those that `serde_json` writes, for every value. Runs of characters that need no escape are found many
//! bytes at once and copied. Numbers are still `serde_json`'s.

mod texts;
mod writer;

use serde::Serialize;

pub use texts::Texts;

/// Appends a value without spaces. An error leaves part of it behind; texts, numbers, lists and maps with texts for keys have
/// none.
pub fn append<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    value: &T,
    texts: Texts,
) -> Result<(), serde_json::Error> {
    value.serialize(&mut writer::Writer::new(out, texts))
}

#[cfg(test)]
mod tests;
