//! Outbound connections: every host that a call names, and every service that a tool uses, is connected to
//! through this crate.
//!
//! An `HttpGateway` takes a permit and a URL. It parses the URL once, asks the permit whether the host may be
//! reached, resolves the name once, vets every resolved address, and connects to one of those by IP address.
//! Each redirect goes through the same steps. Size, time and headers are limited.
//!
//! This crate uses no proxy from the environment, stores no cookies, and does not decode bodies: they are
//! untrusted bytes, which a sandboxed process parses. It parses only the framing of HTTP and WebSocket.
//! No other crate opens a connection for a call.

mod client;
mod credential;
mod error;
mod gateway;
mod key;
mod request;
mod response;
mod tls;
mod vet;
mod websocket;

#[cfg(test)]
mod tests;

pub use credential::{Credential, may_carry_key};
pub use error::OutboundError;
pub use gateway::{HttpGateway, MAX_REDIRECTS};
pub use key::{ApiKey, KeySources};
pub use request::{HttpMethod, HttpRequest, ResponseLimits};
pub use response::{HttpResponse, ResponseStream};
pub use tls::TrustedRoots;
pub use websocket::WebSocketConnection;
