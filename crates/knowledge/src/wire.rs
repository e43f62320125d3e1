//! What goes between the daemon and a worker: a length and a JSON text, both ways.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The longest message: the arguments of the largest call, and the text of a function.
pub(crate) const LONGEST: usize = 48 * 1024 * 1024;
/// The length before a message.
pub(crate) const HEAD: usize = 4;

/// What a worker is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request<'a> {
    pub(crate) task: Task,
    pub(crate) time_ms: u64,
    pub(crate) source: std::borrow::Cow<'a, str>,
    /// JSON text: it is parsed where the function runs, and nowhere before.
    pub(crate) argument: std::borrow::Cow<'a, str>,
    pub(crate) helpers: Vec<(std::borrow::Cow<'a, str>, std::borrow::Cow<'a, str>)>,
}

/// What is to be done with a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// See whether it can be parsed.
    Parse,
    /// Run it and answer with what it returns.
    Compute,
    /// Run it and read its verdict.
    Validate,
}

/// What a worker says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// It can be asked.
    Ready,
    /// It can be parsed.
    Parsed,
    /// What it returned, as JSON text.
    Value(String),
    /// A well-formed verdict.
    Verdict {
        valid: bool,
        errors: Vec<String>,
    },
    /// It returned something else.
    Shape(String),
    Threw(String),
    Syntax {
        line: usize,
        column: usize,
        message: String,
    },
    OutOfMemory,
    TimedOut,
    /// The engine could not be set up.
    Broken(String),
}

/// A message with its length.
pub(crate) fn framed<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; HEAD];
    serde_json::to_writer(&mut bytes, message)?;
    let length = u32::try_from(bytes.len() - HEAD).map_err(|_| too_long())?;
    if let Some(head) = bytes.first_chunk_mut() {
        *head = length.to_le_bytes();
    }
    Ok(bytes)
}

/// How long the message after this head is.
pub(crate) fn length(head: [u8; HEAD]) -> io::Result<usize> {
    let length = usize::try_from(u32::from_le_bytes(head)).unwrap_or(usize::MAX);
    if length > LONGEST { Err(too_long()) } else { Ok(length) }
}

/// A message of a given body.
pub(crate) fn parse<'b, T: Deserialize<'b>>(body: &'b [u8]) -> io::Result<T> {
    Ok(serde_json::from_slice(body)?)
}

/// The next message, or nothing where the other side has gone.
pub(crate) fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut head = [0; HEAD];
    match from.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let mut body = vec![0; length(head)?];
    from.read_exact(&mut body)?;
    parse(&body).map(Some)
}

/// Sends a message.
pub(crate) fn write<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    to.write_all(&framed(message)?)?;
    to.flush()
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the message is too long")
}
