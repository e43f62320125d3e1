//! Stdio transport: a sandboxed server process with one message per line.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandbox::{InteractiveProgram, StdioPipes};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::task::JoinSet;
use tool::ProgressNote;
use tool::result::SandboxTier;

use super::http::McpRequestContext;
use super::message::PendingResponse;
use super::response_wait::{ReceivedMessage, ResponseWait};
use super::server_key::{MaskSecrets, ServerSecrets, mask_message};
use crate::error::McpError;

/// Allowance for the message around a result.
const ENVELOPE_BYTES: usize = 64 * 1024;
/// Limit of bytes before a response, besides the response itself.
const MAX_BYTES_BEFORE_RESPONSE: usize = 64 << 20;
/// Limit of whitespace bytes between lines.
const MAX_BLANK_BYTES: usize = 1 << 20;
/// Timeout for reading the rest of standard error after the process has ended.
const STDERR_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of bytes kept from the end of standard error.
const STDERR_TAIL_BYTES: usize = 2 * 1024;

/// Running server process.
pub(crate) struct StdioTransport {
    process: InteractiveProgram,
    input: pipe::Sender,
    output: BufReader<pipe::Receiver>,
    /// Start of an incomplete line.
    partial: Vec<u8>,
    /// Bytes and whitespace bytes received since the last request.
    received_bytes: usize,
    blank_bytes: usize,
    /// Values of the server's own variables.
    secrets: ServerSecrets,
    stderr_tail: Arc<Mutex<VecDeque<u8>>>,
    /// Task that reads standard error until it closes.
    stderr_task: JoinSet<()>,
}

impl StdioTransport {
    pub(crate) fn new(
        served: InteractiveProgram,
        pipes: StdioPipes,
        secrets: ServerSecrets,
    ) -> StdioTransport {
        let StdioPipes { input, output, errors } = pipes;
        let text = Arc::default();
        let mut stderr_task = JoinSet::new();
        stderr_task.spawn(read_stderr(errors, Arc::clone(&text)));
        let output = BufReader::with_capacity(64 * 1024, output);
        let partial = Vec::new();
        StdioTransport {
            process: served,
            input,
            output,
            partial,
            received_bytes: 0,
            blank_bytes: 0,
            secrets,
            stderr_tail: text,
            stderr_task,
        }
    }

    pub(crate) fn tier(&self) -> SandboxTier {
        self.process.tier()
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.process.is_alive()
    }

    /// Ends the process and waits for the post-run cleanup. Returns the end of its standard error without
    /// secrets, escaped for display.
    pub(crate) async fn close(self) -> (Result<(), McpError>, String) {
        let StdioTransport { process, mut stderr_task, stderr_tail: text, secrets, .. } = self;
        let ended = process.end().await.map(drop);
        // All writers have ended, so the task ends by itself; the timeout is a safeguard.
        let _ = tokio::time::timeout(STDERR_TIMEOUT, stderr_task.join_next()).await;
        let text: Vec<u8> = text.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let text = String::from_utf8_lossy(&text);
        let masked = secrets.mask_secrets(&text);
        (ended.map_err(McpError::from), tool::text::escape_invisible(masked.as_deref().unwrap_or(&text)))
    }

    /// Sends a request and waits for its response, in which the server's own secrets are masked. Other messages
    /// are answered or ignored meanwhile.
    pub(crate) async fn request(
        &mut self,
        awaited: PendingResponse,
        request: &Value,
        context: McpRequestContext<'_>,
    ) -> Result<Value, McpError> {
        let result = self.unmasked_response(awaited, request, context).await;
        let masked = result.map(|response| mask_message(response, &self.secrets));
        masked.map_err(|error| error.masked(&self.secrets))
    }

    async fn unmasked_response(
        &mut self,
        awaited: PendingResponse,
        request: &Value,
        context: McpRequestContext<'_>,
    ) -> Result<Value, McpError> {
        let mut out = to_line(request);
        let mut response_wait = ResponseWait::new(awaited);
        (self.received_bytes, self.blank_bytes) = (0, 0);
        loop {
            let line = self.next_line(&mut out, awaited.max_bytes.saturating_add(ENVELOPE_BYTES)).await?;
            match response_wait.receive(line).await? {
                ReceivedMessage::Response(response) => return Ok(response),
                ReceivedMessage::ServerRequest(reply) => out.extend(to_line(&reply)),
                ReceivedMessage::Progress(note) => {
                    let message = self.secrets.mask_secrets(&note.message).unwrap_or(note.message);
                    context.progress.report(ProgressNote { message, ..note });
                }
                ReceivedMessage::Ignored => {}
            }
        }
    }

    /// Sends a notification.
    pub(crate) async fn notify(&mut self, notice: &Value) -> Result<(), McpError> {
        self.input
            .write_all(&to_line(notice))
            .await
            .map_err(|error| McpError::ConnectionLost(error.to_string()))
    }

    /// Reads the next line that is not empty and writes pending output meanwhile: a server that writes before
    /// it reads would otherwise deadlock with the client.
    async fn next_line(&mut self, out: &mut Vec<u8>, longest: usize) -> Result<Vec<u8>, McpError> {
        let lost = |error: std::io::Error| McpError::ConnectionLost(error.to_string());
        loop {
            tokio::select! {
                written = self.input.write(out), if !out.is_empty() => {
                    let written = written.map_err(lost)?;
                    out.drain(..written.min(out.len()));
                }
                part = self.output.fill_buf() => {
                    let part = part.map_err(lost)?;
                    if part.is_empty() {
                        return Err(McpError::ConnectionLost("the server closed its output".to_owned()));
                    }
                    // Blank lines are skipped in bulk: one at a time, a flood of them would last until the
                    // deadline.
                    if self.partial.is_empty() {
                        let blank = part.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
                        self.output.consume(blank);
                        self.blank_bytes = self.blank_bytes.saturating_add(blank);
                        if self.blank_bytes > MAX_BLANK_BYTES {
                            return Err(McpError::EndlessMessages("a megabyte of blank lines"));
                        }
                    }
                    let part = self.output.buffer();
                    let end = part.iter().position(|byte| *byte == b'\n');
                    let taken = end.unwrap_or(part.len());
                    self.partial.extend_from_slice(part.get(..taken).unwrap_or_default());
                    self.output.consume(taken + usize::from(end.is_some()));
                    self.received_bytes = self.received_bytes.saturating_add(taken).saturating_add(1);
                    if self.partial.len() > longest {
                        return Err(McpError::MessageTooLong(longest));
                    }
                    if self.received_bytes > MAX_BYTES_BEFORE_RESPONSE.saturating_add(longest) {
                        return Err(McpError::EndlessMessages("sixty-four megabytes"));
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

fn to_line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

async fn read_stderr(mut errors: pipe::Receiver, text: Arc<Mutex<VecDeque<u8>>>) {
    let mut part = vec![0; 4096];
    while let Ok(read @ 1..) = errors.read(&mut part).await {
        let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
        text.extend(part.get(..read).unwrap_or_default());
        let over = text.len().saturating_sub(STDERR_TAIL_BYTES);
        text.drain(..over);
    }
}
