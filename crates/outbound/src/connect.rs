//! Connection to a vetted address, with TLS for `https`.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::OutboundError;
use crate::vet::Place;

/// Maximum number of addresses that are tried per host.
const TRIES: usize = 4;
/// Time limit per address while there is another one to try.
const PATIENCE: Duration = Duration::from_secs(4);

/// An open connection.
pub(crate) enum Connection {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

/// Connects to the first of the vetted addresses that accepts.
pub(crate) async fn connect(place: &Place, tls: &Arc<ClientConfig>) -> Result<Connection, OutboundError> {
    let stream = open(place).await?;
    if place.url.scheme() != "https" {
        return Ok(Connection::Plain(stream));
    }
    let untrusted = |cause: io::Error| OutboundError::Untrusted { host: place.host.clone(), cause };
    let name = place.host.trim_matches(['[', ']']).trim_end_matches('.').to_owned();
    let name = ServerName::try_from(name).map_err(|error| untrusted(io::Error::other(error)))?;
    let secure = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await.map_err(untrusted)?;
    Ok(Connection::Secure(Box::new(secure)))
}

async fn open(place: &Place) -> Result<TcpStream, OutboundError> {
    let addresses = place.vetted.addresses();
    let mut last = io::Error::from(io::ErrorKind::NotConnected);
    for (at, address) in addresses.iter().take(TRIES).enumerate() {
        let is_last = at + 1 == addresses.len().min(TRIES);
        let connecting = TcpStream::connect(address);
        let connected = match is_last {
            true => connecting.await,
            false => match tokio::time::timeout(PATIENCE, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            },
        };
        match connected {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(OutboundError::Unreachable { host: place.host.clone(), cause: last })
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Connection::Plain(stream) => Pin::new(stream).poll_read(cx, into),
            Connection::Secure(stream) => Pin::new(stream).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Connection::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Connection::Secure(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Connection::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Connection::Secure(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Connection::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Connection::Secure(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
