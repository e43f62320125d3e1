//! Interpretation of documents from the network: decoding, character sets, text for a model, search results.
//!
//! `serve` reads one `ExtractionRequest` with the bytes of one document, and writes one `ExtractionReply`. It
//! is a pure function of those bytes, so that it can run in a sandbox without access to anything: the bytes
//! are untrusted, and an exploit of a parser stays in the worker. This crate opens no connection or file and
//! makes no decisions.

mod charset;
mod decode;
mod html;
mod kind;
mod order;
mod read;
mod results;
mod robots;
mod serve;
mod skim;
mod visible;

pub use order::{Engine, Failing, Found, Hit, Kind, Order, PageText, Purpose, Reading, View};
pub use serve::{read_reading, serve, write_order};
