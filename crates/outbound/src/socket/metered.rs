//! Connection with a limit on received bytes. It also counts frames without content, such as pings and empty
//! fragments, which the layers above do not see.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use reqwest::Upgraded;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Connection with the number of bytes that may still be received.
pub(super) struct Metered {
    connection: Upgraded,
    left: u64,
}

impl Metered {
    /// Wraps a connection with a limit of zero bytes.
    pub(super) fn new(connection: Upgraded) -> Self {
        Metered { connection, left: 0 }
    }

    /// Sets the number of bytes that may still be received.
    pub(super) fn allow(&mut self, bytes: u64) {
        self.left = bytes;
    }
}

impl AsyncRead for Metered {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.left == 0 {
            return Poll::Ready(Err(io::ErrorKind::QuotaExceeded.into()));
        }
        let before = into.filled().len();
        let read = Pin::new(&mut this.connection).poll_read(cx, into);
        let came = u64::try_from(into.filled().len().saturating_sub(before)).unwrap_or(u64::MAX);
        this.left = this.left.saturating_sub(came);
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
