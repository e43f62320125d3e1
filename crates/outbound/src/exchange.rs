//! One request and its response over one connection, which is then closed. HTTP/1.1 only, so that there is
//! only one framing to handle.

use std::net::SocketAddr;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
};
use reqwest::{Client, Request, Response};
use rustls::ClientConfig;

use crate::answer::HttpResponse;
use crate::error::OutboundError;
use crate::question::{HttpRequest, Method};
use crate::stream::Stream;
use crate::vet::Place;

const MCP_SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Maximum number of response headers. Their total size is limited by the buffer of hyper (408 KiB).
const MOST_HEADERS: usize = 128;
/// Maximum number of content encodings. With more of them, the body is not decoded.
const MOST_CODINGS: usize = 4;
/// Maximum length of a header value that is returned.
const LONGEST_HEADER: usize = 8 * 1024;
/// Maximum number of addresses that are tried per host.
const MOST_ADDRESSES: usize = 4;
/// Time limit for connecting. The client divides it among the addresses of the host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(16);

/// Called with each part of a body. Returns true if the rest of the body is not needed.
pub(crate) type Enough<'a> = dyn FnMut(&[u8]) -> bool + Send + 'a;

/// Sends a request and reads the response up to the limit.
pub(crate) async fn exchange(
    place: &Place,
    tls: &ClientConfig,
    question: &HttpRequest,
    (most, is_enough): (u64, &mut Enough<'_>),
) -> Result<HttpResponse, OutboundError> {
    let response = send(place, tls, question).await?;
    Ok(read(place, response, (most, is_enough)).await)
}

/// Sends a request and returns the response as a stream.
pub(crate) async fn listen(
    place: &Place,
    tls: &ClientConfig,
    question: &HttpRequest,
) -> Result<Stream, OutboundError> {
    let response = send(place, tls, question).await?;
    let (status, content_type) = (response.status().as_u16(), header(response.headers(), &CONTENT_TYPE));
    Ok(Stream { status, content_type, host: place.host.clone(), response })
}

/// Sends a request over a new connection to a vetted address, and returns the head of the response.
pub(crate) async fn send(
    place: &Place,
    tls: &ClientConfig,
    question: &HttpRequest,
) -> Result<Response, OutboundError> {
    let failed = |error| OutboundError::from_client(&place.url, &error);
    let method = match question.method {
        Method::Get => reqwest::Method::GET,
        Method::Post => reqwest::Method::POST,
    };
    let mut request = Request::new(method, place.url.clone());
    *request.headers_mut() = headers(place, question)?;
    *request.body_mut() = Some(question.body.clone().into());
    client(place, tls).map_err(failed)?.execute(request).await.map_err(failed)
}

/// Returns a client that can connect only to the vetted addresses. Everything that reqwest would do by itself
/// is disabled, even if another crate enables the feature for it.
fn client(place: &Place, tls: &ClientConfig) -> reqwest::Result<Client> {
    let addresses = place.vetted.addresses().iter().copied().take(MOST_ADDRESSES).collect();
    Client::builder()
        .tls_backend_preconfigured(tls.clone())
        .dns_resolver(Pinned(addresses))
        .connect_timeout(CONNECT_TIMEOUT)
        .http1_only()
        .http1_max_headers(MOST_HEADERS)
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

fn headers(place: &Place, question: &HttpRequest) -> Result<HeaderMap, OutboundError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    for (name, text) in &question.headers {
        let value = HeaderValue::from_str(text).map_err(|_| OutboundError::Header(name))?;
        headers.insert(HeaderName::from_static(name), value);
    }
    if let Some(credential) = &question.credential {
        let (name, value) = credential.for_place(place)?;
        headers.insert(name, value);
    }
    Ok(headers)
}

async fn read(
    place: &Place,
    mut response: Response,
    (most, is_enough): (u64, &mut Enough<'_>),
) -> HttpResponse {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let (mut bytes, mut is_cut) = (Vec::new(), false);
    while !is_cut {
        match response.chunk().await {
            Ok(None) => break,
            Ok(Some(part)) => {
                let room = most - bytes.len();
                is_cut = part.len() > room;
                let part = part.get(..room.min(part.len())).unwrap_or_default();
                bytes.extend_from_slice(part);
                if is_enough(part) {
                    break;
                }
            }
            // The connection broke, or the body was shorter than announced: the received part is returned and
            // marked as truncated.
            Err(_) => is_cut = true,
        }
    }
    let headers = response.headers();
    HttpResponse {
        url: place.url.clone(),
        status: response.status().as_u16(),
        content_type: header(headers, &CONTENT_TYPE),
        codings: codings(headers),
        retry_after: header(headers, &RETRY_AFTER),
        location: header(headers, &LOCATION),
        mcp_session: header(headers, &MCP_SESSION),
        body: bytes,
        is_cut,
        led_by: Vec::new(),
    }
}

fn header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let bytes = headers.get(name)?.as_bytes();
    (bytes.len() <= LONGEST_HEADER).then(|| String::from_utf8_lossy(bytes).trim().to_owned())
}

fn codings(headers: &HeaderMap) -> Vec<String> {
    let named = headers.get_all(CONTENT_ENCODING).into_iter();
    let words = named.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let words = words.map(|word| word.trim().to_ascii_lowercase());
    words.filter(|word| !word.is_empty() && word != "identity").take(MOST_CODINGS + 1).collect()
}
