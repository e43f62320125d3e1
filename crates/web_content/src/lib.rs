//! Interpretation of documents from the network: decoding, character sets, text for a model, search results.
//!
//! `serve` reads one `ExtractionRequest` with the bytes of one document, and writes one `ExtractionReply`. It
//! is a pure function of those bytes, so that it can run in a sandbox without access to anything: the bytes
//! are untrusted, and an exploit of a parser stays in the worker. This crate opens no connection or file and
//! makes no decisions.

mod charset;
mod decode;
mod document_kind;
mod escape_invisible;
mod extraction;
mod html;
mod page_text;
mod results;
mod robots;
mod serve;
mod token_scan;

pub use extraction::{
    DocumentKind, ExtractionPurpose, ExtractionReply, ExtractionRequest, PagePart, PageText, SearchEngine,
    SearchFailure, SearchOutcome, WebSearchHit,
};
pub use serve::{read_reply, serve, write_request};
