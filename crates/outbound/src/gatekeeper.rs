//! Gateway for outbound requests. It vets every hop of a request.

use std::sync::Arc;
use std::time::Instant;

use governance::Permit;
use rustls::ClientConfig;
use url::Url;

use crate::client::send;
use crate::error::OutboundError;
use crate::request::{Caps, HttpRequest};
use crate::response::{Enough, HttpResponse, Stream};
use crate::socket::{self, Socket};
use crate::tls::Roots;
use crate::vet::{NamedBy, Place, Resolver, vet};

/// Maximum number of redirects that are followed.
pub const MOST_HOPS: usize = 5;

/// Opens every connection that a call makes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Gatekeeper {
    tls: Arc<ClientConfig>,
    resolver: Resolver,
}

impl Gatekeeper {
    /// Creates a gateway that trusts these certificates.
    pub fn new(roots: Roots) -> Result<Self, OutboundError> {
        let tls = roots.configuration().map_err(|error| OutboundError::Roots {
            file: "the built-in list".to_owned(),
            cause: error.to_string(),
        })?;
        Ok(Gatekeeper { tls: Arc::new(tls), resolver: Resolver::System })
    }

    #[cfg(test)]
    pub(crate) fn asking(self, script: Arc<crate::tests::Script>) -> Self {
        Gatekeeper { resolver: Resolver::Scripted(script), ..self }
    }

    /// Gets a page that a caller named, and follows redirects. The headers are sent at every hop, so they
    /// must not contain a credential; a request with one uses `send`.
    pub async fn get(
        &self,
        permit: &Permit,
        url: &str,
        headers: &[(&'static str, String)],
        caps: Caps,
    ) -> Result<HttpResponse, OutboundError> {
        let mut led_by: Vec<Url> = Vec::new();
        let mut next = url.to_owned();
        loop {
            let question = HttpRequest { headers: headers.to_vec(), ..HttpRequest::get(next) };
            let answer = self.ask_once(permit, &question, NamedBy::Caller, caps, &mut to_the_end).await?;
            let host = answer.url.host_str().unwrap_or_default().to_owned();
            let Some(onward) = answer.redirect_target(&host)? else {
                return Ok(HttpResponse { led_by, ..answer });
            };
            led_by.push(answer.url);
            if led_by.len() > MOST_HOPS {
                return Err(OutboundError::TooManyRedirects { host, hops: led_by.len() });
            }
            next = onward.into();
        }
    }

    /// Sends a request to a service that the settings name. Redirects are not followed, so that keys are sent
    /// to no other host.
    pub async fn ask(
        &self,
        permit: &Permit,
        question: &HttpRequest,
        caps: Caps,
    ) -> Result<HttpResponse, OutboundError> {
        self.ask_once(permit, question, NamedBy::Settings, caps, &mut to_the_end).await
    }

    /// Sends a request to a server that a manifest names. `is_enough` is called with each part of the body
    /// and returns true to stop reading, because some servers leave their response open.
    pub async fn converse(
        &self,
        permit: &Permit,
        question: &HttpRequest,
        caps: Caps,
        is_enough: &mut Enough<'_>,
    ) -> Result<HttpResponse, OutboundError> {
        self.ask_once(permit, question, NamedBy::Manifest, caps, is_enough).await
    }

    /// Sends a request to a server that a manifest names, and returns the response as a stream. The response
    /// must begin by the deadline.
    pub async fn listen(
        &self,
        permit: &Permit,
        question: &HttpRequest,
        deadline: Instant,
    ) -> Result<Stream, OutboundError> {
        let listening = async {
            let place = self.place(permit, question, &question.url, NamedBy::Manifest).await?;
            Ok(Stream::new(&place, send(&place, &self.tls, question).await?))
        };
        in_time(listening, question, deadline).await
    }

    /// Opens a WebSocket with this subprotocol to a server that a manifest names. A `ws` URL is judged and
    /// connected to as `http`, a `wss` URL as `https`. No message may be larger than the limit, and the
    /// handshake must finish by the deadline.
    pub async fn open_socket(
        &self,
        permit: &Permit,
        question: &HttpRequest,
        protocol: &'static str,
        caps: Caps,
    ) -> Result<Socket, OutboundError> {
        let opening = async {
            let url = of_the_web(&question.url)?;
            let place = self.place(permit, question, &url, NamedBy::Manifest).await?;
            socket::open(&place, &self.tls, question, (protocol, caps.body_bytes)).await
        };
        in_time(opening, question, caps.deadline).await
    }

    /// Vets the target of a request. If the request has a key for another origin, it fails before any
    /// connection is opened.
    async fn place(
        &self,
        permit: &Permit,
        question: &HttpRequest,
        url: &str,
        named_by: NamedBy,
    ) -> Result<Place, OutboundError> {
        let place = vet(permit, &self.resolver, url, named_by).await?;
        question.credential.as_ref().map_or(Ok(()), |credential| credential.for_place(&place).map(drop))?;
        Ok(place)
    }

    async fn ask_once(
        &self,
        permit: &Permit,
        question: &HttpRequest,
        named_by: NamedBy,
        caps: Caps,
        is_enough: &mut Enough<'_>,
    ) -> Result<HttpResponse, OutboundError> {
        let asking = async {
            let place = self.place(permit, question, &question.url, named_by).await?;
            let response = send(&place, &self.tls, question).await?;
            Ok(HttpResponse::read(&place, response, caps.body_bytes, is_enough).await)
        };
        in_time(asking, question, caps.deadline).await
    }
}

/// Returns the HTTP URL for the handshake of a WebSocket URL.
pub(crate) fn of_the_web(url: &str) -> Result<String, OutboundError> {
    let secure = url.strip_prefix("wss://").map(|rest| format!("https://{rest}"));
    let plain = || url.strip_prefix("ws://").map(|rest| format!("http://{rest}"));
    secure.or_else(plain).ok_or_else(|| OutboundError::NoSocket {
        host: host_of(url),
        why: "its address begins with neither `ws://` nor `wss://`".to_owned(),
    })
}

fn host_of(url: &str) -> String {
    let url = Url::parse(url).ok();
    url.as_ref().and_then(Url::host_str).unwrap_or_default().to_owned()
}

async fn in_time<T>(
    asking: impl Future<Output = Result<T, OutboundError>>,
    question: &HttpRequest,
    deadline: Instant,
) -> Result<T, OutboundError> {
    let left = deadline.saturating_duration_since(Instant::now());
    match tokio::time::timeout(left, asking).await {
        Ok(answered) => answered,
        Err(_) => Err(OutboundError::TimedOut { host: host_of(&question.url) }),
    }
}

/// Never stops reading early.
fn to_the_end(_: &[u8]) -> bool {
    false
}
