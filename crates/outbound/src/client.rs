//! HTTP client for one request: one new connection to a vetted address, which is then closed. HTTP/1.1 only, so
//! that there is only one framing to handle.

use std::net::SocketAddr;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Request, Response};
use rustls::ClientConfig;

use crate::error::OutboundError;
use crate::request::{HttpMethod, HttpRequest};
use crate::vet::VettedTarget;

/// Maximum number of response headers. Their total size is limited by the buffer of hyper (408 KiB).
const MAX_HEADERS: usize = 128;
/// Maximum number of addresses that are tried per host.
const MAX_ADDRESSES: usize = 4;
/// Time limit for connecting. The client divides it among the addresses of the host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(16);

/// Sends a request over a new connection to a vetted address, and returns the head of the response.
pub(crate) async fn send(
    target: &VettedTarget,
    tls: &ClientConfig,
    http_request: &HttpRequest,
) -> Result<Response, OutboundError> {
    let failed = |error| OutboundError::from_client(&target.url, &error);
    let method = match http_request.method {
        HttpMethod::Get => reqwest::Method::GET,
        HttpMethod::Post => reqwest::Method::POST,
    };
    let mut request = Request::new(method, target.url.clone());
    *request.headers_mut() = headers(target, http_request)?;
    *request.body_mut() = Some(http_request.body.clone().into());
    client(target, tls).map_err(failed)?.execute(request).await.map_err(failed)
}

/// Returns a client that can connect only to the vetted addresses. Everything that reqwest would do by itself
/// is disabled, even if another crate enables the feature for it.
fn client(target: &VettedTarget, tls: &ClientConfig) -> reqwest::Result<Client> {
    let addresses = target.addresses().iter().copied().take(MAX_ADDRESSES).collect();
    Client::builder()
        .tls_backend_preconfigured(tls.clone())
        .dns_resolver(Pinned(addresses))
        .connect_timeout(CONNECT_TIMEOUT)
        .http1_only()
        .http1_max_headers(MAX_HEADERS)
        .pool_max_idle_per_host(0)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .no_proxy()
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .build()
}

/// Resolver that returns the vetted addresses for every name. The client has no other resolver, so it cannot
/// look up a name a second time.
struct Pinned(Vec<SocketAddr>);

impl Resolve for Pinned {
    fn resolve(&self, _: Name) -> Resolving {
        let addresses: Addrs = Box::new(self.0.clone().into_iter());
        Box::pin(std::future::ready(Ok(addresses)))
    }
}

fn headers(target: &VettedTarget, http_request: &HttpRequest) -> Result<HeaderMap, OutboundError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    for (name, text) in &http_request.headers {
        let value = HeaderValue::from_str(text).map_err(|_| OutboundError::InvalidHeader(name))?;
        headers.insert(HeaderName::from_static(name), value);
    }
    if let Some(credential) = &http_request.credential {
        let (name, value) = credential.header_for(target)?;
        headers.insert(name, value);
    }
    Ok(headers)
}
