//! Stdio transport: a sandboxed server process with one message per line.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandbox::{Pipes, Served};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::task::JoinSet;
use tool::SandboxTier;

use super::hearing::{Heard, Hearing};
use super::message::Awaited;
use crate::error::McpError;

/// Allowance for the message around a result.
const ENVELOPE: usize = 64 * 1024;
/// Limit of bytes before a response, besides the response itself.
const MOST_BYTES: usize = 64 << 20;
/// Limit of whitespace bytes between lines.
const MOST_BLANK: usize = 1 << 20;
/// Timeout for reading the rest of standard error after the process has ended.
const TIME_TO_LISTEN: Duration = Duration::from_secs(5);
/// Number of bytes kept from the end of standard error.
const TAIL: usize = 2 * 1024;

/// Running server process.
pub(crate) struct Stdio {
    served: Served,
    input: pipe::Sender,
    output: BufReader<pipe::Receiver>,
    /// Start of an incomplete line.
    partial: Vec<u8>,
    /// Bytes and whitespace bytes received since the last request.
    heard: usize,
    blank: usize,
    said: Arc<Mutex<VecDeque<u8>>>,
    /// Task that reads standard error until it closes.
    listening: JoinSet<()>,
}

impl Stdio {
    pub(crate) fn new(served: Served, pipes: Pipes) -> Stdio {
        let Pipes { input, output, errors } = pipes;
        let said = Arc::default();
        let mut listening = JoinSet::new();
        listening.spawn(listen(errors, Arc::clone(&said)));
        let output = BufReader::with_capacity(64 * 1024, output);
        let partial = Vec::new();
        Stdio { served, input, output, partial, heard: 0, blank: 0, said, listening }
    }

    pub(crate) fn tier(&self) -> SandboxTier {
        self.served.tier()
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.served.is_alive()
    }

    /// Ends the process and waits for the post-run cleanup. Returns the end of its standard error, escaped
    /// for display.
    pub(crate) async fn end(self) -> (Result<(), McpError>, String) {
        let Stdio { served, mut listening, said, .. } = self;
        let ended = served.end().await.map(drop);
        // All writers have ended, so the task ends by itself; the timeout is a safeguard.
        let _ = tokio::time::timeout(TIME_TO_LISTEN, listening.join_next()).await;
        let said: Vec<u8> = said.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        (ended.map_err(McpError::from), tool::visible(&String::from_utf8_lossy(&said)))
    }

    /// Sends a request and waits for its response. Other messages are answered or ignored meanwhile.
    pub(crate) async fn ask(&mut self, awaited: Awaited, request: &Value) -> Result<Value, McpError> {
        let mut out = line_of(request);
        let mut hearing = Hearing::new(awaited);
        (self.heard, self.blank) = (0, 0);
        loop {
            let line = self.next_line(&mut out, awaited.most.saturating_add(ENVELOPE)).await?;
            match hearing.take(line).await? {
                Heard::Answer(answer) => return Ok(answer),
                Heard::Asked(reply) => out.extend(line_of(&reply)),
                Heard::Nothing => {}
            }
        }
    }

    /// Sends a notification.
    pub(crate) async fn tell(&mut self, notice: &Value) -> Result<(), McpError> {
        self.input.write_all(&line_of(notice)).await.map_err(|error| McpError::Lost(error.to_string()))
    }

    /// Reads the next line that is not empty and writes pending output meanwhile: a server that writes before
    /// it reads would otherwise deadlock with the client.
    async fn next_line(&mut self, out: &mut Vec<u8>, longest: usize) -> Result<Vec<u8>, McpError> {
        let lost = |error: std::io::Error| McpError::Lost(error.to_string());
        loop {
            tokio::select! {
                written = self.input.write(out), if !out.is_empty() => {
                    let written = written.map_err(lost)?;
                    out.drain(..written.min(out.len()));
                }
                part = self.output.fill_buf() => {
                    let part = part.map_err(lost)?;
                    if part.is_empty() {
                        return Err(McpError::Lost("the server closed its output".to_owned()));
                    }
                    // Blank lines are skipped in bulk: one at a time, a flood of them would last until the
                    // deadline.
                    if self.partial.is_empty() {
                        let blank = part.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
                        self.output.consume(blank);
                        self.blank = self.blank.saturating_add(blank);
                        if self.blank > MOST_BLANK {
                            return Err(McpError::Endless("a megabyte of blank lines"));
                        }
                    }
                    let part = self.output.buffer();
                    let end = part.iter().position(|byte| *byte == b'\n');
                    let taken = end.unwrap_or(part.len());
                    self.partial.extend_from_slice(part.get(..taken).unwrap_or_default());
                    self.output.consume(taken + usize::from(end.is_some()));
                    self.heard = self.heard.saturating_add(taken).saturating_add(1);
                    if self.partial.len() > longest {
                        return Err(McpError::TooLong(longest));
                    }
                    if self.heard > MOST_BYTES.saturating_add(longest) {
                        return Err(McpError::Endless("sixty-four megabytes"));
                    }
                    if end.is_some() {
                        let line = std::mem::take(&mut self.partial);
                        if !line.trim_ascii().is_empty() {
                            return Ok(line);
                        }
                    }
                }
            }
        }
    }
}

fn line_of(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

async fn listen(mut errors: pipe::Receiver, said: Arc<Mutex<VecDeque<u8>>>) {
    let mut part = vec![0; 4096];
    while let Ok(read @ 1..) = errors.read(&mut part).await {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend(part.get(..read).unwrap_or_default());
        let over = said.len().saturating_sub(TAIL);
        said.drain(..over);
    }
}
