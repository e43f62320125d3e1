//! HTTP responses: the body as received, and the few headers that are used. Cookies and all other headers are
//! dropped.

use std::time::Duration;

use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION, RETRY_AFTER};
use url::Url;

use crate::error::OutboundError;
use crate::vet::VettedTarget;

const MCP_SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Maximum number of content encodings. With more of them, the body is not decoded.
const MAX_CONTENT_ENCODINGS: usize = 4;
/// Maximum length of a header value that is returned.
const MAX_HEADER_VALUE_BYTES: usize = 8 * 1024;

/// Called with each part of a body. Returns true if the rest of the body is not needed.
pub(crate) type StopReading<'a> = dyn FnMut(&[u8]) -> bool + Send + 'a;

/// HTTP response with an undecoded body.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    /// URL of the response, after all redirects.
    pub url: Url,
    /// Status code.
    pub status: u16,
    /// `Content-Type`, as sent.
    pub content_type: Option<String>,
    /// `Content-Encoding`, in the order the codings were applied.
    pub codings: Vec<String>,
    /// `Retry-After`, as sent.
    pub retry_after: Option<String>,
    /// `Location`, as sent: a redirect that was not followed.
    pub location: Option<String>,
    /// `Mcp-Session-Id`, as sent: session id that later requests to an MCP server must repeat.
    pub mcp_session: Option<String>,
    /// Body, up to the limit.
    pub body: Vec<u8>,
    /// True if the body was longer than the limit or ended early.
    pub is_cut: bool,
    /// URLs of the redirects that led here, in order; empty without redirects.
    pub led_by: Vec<Url>,
}

impl HttpResponse {
    /// Reads the body of a response up to `max` bytes.
    pub(crate) async fn read(
        target: &VettedTarget,
        mut response: reqwest::Response,
        max: u64,
        is_enough: &mut StopReading<'_>,
    ) -> HttpResponse {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let (mut bytes, mut is_cut) = (Vec::new(), false);
        while !is_cut {
            match response.chunk().await {
                Ok(None) => break,
                Ok(Some(part)) => {
                    let space = max - bytes.len();
                    is_cut = part.len() > space;
                    let part = part.get(..space.min(part.len())).unwrap_or_default();
                    bytes.extend_from_slice(part);
                    if is_enough(part) {
                        break;
                    }
                }
                // The connection broke, or the body was shorter than announced: the received part is returned
                // and marked as truncated.
                Err(_) => is_cut = true,
            }
        }
        let headers = response.headers();
        HttpResponse {
            url: target.url.clone(),
            status: response.status().as_u16(),
            content_type: header(headers, &CONTENT_TYPE),
            codings: content_encodings(headers),
            retry_after: header(headers, &RETRY_AFTER),
            location: header(headers, &LOCATION),
            mcp_session: header(headers, &MCP_SESSION),
            body: bytes,
            is_cut,
            led_by: Vec::new(),
        }
    }

    /// Returns an error if a gateway in front of the server could not reach it. A pause that is not given in
    /// seconds counts as a long one.
    pub(crate) fn check_available(&self, host: &str) -> Result<(), OutboundError> {
        if !matches!(self.status, 502..=504) {
            return Ok(());
        }
        let pause = self.retry_after.as_ref();
        let retry_after = pause.map(|text| text.parse().map_or(Duration::MAX, Duration::from_secs));
        Err(OutboundError::Unavailable { host: host.to_owned(), status: self.status, retry_after })
    }

    /// Returns the URL of the next hop, or `None` if the response is final. Only the standard status codes
    /// count: a `Refresh` header, or a page that reloads by itself, is returned and not followed.
    pub(crate) fn redirect_target(&self, host: &str) -> Result<Option<Url>, OutboundError> {
        if !matches!(self.status, 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let Some(location) = &self.location else { return Ok(None) };
        let joined = self.url.join(location);
        joined.map(Some).map_err(|_| OutboundError::BadRedirect { host: host.to_owned() })
    }
}

/// Body of a response that is still arriving. The connection is closed on drop.
pub struct ResponseStream {
    /// Status code.
    pub status: u16,
    /// `Content-Type`, as sent.
    pub content_type: Option<String>,
    host: String,
    response: reqwest::Response,
}

impl ResponseStream {
    pub(crate) fn new(target: &VettedTarget, response: reqwest::Response) -> Self {
        let (status, content_type) = (response.status().as_u16(), header(response.headers(), &CONTENT_TYPE));
        ResponseStream { status, content_type, host: target.host.clone(), response }
    }

    /// Returns the next part, or `None` at the end. The caller sets the timeout.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, OutboundError> {
        let part = self.response.chunk().await;
        part.map(|part| part.map(Vec::from)).map_err(|error| OutboundError::garbled(&self.host, &error))
    }
}

fn header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let bytes = headers.get(name)?.as_bytes();
    (bytes.len() <= MAX_HEADER_VALUE_BYTES).then(|| String::from_utf8_lossy(bytes).trim().to_owned())
}

fn content_encodings(headers: &HeaderMap) -> Vec<String> {
    let named = headers.get_all(CONTENT_ENCODING).into_iter();
    let encodings = named.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let encodings = encodings.map(|word| word.trim().to_ascii_lowercase());
    encodings.filter(|word| !word.is_empty() && word != "identity").take(MAX_CONTENT_ENCODINGS + 1).collect()
}
