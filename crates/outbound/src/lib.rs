//! Outbound connections: every host that a call names, and every service that a tool uses, is connected to
//! through this crate.
//!
//! An `HttpGateway` takes a permit and a URL. It parses the URL once, asks the permit whether the host may be
//! reached, resolves the name once, vets every resolved address, and connects to one of those by IP address.
//! Each redirect goes through the same steps. Size, time and headers are limited.
//!
//! This crate uses no proxy from the environment, stores no cookies, and does not decode bodies: they are
//! untrusted bytes, which a sandboxed process parses. It understands only the framing of HTTP and WebSocket.
//! No other crate opens a connection for a call.

mod answer;
mod credential;
mod error;
mod exchange;
mod gatekeeper;
mod key;
mod port;
mod question;
mod redirect;
mod resolver;
mod socket;
mod stream;
mod tls;
mod vet;

#[cfg(test)]
mod tests;

pub use answer::HttpResponse;
pub use credential::{Credential, may_carry_key};
pub use error::OutboundError;
pub use gatekeeper::{Gatekeeper, MOST_HOPS};
pub use key::{Key, KeyPlaces};
pub use question::{Caps, HttpRequest, Method};
pub use socket::Socket;
pub use stream::Stream;
pub use tls::Roots;
