//! A key on its way: for one address, in one header, and not in the open.
//!
//! What it is for is decided when it is made and checked when it is sent, so that no redirect, no address that a server
//! names and no mistake further up can have it sent to anybody else.

use std::fmt;

use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use url::Url;

use crate::error::OutboundError;
use crate::gatekeeper::of_the_web;
use crate::key::Key;
use crate::vet::Place;

/// A key that is shorter is not looked for in what a server says: it would be found everywhere.
const SHORTEST_MASKED: usize = 6;
/// What stands where a server repeated a key.
const MASK: &str = "[key]";
/// Headers by which messages are told apart or led: no key stands in one of them.
const RESERVED: [&str; 14] = [
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
const RESERVED_FAMILIES: [&str; 4] = ["mcp-", "sec-", "proxy-", "x-forwarded-"];

/// A key, the header it is sent in and the one address it is for.
#[derive(Clone)]
pub struct Credential {
    /// Scheme, host and port.
    origin: url::Origin,
    header: HeaderName,
    value: HeaderValue,
    key: Key,
}

impl Credential {
    /// For the server at this address: as a bearer token, or alone in a header of this name.
    pub fn new(key: Key, url: &str, header: Option<&str>) -> Result<Credential, OutboundError> {
        let origin = origin(url).ok_or(OutboundError::Header("authorization"))?;
        let (header, value) = match header {
            None => (AUTHORIZATION, format!("Bearer {}", key.reveal())),
            Some(name) => (header_name(name).ok_or(OutboundError::KeyHeader)?, key.reveal().to_owned()),
        };
        let mut value = HeaderValue::from_str(&value).map_err(|_| OutboundError::Header("authorization"))?;
        value.set_sensitive(true);
        Ok(Credential { origin, header, value, key })
    }

    /// The header, if this is the place it is for and nobody on the way can read it.
    pub(crate) fn for_place(&self, place: &Place) -> Result<(HeaderName, HeaderValue), OutboundError> {
        let host = || place.host.clone();
        if place.url.origin() != self.origin {
            return Err(OutboundError::KeyAstray { host: host() });
        }
        // By where the connection goes, not by what the host is called.
        let stays_here = || place.vetted.addresses().iter().all(|at| at.ip().to_canonical().is_loopback());
        if place.url.scheme() != "https" && !stays_here() {
            return Err(OutboundError::KeyInTheOpen { host: host() });
        }
        Ok((self.header.clone(), self.value.clone()))
    }

    /// A text of the server without the key, where it repeats it, or its beginning where the text was cut.
    pub fn masked(&self, text: &str) -> Option<String> {
        let key = self.key.reveal();
        if key.len() < SHORTEST_MASKED {
            return None;
        }
        let whole = text.contains(key).then(|| text.replace(key, MASK));
        without_cut_key(whole.as_deref().unwrap_or(text), key).or(whole)
    }
}

/// The text without a key that it was cut in the middle of.
fn without_cut_key(text: &str, key: &str) -> Option<String> {
    let text = text.trim_end_matches('…');
    let before =
        (SHORTEST_MASKED..key.len()).rev().find_map(|length| text.strip_suffix(key.get(..length)?))?;
    Some(format!("{before}{MASK}"))
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("header", &self.header).finish_non_exhaustive()
    }
}

/// Whether a key may be sent in a header of this name.
pub fn may_carry_key(name: &str) -> bool {
    header_name(name).is_some()
}

fn header_name(name: &str) -> Option<HeaderName> {
    let name = name.to_ascii_lowercase();
    let is_reserved =
        RESERVED.contains(&name.as_str()) || RESERVED_FAMILIES.iter().any(|family| name.starts_with(family));
    if is_reserved { None } else { HeaderName::from_bytes(name.as_bytes()).ok() }
}

/// Where an address leads. One of a web socket is asked for by HTTP.
fn origin(url: &str) -> Option<url::Origin> {
    let url = of_the_web(url).unwrap_or_else(|_| url.to_owned());
    Url::parse(&url).ok().map(|url| url.origin()).filter(url::Origin::is_tuple)
}
