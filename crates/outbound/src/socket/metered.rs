//! A connection that may say so much and no more. Frames that carry nothing, such as pings and empty parts, are counted
//! here as well: above, nobody would see them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection, and the bytes that may still come by it.
pub(super) struct Metered {
    connection: TokioIo<Upgraded>,
    left: u64,
}

impl Metered {
    /// One by which nothing may come yet.
    pub(super) fn new(connection: TokioIo<Upgraded>) -> Self {
        Metered { connection, left: 0 }
    }

    /// From now on so many bytes may come.
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
