//! Protocol between the daemon and a worker: length-prefixed JSON in both directions.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Maximum message length: the arguments of the largest call and the source of a function.
pub(crate) const MAX_MESSAGE_BYTES: usize = 48 * 1024 * 1024;
/// Size of the length prefix in bytes.
pub(crate) const LENGTH_PREFIX: usize = 4;

/// Request to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WorkerRequest<'a> {
    pub(crate) task: ScriptTask,
    pub(crate) time_ms: u64,
    pub(crate) source: std::borrow::Cow<'a, str>,
    /// JSON text, which is parsed only in the worker that runs the function.
    pub(crate) argument: std::borrow::Cow<'a, str>,
    pub(crate) helpers: Vec<(std::borrow::Cow<'a, str>, std::borrow::Cow<'a, str>)>,
}

/// Task for a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ScriptTask {
    /// Check its syntax.
    Parse,
    /// Run it and return its result.
    Compute,
    /// Run it and read its verdict.
    Validate,
}

/// Reply of a worker.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WorkerReply {
    /// The worker accepts requests.
    Ready,
    /// The function can be parsed.
    Parsed,
    /// Result of the function, as JSON text.
    Value(String),
    /// Well-formed verdict.
    Verdict {
        valid: bool,
        errors: Vec<String>,
    },
    /// The function returned something else.
    Shape(String),
    Threw(String),
    Syntax {
        line: usize,
        column: usize,
        message: String,
    },
    OutOfMemory,
    TimedOut,
    /// The engine could not be initialised.
    Broken(String),
}

/// Serialises a message with its length prefix.
pub(crate) fn frame<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; LENGTH_PREFIX];
    serde_json::to_writer(&mut bytes, message)?;
    let length = u32::try_from(bytes.len() - LENGTH_PREFIX).map_err(|_| too_long())?;
    if let Some(head) = bytes.first_chunk_mut() {
        *head = length.to_le_bytes();
    }
    Ok(bytes)
}

/// Decodes a length prefix and checks the limit.
pub(crate) fn decode_length(head: [u8; LENGTH_PREFIX]) -> io::Result<usize> {
    let length = usize::try_from(u32::from_le_bytes(head)).unwrap_or(usize::MAX);
    if length > MAX_MESSAGE_BYTES { Err(too_long()) } else { Ok(length) }
}

/// Parses the body of a message.
pub(crate) fn parse<'b, T: Deserialize<'b>>(body: &'b [u8]) -> io::Result<T> {
    Ok(serde_json::from_slice(body)?)
}

/// Reads the next message, or none if the peer closed the connection.
pub(crate) fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut head = [0; LENGTH_PREFIX];
    match from.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let mut body = vec![0; decode_length(head)?];
    from.read_exact(&mut body)?;
    parse(&body).map(Some)
}

/// Writes a message.
pub(crate) fn write<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    to.write_all(&frame(message)?)?;
    to.flush()
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the message is too long")
}
