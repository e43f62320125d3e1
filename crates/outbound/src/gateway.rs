//! Gateway for outbound requests. It vets every hop of a request.

use std::sync::Arc;
use std::time::Instant;

use governance::Permit;
use governance::reserved_ports::ReservedPorts;
use rustls::ClientConfig;
use url::Url;

use crate::client::send;
use crate::error::OutboundError;
use crate::request::{HttpRequest, ResponseLimits};
use crate::response::{HttpResponse, ResponseStream, StopReading};
use crate::tls::TrustedRoots;
use crate::vet::{Resolver, UrlSource, VettedTarget, vet};
use crate::websocket::{self, WebSocketConnection};

/// Maximum number of redirects that are followed.
pub const MAX_REDIRECTS: usize = 5;

/// Opens every connection that a call makes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HttpGateway {
    tls: Arc<ClientConfig>,
    resolver: Resolver,
    reserved_ports: ReservedPorts,
}

impl HttpGateway {
    /// Creates a gateway that trusts these certificates.
    pub fn new(roots: TrustedRoots) -> Result<Self, OutboundError> {
        let tls = roots.client_config().map_err(|error| OutboundError::InvalidRoots {
            file: "the built-in list".to_owned(),
            cause: error.to_string(),
        })?;
        Ok(HttpGateway {
            tls: Arc::new(tls),
            resolver: Resolver::System,
            reserved_ports: ReservedPorts::default(),
        })
    }

    /// Refuses connections to these ports of this machine, whatever the policy permits.
    pub fn with_reserved_ports(self, reserved_ports: ReservedPorts) -> Self {
        HttpGateway { reserved_ports, ..self }
    }

    #[cfg(test)]
    pub(crate) fn with_resolver(self, script: Arc<crate::tests::ScriptedResolver>) -> Self {
        HttpGateway { resolver: Resolver::Scripted(script), ..self }
    }

    /// Gets a page that a caller named, and follows redirects. The headers are sent at every hop, so they
    /// must not contain a credential; a request with one uses `send`. Half of the time must be left when the
    /// response begins, so that the pipeline can retry a host that does not respond.
    pub async fn get(
        &self,
        permit: &Permit,
        url: &str,
        headers: &[(&'static str, String)],
        caps: ResponseLimits,
    ) -> Result<HttpResponse, OutboundError> {
        let begin_by = caps.deadline - caps.deadline.saturating_duration_since(Instant::now()) / 2;
        let mut led_by: Vec<Url> = Vec::new();
        let mut next = url.to_owned();
        loop {
            let request = HttpRequest { headers: headers.to_vec(), ..HttpRequest::get(next) };
            let request_future = self.begin(permit, &request, UrlSource::Caller);
            let (target, response) = with_deadline(request_future, &request, begin_by).await?;
            let reading =
                async { Ok(HttpResponse::read(&target, response, caps.body_bytes, &mut read_all).await) };
            let http_response = with_deadline(reading, &request, caps.deadline).await?;
            let host = http_response.url.host_str().unwrap_or_default().to_owned();
            http_response.check_available(&host)?;
            let Some(redirect) = http_response.redirect_target(&host)? else {
                return Ok(HttpResponse { led_by, ..http_response });
            };
            led_by.push(http_response.url);
            if led_by.len() > MAX_REDIRECTS {
                return Err(OutboundError::TooManyRedirects { host, hops: led_by.len() });
            }
            next = redirect.into();
        }
    }

    /// Sends a request to a service that the settings name. Redirects are not followed, so that keys are sent
    /// to no other host.
    pub async fn send(
        &self,
        permit: &Permit,
        request: &HttpRequest,
        caps: ResponseLimits,
    ) -> Result<HttpResponse, OutboundError> {
        self.send_once(permit, request, UrlSource::Settings, caps, &mut read_all).await
    }

    /// Sends a request to a server that a manifest names. `is_enough` is called with each part of the body
    /// and returns true to stop reading, because some servers leave their response open.
    pub async fn send_until(
        &self,
        permit: &Permit,
        request: &HttpRequest,
        caps: ResponseLimits,
        is_enough: &mut StopReading<'_>,
    ) -> Result<HttpResponse, OutboundError> {
        self.send_once(permit, request, UrlSource::Manifest, caps, is_enough).await
    }

    /// Sends a request to a server that a manifest names, and returns the response as a stream. The response
    /// must begin by the deadline.
    pub async fn open_stream(
        &self,
        permit: &Permit,
        request: &HttpRequest,
        deadline: Instant,
    ) -> Result<ResponseStream, OutboundError> {
        let listening = async {
            let target = self.vet_target(permit, request, &request.url, UrlSource::Manifest).await?;
            Ok(ResponseStream::new(&target, send(&target, &self.tls, request).await?))
        };
        with_deadline(listening, request, deadline).await
    }

    /// Opens a WebSocket with this subprotocol to a server that a manifest names. A `ws` URL is judged and
    /// connected to as `http`, a `wss` URL as `https`. No message may be larger than the limit, and the
    /// handshake must finish by the deadline.
    pub async fn open_websocket(
        &self,
        permit: &Permit,
        request: &HttpRequest,
        protocol: &'static str,
        caps: ResponseLimits,
    ) -> Result<WebSocketConnection, OutboundError> {
        let opening = async {
            let url = handshake_url(&request.url)?;
            let target = self.vet_target(permit, request, &url, UrlSource::Manifest).await?;
            websocket::open(&target, &self.tls, request, (protocol, caps.body_bytes)).await
        };
        with_deadline(opening, request, caps.deadline).await
    }

    /// Vets the target of a request. If the request has a key for another origin, it fails before any
    /// connection is opened.
    async fn vet_target(
        &self,
        permit: &Permit,
        request: &HttpRequest,
        url: &str,
        named_by: UrlSource,
    ) -> Result<VettedTarget, OutboundError> {
        let target = vet(permit, (&self.resolver, &self.reserved_ports), url, named_by).await?;
        request.credential.as_ref().map_or(Ok(()), |credential| credential.header_for(&target).map(drop))?;
        Ok(target)
    }

    async fn send_once(
        &self,
        permit: &Permit,
        request: &HttpRequest,
        named_by: UrlSource,
        caps: ResponseLimits,
        is_enough: &mut StopReading<'_>,
    ) -> Result<HttpResponse, OutboundError> {
        let request_future = async {
            let (target, response) = self.begin(permit, request, named_by).await?;
            Ok(HttpResponse::read(&target, response, caps.body_bytes, is_enough).await)
        };
        with_deadline(request_future, request, caps.deadline).await
    }

    /// Sends a request and returns the head of its response.
    async fn begin(
        &self,
        permit: &Permit,
        request: &HttpRequest,
        named_by: UrlSource,
    ) -> Result<(VettedTarget, reqwest::Response), OutboundError> {
        let target = self.vet_target(permit, request, &request.url, named_by).await?;
        let response = send(&target, &self.tls, request).await?;
        Ok((target, response))
    }
}

/// Returns the HTTP URL for the handshake of a WebSocket URL.
pub(crate) fn handshake_url(url: &str) -> Result<String, OutboundError> {
    let secure = url.strip_prefix("wss://").map(|rest| format!("https://{rest}"));
    let plain = || url.strip_prefix("ws://").map(|rest| format!("http://{rest}"));
    secure.or_else(plain).ok_or_else(|| OutboundError::WebSocketRefused {
        host: host_of(url),
        reason: "its address begins with neither `ws://` nor `wss://`".to_owned(),
    })
}

fn host_of(url: &str) -> String {
    let url = Url::parse(url).ok();
    url.as_ref().and_then(Url::host_str).unwrap_or_default().to_owned()
}

async fn with_deadline<T>(
    request_future: impl Future<Output = Result<T, OutboundError>>,
    request: &HttpRequest,
    deadline: Instant,
) -> Result<T, OutboundError> {
    let remaining = deadline.saturating_duration_since(Instant::now());
    match tokio::time::timeout(remaining, request_future).await {
        Ok(result) => result,
        Err(_) => Err(OutboundError::TimedOut { host: host_of(&request.url) }),
    }
}

/// Never stops reading early.
fn read_all(_: &[u8]) -> bool {
    false
}
