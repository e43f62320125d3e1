//! WebSocket client: an HTTP/1.1 request that the server answers with an upgrade, after which both sides send
//! text messages.
//!
//! The handshake has the same limits as any other request. After it, a binary frame, or more bytes than
//! expected, ends the connection.

mod handshake;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::{SinkExt, StreamExt};
use reqwest::Upgraded;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, error::ProtocolError};

use crate::client::send;
use crate::error::OutboundError;
use crate::request::HttpRequest;
use crate::vet::VettedTarget;
use handshake::WebSocketHandshake;

/// Size of the read buffer. There is one connection, and most messages are short.
const READ_BUFFER_BYTES: usize = 16 * 1024;
/// Allowance for the framing of messages, in bytes.
const FRAMING_ALLOWANCE: u64 = 64 * 1024;

/// Open WebSocket. The connection is closed on drop.
pub struct WebSocketConnection {
    host: String,
    frames: WebSocketStream<Metered>,
    limit: u64,
}

/// Opens a WebSocket with this subprotocol. No message may have more than `max` bytes.
pub(crate) async fn open(
    target: &VettedTarget,
    tls: &ClientConfig,
    request: &HttpRequest,
    (protocol, max): (&'static str, u64),
) -> Result<WebSocketConnection, OutboundError> {
    let refused = |why: String| OutboundError::WebSocketRefused { host: target.host.clone(), reason: why };
    let handshake = WebSocketHandshake::new(protocol);
    let response = send(target, tls, &handshake.apply_to(request.clone())).await?;
    handshake.check(&response).map_err(refused)?;
    let upgraded = response.upgrade().await.map_err(|_| refused("it closed the connection".to_owned()))?;
    let longest = usize::try_from(max).unwrap_or(usize::MAX);
    let settings = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_message_size(Some(longest))
        .max_frame_size(Some(longest));
    let connection = Metered { connection: upgraded, bytes_left: 0 };
    let frames = WebSocketStream::from_raw_socket(connection, Role::Client, Some(settings)).await;
    let mut socket = WebSocketConnection { host: target.host.clone(), frames, limit: max };
    socket.set_receive_limit(max);
    Ok(socket)
}

impl WebSocketConnection {
    /// Sets the number of bytes that may still be received, over all messages.
    pub fn set_receive_limit(&mut self, bytes: u64) {
        self.limit = bytes;
        self.frames.get_mut().bytes_left = bytes.saturating_add(FRAMING_ALLOWANCE);
    }

    /// Sends a text message. The caller sets the timeout.
    pub async fn send(&mut self, text: String) -> Result<(), OutboundError> {
        self.frames.send(Message::text(text)).await.map_err(|error| self.to_error(error))
    }

    /// Returns the next text message, or `None` if the server closed the connection. Answers pings meanwhile.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, OutboundError> {
        loop {
            match self.frames.next().await {
                Some(Ok(Message::Text(text))) => return Ok(Some(text.as_bytes().to_vec())),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_))) | None => return Ok(None),
                Some(Ok(Message::Binary(_) | Message::Frame(_))) => {
                    let why = "it sent a binary message; only text is allowed".to_owned();
                    return Err(OutboundError::InvalidFrame { host: self.host.clone(), reason: why });
                }
                Some(Err(error)) if is_connection_end(&error) => return Ok(None),
                Some(Err(error)) => return Err(self.to_error(error)),
            }
        }
    }

    /// Sends a close frame and does not wait for the server to confirm it.
    pub async fn close(mut self) {
        let _ = self.frames.send(Message::Close(None)).await;
    }

    fn to_error(&self, error: Error) -> OutboundError {
        let host = self.host.clone();
        match error {
            Error::Capacity(_) => OutboundError::TooManyBytes { host, limit: self.limit },
            Error::Io(error) if error.kind() == io::ErrorKind::QuotaExceeded => {
                OutboundError::TooManyBytes { host, limit: self.limit }
            }
            // This error contains the unsent message, which must not appear in an error text.
            Error::WriteBufferFull(_) => {
                OutboundError::InvalidFrame { host, reason: "the send buffer is full".to_owned() }
            }
            Error::Protocol(error) => {
                OutboundError::InvalidFrame { host, reason: error.to_string().to_lowercase() }
            }
            other => OutboundError::InvalidFrame { host, reason: other.to_string() },
        }
    }
}

/// Returns true if an error only means that the connection ended.
fn is_connection_end(error: &Error) -> bool {
    match error {
        Error::ConnectionClosed | Error::AlreadyClosed => true,
        Error::Protocol(error) => *error == ProtocolError::ResetWithoutClosingHandshake,
        Error::Io(error) => error.kind() != io::ErrorKind::QuotaExceeded,
        _ => false,
    }
}

/// Connection with the number of bytes that may still be received. It also counts frames without content, such
/// as pings and empty fragments, which the layers above do not see.
struct Metered {
    connection: Upgraded,
    bytes_left: u64,
}

impl AsyncRead for Metered {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.bytes_left == 0 {
            return Poll::Ready(Err(io::ErrorKind::QuotaExceeded.into()));
        }
        let before = into.filled().len();
        let read = Pin::new(&mut this.connection).poll_read(cx, into);
        let came = u64::try_from(into.filled().len().saturating_sub(before)).unwrap_or(u64::MAX);
        this.bytes_left = this.bytes_left.saturating_sub(came);
        read
    }
}

impl AsyncWrite for Metered {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().connection).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().connection).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().connection).poll_shutdown(cx)
    }
}
