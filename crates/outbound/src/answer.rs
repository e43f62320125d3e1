//! HTTP response: the body as received, and the few headers that are used. Cookies and all other headers are
//! dropped.

use url::Url;

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
