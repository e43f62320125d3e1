//! Key that is sent to one origin, in one header, and never unencrypted over a network.
//!
//! The origin is set when the credential is created and checked when it is sent. No redirect, no address from
//! a server and no mistake in a caller can send the key to another host.

use std::fmt;

use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use url::Url;

use crate::error::OutboundError;
use crate::gateway::handshake_url;
use crate::key::ApiKey;
use crate::vet::VettedTarget;

/// Headers that frame or route messages, and so cannot carry a key.
const RESERVED_HEADERS: [&str; 14] = [
    "accept",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];
const RESERVED_PREFIXES: [&str; 4] = ["mcp-", "sec-", "proxy-", "x-forwarded-"];

/// Key, the header that carries it, and the one origin it belongs to.
#[derive(Clone)]
pub struct Credential {
    /// Scheme, host and port.
    origin: url::Origin,
    header: HeaderName,
    value: HeaderValue,
    key: ApiKey,
}

impl Credential {
    /// Creates a credential for the server at this URL: as a bearer token, or as the whole value of the named
    /// header.
    pub fn new(key: ApiKey, url: &str, header: Option<&str>) -> Result<Credential, OutboundError> {
        let origin = origin(url).ok_or(OutboundError::InvalidHeader("authorization"))?;
        let (header, value) = match header {
            None => (AUTHORIZATION, format!("Bearer {}", key.reveal())),
            Some(name) => {
                (key_header_name(name).ok_or(OutboundError::ReservedKeyHeader)?, key.reveal().to_owned())
            }
        };
        let mut value =
            HeaderValue::from_str(&value).map_err(|_| OutboundError::InvalidHeader("authorization"))?;
        value.set_sensitive(true);
        Ok(Credential { origin, header, value, key })
    }

    /// Returns the header, if the target has the right origin and the connection is encrypted or local.
    pub(crate) fn header_for(
        &self,
        target: &VettedTarget,
    ) -> Result<(HeaderName, HeaderValue), OutboundError> {
        let host = || target.host.clone();
        if target.url.origin() != self.origin {
            return Err(OutboundError::KeyOriginMismatch { host: host() });
        }
        // Decided by the connected addresses, not by the host name.
        let stays_here = || target.addresses().iter().all(|at| at.ip().to_canonical().is_loopback());
        if target.url.scheme() != "https" && !stays_here() {
            return Err(OutboundError::KeyUnencrypted { host: host() });
        }
        Ok((self.header.clone(), self.value.clone()))
    }

    /// Returns a text of the server with the key masked, or `None` if the text does not contain it.
    pub fn mask(&self, text: &str) -> Option<String> {
        self.key.mask(text)
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("header", &self.header).finish_non_exhaustive()
    }
}

/// Returns true if a key may be sent in a header of this name.
pub fn may_carry_key(name: &str) -> bool {
    key_header_name(name).is_some()
}

fn key_header_name(name: &str) -> Option<HeaderName> {
    let name = name.to_ascii_lowercase();
    let is_reserved = RESERVED_HEADERS.contains(&name.as_str())
        || RESERVED_PREFIXES.iter().any(|family| name.starts_with(family));
    if is_reserved { None } else { HeaderName::from_bytes(name.as_bytes()).ok() }
}

/// Returns the origin of a URL. The origin of a WebSocket URL is that of its HTTP handshake.
fn origin(url: &str) -> Option<url::Origin> {
    let url = handshake_url(url).unwrap_or_else(|_| url.to_owned());
    Url::parse(&url).ok().map(|url| url.origin()).filter(url::Origin::is_tuple)
}
